"""``nispa compare``: mean and deviation over seeds, in the terminal or as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from nispa.errors import NispaError


def register(app: App) -> None:
    app.command(compare)


def compare(
    runs: Annotated[list[Path], Parameter(negative="", help="Folders of runs, or of several.")],
    /,
    *,
    csv: Annotated[Path | None, Parameter(help="Write every accuracy of every run.")] = None,
    json: Annotated[Path | None, Parameter(help="Write the table with all its numbers.")] = None,
    markdown: Annotated[Path | None, Parameter(help="Write the table for a page.")] = None,
) -> int:
    """Show mean and deviation over seeds, per task and method, beside the paper's numbers.

    Runs that are not complete are named and never counted.
    """
    from nispa import atomic
    from nispa.cli.show import out
    from nispa.experiment import collect
    from nispa.experiment import compare as made

    found = collect.collect(runs)
    groups, incomplete = collect.group(found), [run for run in found if run.results is None]
    if not groups:
        for line in made.incomplete_lines(incomplete):
            out(line)
        raise NispaError("no run here is complete; there is nothing to compare")
    command = " ".join(["nispa compare", *(str(run) for run in runs)])
    if csv is not None:
        atomic.write(csv, made.as_csv(groups))
    if json is not None:
        atomic.write(json, made.as_json(groups, incomplete))
    if markdown is not None:
        atomic.write(markdown, made.as_markdown(groups, incomplete, command))
    out(made.as_text(groups, incomplete))
    return 0
