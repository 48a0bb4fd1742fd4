"""What an experiment is: a grid of runs, and a way to draw what they found.

    OUT/runs/STREAM-METHOD-seedN-HASH    every run, shared by all experiments that ask for the same
    OUT/NAME/plan.json                   the runs of one experiment, for `nispa resume` and `nispa compare`
    OUT/NAME/*.png *.md *.csv            what came out

A run's folder is named after everything that decides it, so more seeds can be added later, and the NISPA
runs of one experiment are found by the next.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nispa import atomic
from nispa.errors import NispaError
from nispa.experiment import recipe
from nispa.experiment.folder import Config, is_complete, prepare, read_results
from nispa.experiment.many import PLAN

Results = dict[str, Any]
SEEDS = (0, 19, 42, 2022, 31415)
"""The authors' five seeds."""


@dataclass(frozen=True)
class Asked:
    """What the user wants of an experiment."""

    scale: Literal["full", "quick"] = "full"
    seeds: tuple[int, ...] | None = None
    streams: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    data: str | None = None
    engine: str = "auto"
    buffers: tuple[int, ...] | None = None
    """Sizes of memory, in samples per class (class-incremental)."""
    dense: bool = False
    """The class-incremental baselines on dense networks, too."""

    @property
    def quick(self) -> bool:
        return self.scale == "quick"

    def seeds_or(self, quick: int) -> tuple[int, ...]:
        """The seeds asked for, else the authors' five, or the first few of them."""
        return self.seeds or SEEDS[: quick if self.quick else len(SEEDS)]

    def config(
        self, stream: str, method: str | None, seed: int, settings: Sequence[str] = (), subset: float = 1.0
    ) -> Config:
        """A run of a recipe; ``subset`` is the share of the training data in the quick scale."""
        less = [f"stream.options.subset={subset}"] if self.quick and subset < 1 else []
        return Config(recipe.find(stream, method, [*settings, *less]), seed, self.engine, None, self.data)


Grid = Mapping[Hashable, Sequence[Config]]
"""What is varied -> its runs, one per seed."""


@dataclass(frozen=True)
class Experiment:
    """``runs`` lists what has to be run; ``draw`` makes files of what was found, in a folder."""

    runs: Callable[[Asked], Grid]
    draw: Callable[[Asked, Found, Path], list[Path]]
    smaller: str = ""
    """What the quick scale leaves out, for the figure."""


@dataclass
class Found:
    """The complete runs of a grid, and what is missing."""

    results: dict[Hashable, list[Results]] = field(default_factory=dict)
    folders: dict[Hashable, list[Path]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __getitem__(self, key: Hashable) -> list[Results]:
        return self.results.get(key, [])

    def each(self, key: Hashable, value: Callable[[Results], float]) -> list[float]:
        return [value(results) for results in self[key]]

    def averages(self, key: Hashable) -> list[float]:
        """Average accuracy over tasks in percent, one number per seed."""
        return self.each(key, lambda results: 100 * float(results["average_accuracy"]))

    def finals(self, key: Hashable) -> list[list[float]]:
        """Per task, its accuracy in percent after the last one, one number per seed."""
        rows = [results["accuracy"][-1] for results in self[key]]
        return [[100 * row[j] for row in rows] for j in range(len(rows[0]))] if rows else []

    def __iter__(self) -> Iterator[Hashable]:
        return (key for key, results in self.results.items() if results)


def run_name(config: Config) -> str:
    """Named after everything that decides the run."""
    return f"{config.name}-{hashlib.sha256(config.to_json().encode()).hexdigest()[:8]}"


def lay_out(root: Path, name: str, grid: Grid) -> Path:
    """The folder of an experiment, with its runs prepared and listed; it is a plan for ``run_all``."""
    folder, runs = atomic.make_folder(root / name), atomic.make_folder(root / "runs")
    wanted = {run_name(config): config for configs in grid.values() for config in configs}
    for run, config in wanted.items():
        prepare(runs / run, config)
    listed = [os.path.join("..", "runs", run) for run in wanted]
    atomic.write(folder / PLAN, json.dumps({"format": "nispa-plan", "runs": listed}, indent=1))
    return folder


def look(root: Path, grid: Grid) -> Found:
    """What is there of a grid."""
    found = Found()
    for key, configs in grid.items():
        for config in configs:
            folder = root / "runs" / run_name(config)
            if is_complete(folder):
                found.results.setdefault(key, []).append(read_results(folder))
                found.folders.setdefault(key, []).append(folder)
            else:
                shown = " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
                found.missing.append(f"{shown} seed {config.seed}")
    if grid and not found.results:
        raise NispaError(f"no run of this experiment is complete in {root}; there is nothing to draw")
    return found


def streams(asked: Asked, of_paper: Sequence[str], quick: Sequence[str] = ("ef-mnist",)) -> Sequence[str]:
    """The streams of an experiment: those asked for, or the paper's, or the quick scale's few."""
    if asked.streams is None:
        return quick if asked.quick else of_paper
    for stream in asked.streams:
        if stream not in of_paper:
            raise NispaError(f"this experiment has no stream {stream!r}; choose from {', '.join(of_paper)}")
    return asked.streams
