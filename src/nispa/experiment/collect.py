"""Finding runs on disk, and putting those of one recipe together: what compare and report start from.

A place is a run's folder, a folder of several runs (any depth), or a results.json file by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nispa.errors import NispaError
from nispa.experiment.events import read_events
from nispa.experiment.folder import CONFIG, RESULTS, read_results
from nispa.experiment.recipe import SPARSE

Plain = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """One run: complete if it has results."""

    path: Path
    """The run's folder, or the results file."""
    config: Plain
    results: Plain | None

    @property
    def recipe(self) -> Plain:
        return dict(self.config["recipe"])

    @property
    def stream(self) -> str:
        name = str(self.recipe["stream"]["name"])
        return Path(name).stem if "/" in name else name

    @property
    def method(self) -> str:
        return str(self.recipe["method"]["name"])

    @property
    def name(self) -> str:
        """The method as tables name it: a dense class-incremental baseline ends in ``-d``."""
        dense = self.method in SPARSE and self.recipe["network"].get("density") == 1
        return f"{self.method}-d" if dense else self.method

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    def where(self) -> str:
        """How far an incomplete run has come."""
        for event in reversed(read_events(self.path) if self.path.is_dir() else []):
            if event["event"] in ("epoch", "phase"):
                return f"task {event['task'] + 1}, phase {event['phase']}"
            if event["event"] in ("begin", "task", "tested"):
                return f"task {event['task'] + 1}"
        return "not begun"


@dataclass(frozen=True)
class Group:
    """Complete runs of one recipe, by seed."""

    stream: str
    label: str
    """The method, with the settings in which it differs from another group of this method."""
    runs: tuple[Found, ...]

    @property
    def method(self) -> str:
        return self.runs[0].name

    @property
    def results(self) -> list[Plain]:
        return [run.results for run in self.runs if run.results is not None]

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def engines(self) -> list[str]:
        return sorted({str(results["engine"]) for results in self.results})

    @property
    def task_names(self) -> list[str]:
        return [str(task["name"]) for task in self.results[0]["tasks"]]

    def final(self, task: int) -> list[float]:
        """Test accuracy in percent after the last task, one number per run."""
        return [100 * results["accuracy"][-1][task] for results in self.results]

    def each(self, name: str) -> list[float]:
        """A number of results.json in percent, one per run; runs that have none are left out."""
        return [100 * results[name] for results in self.results if results[name] is not None]


def collect(places: Sequence[str | Path]) -> list[Found]:
    """All runs in these places, each once, in the order of the places and of their names."""
    found: dict[Path, Found] = {}
    for place in map(Path, places):
        here = list(_runs(place))
        if not here:
            raise NispaError(f"{place} holds no run; want a folder that `nispa run` made, or a results.json")
        for run in here:
            found.setdefault(run.path.resolve(), run)
    return list(found.values())


def _runs(place: Path) -> Iterable[Found]:
    if place.is_file():
        yield _from_results(place)
    elif (place / CONFIG).exists():
        yield _from_folder(place)
    elif (place / RESULTS).exists():
        yield _from_results(place / RESULTS)
    elif place.is_dir():
        inside = [p for p in sorted(place.rglob("*.json")) if not _hidden(p.relative_to(place))]
        configs = [path for path in inside if path.name == CONFIG]
        for path in configs:
            yield _from_folder(path.parent)
        folders = {path.parent for path in configs}
        for path in inside:
            if path.name.endswith(RESULTS) and path.parent not in folders:
                yield _from_results(path)
    else:
        raise NispaError(f"{place} does not exist; want a folder that `nispa run` made, or a results.json")


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _from_folder(folder: Path) -> Found:
    """The configuration as it was written: a method that this program no longer knows can still be shown."""
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NispaError(f"{path} is not readable ({error})") from None
    run = _checked(Found(folder, config, None), path)
    if not (folder / RESULTS).exists():
        return run
    return _checked(replace(run, results=read_results(folder)), folder / RESULTS)


def _from_results(path: Path) -> Found:
    try:
        results = json.loads(path.read_text())
        return _checked(Found(path, results["config"], results), path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NispaError(f"{path} is not a results file of a run ({_why(error)})") from None


def _why(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _checked(found: Found, path: Path) -> Found:
    try:
        _ = found.stream, found.method, found.seed, json.dumps(found.recipe)
        if (results := found.results) is not None:
            tasks = len(results["tasks"])
            if [len(row) for row in results["accuracy"]] != [tasks] * tasks or tasks == 0:
                raise ValueError("the accuracy matrix does not fit the tasks")
            _ = [float(value) for value in results["accuracy"][-1]], float(results["average_accuracy"])
            _ = results["engine"], results["forgetting"], results["logits_unchanged"]
            _ = results["parameters"]["live"] / results["parameters"]["dense"]
            _ = int(results["threads"]), float(results["seconds"])
            _ = [(str(task["name"]), int(task["phases"]), int(task["epochs"])) for task in results["tasks"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NispaError(f"{path} does not describe a run ({error!r}); is it of another program?") from None
    return found


def group(runs: Sequence[Found]) -> list[Group]:
    """Complete runs by recipe, in the order of their first run; a seed that comes twice is refused."""
    by_recipe: dict[str, list[Found]] = {}
    for run in runs:
        if run.results is not None:
            key = json.dumps([_same(run.recipe), len(run.results["tasks"])], sort_keys=True)
            by_recipe.setdefault(key, []).append(run)
    for members in by_recipe.values():
        seen: dict[int, Found] = {}
        for run in members:
            if run.seed in seen:
                raise NispaError(
                    f"{run.path} and {seen[run.seed].path} are the same run (seed {run.seed});"
                    " a seed counts once, leave one out"
                )
            seen[run.seed] = run
    kinds = [(members[0].stream, members[0].name) for members in by_recipe.values()]
    groups: list[Group] = []
    for members in by_recipe.values():
        first = members[0]
        kind = (first.stream, first.name)
        alike = [m[0] for m in by_recipe.values() if (m[0].stream, m[0].name) == kind]
        label = first.name if kinds.count(kind) == 1 else _label(first, alike)
        groups.append(Group(first.stream, label, tuple(sorted(members, key=lambda run: run.seed))))
    return groups


def _same(recipe: Plain) -> Plain:
    """A recipe without what does not decide a result."""
    return {key: value for key, value in recipe.items() if key != "note"}


def _label(run: Found, alike: Sequence[Found]) -> str:
    """``nispa lr=0.01``: the method and the settings in which runs of it differ."""
    flat = [flatten(_same(other.recipe)) for other in alike]
    own = flatten(_same(run.recipe))
    names = sorted({name for settings in flat for name in settings})
    differing = [n for n in names if len({json.dumps(s.get(n)) for s in flat}) > 1]
    shown = " ".join(f"{name.removeprefix('method.')}={own.get(name, '-')}" for name in differing)
    return f"{run.name} {shown}"


def flatten(plain: Plain, prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name.

    >>> flatten({"method": {"name": "nispa", "lr": 0.01}})
    {'method.name': 'nispa', 'method.lr': 0.01}
    """
    flat: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
