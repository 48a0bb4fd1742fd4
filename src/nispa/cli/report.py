"""``nispa report``: one page about some runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter


def register(app: App) -> None:
    app.command(report)


def report(
    runs: Annotated[list[Path], Parameter(negative="", help="Folders of runs, or of several.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The page to write.")] = Path("report.html"),
) -> int:
    """Write a web page on some runs: accuracy beside the paper's, and the network phase by phase.

    The page is one file that needs no network.
    """
    from nispa.cli.show import out as say
    from nispa.experiment.report import write

    write(runs, out)
    say(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")
    return 0
