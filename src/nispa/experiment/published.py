"""Numbers of the paper and of the authors' code, to stand beside ours (``published.toml``); in percent."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Published:
    """One published number; ``tasks`` where it is known for every task."""

    source: str
    """The paper, or the authors' code."""
    mean: float
    std: float | None = None
    tasks: tuple[float, ...] = ()
    seed: int | None = None
    note: str = ""

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


@cache
def table() -> dict[str, Any]:
    """The whole data file."""
    text = files("nispa.experiment").joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def averages(stream: str, method: str, per_class: int | None = None) -> list[Published]:
    """What the paper's text gives for a stream and method: accuracy averaged over tasks and five runs.

    ``per_class`` is the memory of a class-incremental method, in samples per class.
    """
    if per_class is None:
        found = table()["task-incremental"].get(stream, {}).get(method)
        if found is None:
            return []
        return [Published("paper", found["mean"], found.get("std"), note=found["where"])]
    pair = table()["class-incremental"].get(str(per_class), {}).get(stream, {}).get(method)
    where = "table of class-incremental accuracy"
    return [] if pair is None else [Published("paper", float(pair[0]), float(pair[1]), note=where)]


def authors_runs(stream: str, method: str, per_class: int | None = None) -> list[Published]:
    """Runs of the authors' own code, each with its accuracy on every task."""
    return [
        Published(
            "authors' code",
            sum(run["accuracy"]) / len(run["accuracy"]),
            tasks=tuple(run["accuracy"]),
            seed=run["seed"],
            note=run["note"],
        )
        for run in table()["authors-run"]
        if (run["stream"], run["method"], run.get("per_class")) == (stream, method, per_class)
    ]
