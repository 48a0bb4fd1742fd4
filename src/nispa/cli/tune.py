"""``nispa tune``: search for hyperparameters on validation data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from nispa.cli.run import DEFAULT_OUT, Engine, Whole, check_counts
from nispa.errors import NispaError

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


def register(app: App) -> None:
    app.command(tune)


def tune(
    method: str,
    stream: str,
    *,
    trials: Annotated[Whole, Parameter(help="How many in all; more may follow later.")] = 50,
    jobs: Annotated[Whole, Parameter(help="How many go side by side.")] = 1,
    seed: Whole = 0,
    data: Annotated[Path | None, Parameter(help="Folder of data sets, else NISPA_DATA.")] = None,
    out: Annotated[Path | None, Parameter(help="Default: runs/tune-STREAM-METHOD-seedN.")] = None,
    storage: Annotated[
        str | None, Parameter(help="URL of a database (postgresql://…), else NISPA_STORAGE, else a file.")
    ] = None,
    threads: Annotated[Whole | None, Parameter(help="Threads of all trials together.")] = None,
    engine: Engine = "auto",
    set: Annotated[list[str] | None, Parameter(help="name=value, laid over the recipe.", negative="")] = None,
) -> int:
    """Search for a method's best hyperparameters on the validation data of a stream.

    The same command again goes on where it stopped. The best values become OUT/best.toml.
    """
    from nispa.experiment import recipe, tuning
    from nispa.experiment.folder import Config

    if trials < 1:
        raise NispaError(f"--trials is {trials}; want 1 or more")
    check_counts(jobs=jobs, threads=threads)
    if seed < 0:
        raise NispaError(f"--seed is {seed}; want 0 or more")
    if storage is not None:
        os.environ[tuning.STORAGE] = storage
    where = str(data.expanduser().resolve()) if data is not None else None
    plan = tuning.Tuning(
        Config(recipe.find(stream, method, list(set or [])), seed, engine, None, where), trials
    )
    folder = out or DEFAULT_OUT / plan.name
    tuning.prepare(folder, plan)
    return follow(folder, jobs, threads)


def follow(folder: Path, jobs: int, threads: int | None) -> int:
    """Run what is missing of a search and show how it goes."""
    from optuna.trial import TrialState

    from nispa.cli.show import out
    from nispa.experiment import tuning

    told: set[int] = set()

    def watch(trials: list[FrozenTrial]) -> None:
        for trial in trials:
            if trial.number in told or trial.state not in (TrialState.COMPLETE, TrialState.PRUNED):
                continue
            told.add(trial.number)
            value = f"{trial.value:.2%}" if trial.state == TrialState.COMPLETE else "given up"
            values = " ".join(f"{name}={_short(v)}" for name, v in trial.params.items())
            out(f"trial {trial.number:3} {value:>8}  {values}"[:79])

    best = tuning.tune(folder, jobs, threads, watch)
    out(f"best: trial {best.number}, {best.value:.2%} validation accuracy over all tasks")
    out(f"run it: nispa run {folder / tuning.BEST}")
    return 0


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
