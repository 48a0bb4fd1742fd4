"""``nispa paper``: run and draw the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from nispa.cli.run import DEFAULT_OUT, Engine, Whole, check_counts
from nispa.errors import NispaError

if TYPE_CHECKING:
    from nispa.experiment.paper.grid import Asked


def register(app: App) -> None:
    app.command(paper)


def paper(
    name: str | None = None,
    *,
    scale: Annotated[
        Literal["full", "quick"], Parameter(help="quick: smaller, minutes; the figure says so.")
    ] = "full",
    seeds: Annotated[str | None, Parameter(help="Default: the authors' five, or fewer if quick.")] = None,
    jobs: Annotated[Whole, Parameter(help="How many runs go side by side.")] = 1,
    threads: Annotated[Whole | None, Parameter(help="Threads of all runs together.")] = None,
    data: Annotated[Path | None, Parameter(help="Folder of data sets, else NISPA_DATA.")] = None,
    out: Annotated[Path | None, Parameter(help="Default: runs/paper or runs/paper-quick.")] = None,
    streams: Annotated[str | None, Parameter(help="Only these of the experiment's streams.")] = None,
    methods: Annotated[str | None, Parameter(help="Only these of the experiment's methods.")] = None,
    buffer: Annotated[str | None, Parameter(help="cil: samples per class; default 10,50,100.")] = None,
    dense: Annotated[bool, Parameter(help="cil: dense baselines, too.", negative="")] = False,
    engine: Engine = "auto",
    draw_only: Annotated[bool, Parameter(help="Run nothing; draw what there is.", negative="")] = False,
    page: Annotated[Path | None, Parameter(help="Write a page of all that OUT has into a folder.")] = None,
) -> int:
    """Run an experiment of the paper, or finish it, and draw its figure or table.

    NAME is one of the experiments that `nispa paper` lists. Runs are kept in OUT/runs and shared by all
    experiments: the same command again goes on where it stopped, and more seeds can be added.
    """
    from nispa.cli.live import follow_many
    from nispa.cli.run import _integer
    from nispa.cli.show import listing
    from nispa.cli.show import out as say
    from nispa.experiment.paper import EXPERIMENTS, experiment

    root = out or DEFAULT_OUT / ("paper-quick" if scale == "quick" else "paper")
    if page is not None:
        from nispa.experiment.paper.page import write

        say(f"{write([root], page)}")
        return 0
    if name is None:
        listing("Experiments of the paper", list(EXPERIMENTS.items()))
        return 0
    check_counts(jobs=jobs, threads=threads)
    wanted = experiment(name)
    if name != "cil" and (buffer or dense):
        raise NispaError(f"--buffer and --dense belong to the experiment 'cil', not to {name!r}")

    from nispa.experiment.paper.grid import Asked, lay_out, look
    from nispa.experiment.paper.page import note
    from nispa.experiment.paper.show import need_matplotlib

    need_matplotlib()
    asked = Asked(
        scale,
        tuple(dict.fromkeys(_integer(part) for part in seeds.split(","))) if seeds else None,
        tuple(streams.split(",")) if streams else None,
        tuple(methods.split(",")) if methods else None,
        str(data.expanduser().resolve()) if data is not None else None,
        engine,
        tuple(dict.fromkeys(_buffer(part) for part in buffer.split(","))) if buffer else None,
        dense,
    )
    grid = wanted.runs(asked)
    folder = lay_out(root, name, grid)
    code = follow_many(folder, jobs, threads) if grid and not draw_only else 0
    found = look(root, grid)
    made = wanted.draw(asked, found, folder)
    note(folder, made, _command(name, asked), found)
    say()
    for path in made:
        if path.suffix == ".md":
            say(path.read_text())
    for path in made:
        say(str(path))
    return code


def _command(name: str, asked: Asked) -> str:
    """What to type for the same, wherever the data lie."""
    parts = [f"nispa paper {name}"]
    if asked.quick:
        parts.append("--scale quick")
    for option, values in (
        ("seeds", asked.seeds),
        ("streams", asked.streams),
        ("methods", asked.methods),
        ("buffer", asked.buffers),
    ):
        if values:
            parts.append(f"--{option} {','.join(map(str, values))}")
    if asked.dense:
        parts.append("--dense")
    return " ".join(parts)


def _buffer(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise NispaError(f"--buffer {text!r} is not a number of samples per class (for example 10,50,100)")
    return int(text)
