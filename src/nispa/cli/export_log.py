"""``nispa export-log``: runs for TensorBoard, MLflow, Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

Target = Literal["tensorboard", "mlflow", "wandb"]
DEFAULTS = {"tensorboard": "tensorboard", "mlflow": "mlflow.db", "wandb": "."}


def register(app: App) -> None:
    app.command(export_log, name="export-log")


def export_log(
    runs: Annotated[list[Path], Parameter(negative="", help="Folders of runs, or of several.")],
    /,
    *,
    to: Target,
    out: Annotated[
        str | None,
        Parameter(help="A folder; for mlflow a SQLite file, or a server's URL. Default: here."),
    ] = None,
) -> int:
    """Copy what runs recorded to a tracker: curves, settings, results.

    A run that was copied before is replaced; one that still goes on is copied as far as it is.
    """
    from nispa.cli.show import out as say
    from nispa.experiment.collect import collect
    from nispa.experiment.exporters import export

    for line in export(collect(runs), to, out or DEFAULTS[to]):
        say(line)
    return 0
