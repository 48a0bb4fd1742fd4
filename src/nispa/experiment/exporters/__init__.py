"""A run's event log for the trackers that people already use: TensorBoard, MLflow, Weights & Biases.

The event log stays what a run is recorded in; an export is a copy of it, made as often as one likes. An
exported run replaces its earlier export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from nispa.errors import NispaError
from nispa.experiment.collect import Found, flatten
from nispa.experiment.events import read_events

TARGETS = ("tensorboard", "mlflow", "wandb")


@dataclass(frozen=True)
class Point:
    """Some numbers at one moment; ``step`` counts epochs over all tasks."""

    step: int
    time: float
    values: dict[str, float]


def export(runs: Sequence[Found], to: str, where: str) -> list[str]:
    """Copy the logs of these runs; returns lines that say where they are and how to look at them."""
    for run in runs:
        if not run.path.is_dir():
            raise NispaError(f"{run.path} is a results file; an event log is in the folder of a run")
    module = import_module(f"nispa.experiment.exporters.{to}")
    copy: Callable[[Sequence[Found], str], list[str]] = module.copy
    return copy(runs, where)


def needed(module: str, extra: str) -> ModuleType:
    """An optional package, or one line about how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise NispaError(
            f"exporting to {extra} needs a package that is not here ({error});"
            f" get it with: pip install 'nispa[{extra}]'"
        ) from None


def name_of(run: Found) -> str:
    return f"{run.stream}-{run.method}-seed{run.seed}" if run.path.name in (".", "") else run.path.name


def settings(run: Found) -> dict[str, Any]:
    """Everything that decides the run, by dotted name."""
    config = {key: value for key, value in run.config.items() if key not in ("format", "version", "recipe")}
    recipe = {key: value for key, value in flatten(run.recipe).items() if value not in (None, "", {}, [])}
    return {**recipe, **{key: value for key, value in config.items() if value is not None}}


def summary(run: Found) -> dict[str, float]:
    """The numbers of a complete run."""
    names = "average_accuracy forgetting backward_transfer forward_transfer seconds train_seconds".split()
    found = run.results or {}
    return {name: float(found[name]) for name in names if found.get(name) is not None}


def points(folder: Path) -> Iterator[Point]:
    """The event log as numbers over epochs. Accuracies lie in 0..1."""
    step, when = 0, 0.0
    for event in read_events(folder):
        kind, when = event["event"], float(event.get("time", when + 1))
        if kind == "epoch":
            step += 1
            a = float(event["validation_accuracy"])
            values = {"validation_accuracy": a, f"validation_accuracy/task_{event['task'] + 1}": a}
            yield Point(step, when, values)
        elif kind == "phase":
            pairs = zip(event["protected"], event["units"], strict=False)
            yield Point(
                step,
                when,
                {
                    "rewiring/tau": float(event["tau"]),
                    "rewiring/dropped": float(event["dropped"]),
                    "rewiring/shortfall": float(sum(event["shortfall"])),
                    **{f"protected/layer_{i}": n / units for i, (n, units) in enumerate(pairs, 1)},
                },
            )
        elif kind == "task":
            values = {"task/phases": float(event["phases"]), "task/epochs": float(event["epochs"])}
            stable = event.get("stable_units") or []
            values |= {f"stable_units/layer_{i}": float(n) for i, n in enumerate(stable, 1)}
            yield Point(step, when, values)
        elif kind == "tested":
            known = [float(a) for a in event["accuracy"] if a is not None]
            each = {f"test_accuracy/task_{i}": a for i, a in enumerate(known, 1)}
            yield Point(step, when, {**each, "test_accuracy/average": sum(known) / len(known)})
