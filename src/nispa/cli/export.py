"""``nispa export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from nispa.cli.show import out
from nispa.errors import NispaError


def register(app: App) -> None:
    app.command(export)


def export(
    model: Path,
    *,
    onnx: Annotated[Path | None, Parameter(help="Write an ONNX graph.")] = None,
    task: Annotated[str | None, Parameter(help="Of this task alone; it is smaller.")] = None,
    hub: Annotated[Path | None, Parameter(help="Write the files of a Hugging Face repository.")] = None,
    push: Annotated[str | None, Parameter(help="Upload to the hub as USER/NAME.")] = None,
) -> int:
    """Write the model as ONNX, or for the Hugging Face hub."""
    from nispa.model import Model

    if onnx is None and hub is None and push is None:
        raise NispaError("nothing to write; give --onnx FILE, --hub FOLDER or --push USER/NAME")
    opened = Model.open(model)
    if onnx is not None:
        notes = opened.export_onnx(onnx, task)
        out(f"{onnx}: {', '.join(notes['tasks'])}")
        out(f"{notes['live_weights']:,} of {notes['weights']:,} weights are live; the graph stores all")
    if hub is not None:
        opened.save_pretrained(hub)
        out(f"{hub}: model.safetensors, config.json, README.md")
    if push is not None:
        out(opened.push(push))
    return 0
