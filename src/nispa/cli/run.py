"""``nispa run``, ``resume``, ``streams``, ``methods``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter, Token

from nispa.errors import NispaError

if TYPE_CHECKING:
    from nispa.experiment.folder import Config
    from nispa.experiment.recipe import Recipe

DEFAULT_OUT = Path("runs")
MOST = 256
Engine = Literal["auto", "reference", "native"]


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """By itself the parser takes 1.5 for 1."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value!r} is not a whole number") from None


Whole = Annotated[int, Parameter(converter=_whole)]


def register(app: App) -> None:
    for command in (run, resume, streams, methods):
        app.command(command)


def run(
    stream: str,
    *,
    method: Annotated[str | None, Parameter(help="One or several, separated by commas.")] = None,
    seed: Annotated[str, Parameter(name=["--seed", "--seeds"], help="One or several: 0,19,42.")] = "0",
    data: Annotated[Path | None, Parameter(help="Folder of data sets, else NISPA_DATA.")] = None,
    out: Annotated[Path | None, Parameter(help="Default: runs/STREAM-METHOD-seedN.")] = None,
    threads: Annotated[Whole | None, Parameter(help="Threads of all runs together.")] = None,
    jobs: Annotated[Whole, Parameter(help="How many runs go side by side.")] = 1,
    engine: Engine = "auto",
    set: Annotated[list[str] | None, Parameter(help="name=value, laid over the recipe.", negative="")] = None,
    as_: Annotated[Literal["authors"] | None, Parameter(name="--as", help="The authors' switches.")] = None,
) -> int:
    """Learn a stream task by task and write the results into a folder.

    STREAM is a name from `nispa streams` or a recipe file (.toml).
    """
    from nispa.experiment import recipe
    from nispa.experiment.folder import Config

    seeds = [_integer(part) for part in seed.split(",")]
    overrides = list(set or [])
    recipes: list[Recipe] = [
        recipe.find(stream, name, overrides, as_ == "authors")
        for name in ([None] if method is None else method.split(","))
    ]
    check_counts(threads=threads, jobs=jobs)
    where = str(data.expanduser().resolve()) if data is not None else None
    several = len(seeds) * len(recipes) > 1
    configs = [Config(r, s, engine, None if several else threads, where) for r in recipes for s in seeds]
    return _start(configs, Path(stream).stem, out, threads, jobs, several)


def _start(
    configs: list[Config], label: str, out: Path | None, threads: int | None, jobs: int, several: bool
) -> int:
    from nispa.cli.show import follow_one
    from nispa.experiment.folder import is_complete, prepare

    if several:
        from nispa.cli.live import follow_many
        from nispa.experiment.many import plan

        root = out or DEFAULT_OUT / label
        plan(root, configs)
        return follow_many(root, jobs, threads)
    folder = out or DEFAULT_OUT / f"{label}-{configs[0].recipe.label}-seed{configs[0].seed}"
    prepare(folder, configs[0])
    if not is_complete(folder) and (folder / "checkpoint.nispa").exists():
        raise NispaError(f"{folder} holds this run, unfinished; go on with: nispa resume {folder}")
    return follow_one(folder)


def resume(
    folder: Path,
    *,
    jobs: Annotated[Whole, Parameter(help="How many runs go side by side.")] = 1,
    threads: Annotated[Whole | None, Parameter(help="Threads of all runs together.")] = None,
) -> int:
    """Finish what is missing in a folder of `nispa run` or `nispa tune`."""
    from nispa.cli.live import follow_many
    from nispa.cli.show import follow_one
    from nispa.experiment.many import is_plan
    from nispa.experiment.tuning import is_tuning

    check_counts(threads=threads, jobs=jobs)
    if is_tuning(folder):
        from nispa.cli.tune import follow

        return follow(folder, jobs, threads)
    if is_plan(folder):
        return follow_many(folder, jobs, threads)
    return follow_one(folder)


def streams() -> None:
    """List the streams and recipes that `nispa run` knows."""
    from nispa.cli.show import listing
    from nispa.data.streams import STREAMS
    from nispa.experiment import recipe

    listing("Streams", list(STREAMS.items()))
    names, rows = recipe.names(), list[tuple[str, str]]()
    for name in (name for name in names if "." not in name):
        rows.append((name, recipe.find(name, None).note))
        others = [other.removeprefix(f"{name}.") for other in names if other.startswith(f"{name}.")]
        if others:
            rows.append(("", f"{name}.NAME for {', '.join(others)}"))
    listing("Recipes", rows)


def methods() -> None:
    """List the methods that `nispa run --method` knows."""
    from nispa.cli.show import listing
    from nispa.experiment.recipe import describe

    listing("Methods", describe())


def check_counts(**options: int | None) -> None:
    """Of threads, jobs and the like: none, or a number that a machine can have."""
    for name, value in options.items():
        if value is not None and not 1 <= value <= MOST:
            raise NispaError(f"--{name} is {value}; want 1 to {MOST}")


def _integer(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise NispaError(f"seed {text!r} is not a whole number (for example --seeds 0,19,42)") from None
    if value < 0:
        raise NispaError(f"seed {value} is negative; want 0 or more")
    return value
