"""A run's folder: what a run depends on, what lies where, who may work in it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nispa import atomic
from nispa.errors import NispaError
from nispa.experiment.recipe import Recipe, validate

CONFIG, EVENTS, RESULTS, MODEL = "config.json", "events.jsonl", "results.json", "model.nispa"
CHECKPOINT, PREVIOUS = "checkpoint.nispa", "checkpoint.previous.nispa"


@dataclass(frozen=True)
class Config:
    """All that a run depends on."""

    recipe: Recipe
    seed: int = 0
    engine: str = "auto"
    threads: int | None = None
    data: str | None = None

    def to_json(self) -> str:
        plain = {"format": "nispa-run", "version": 1, "recipe": self.recipe.model_dump(), "seed": self.seed}
        return json.dumps(
            {**plain, "engine": self.engine, "threads": self.threads, "data": self.data}, indent=1
        )

    @property
    def name(self) -> str:
        return f"{Path(self.recipe.stream.name).stem}-{self.recipe.label}-seed{self.seed}"


def prepare(folder: Path, config: Config) -> None:
    """Claim a folder for a run; one that holds another run is refused, unless that never began."""
    path = atomic.make_folder(folder) / CONFIG
    if path.exists():
        if read_config(folder).to_json() == config.to_json():
            return
        if any((folder / name).exists() for name in (EVENTS, CHECKPOINT, RESULTS)):
            raise NispaError(f"{folder} holds another run (see {path}); choose another --out")
        with locked(folder):
            atomic.write(path, config.to_json())
        return
    if set(folder.iterdir()) - set(atomic.leftovers(folder)):
        raise NispaError(f"{folder} is not empty and holds no run; choose another --out")
    atomic.write(path, config.to_json())


def read_config(folder: Path) -> Config:
    path = folder / CONFIG
    try:
        plain = json.loads(path.read_text())
        recipe = validate(plain["recipe"], str(path))
        return Config(recipe, plain["seed"], plain["engine"], plain["threads"], plain["data"])
    except (FileNotFoundError, NotADirectoryError):
        raise NispaError(f"{folder} holds no run (no {CONFIG}); start one with nispa run") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NispaError(f"{path} is not readable ({error})") from None


def is_complete(folder: Path) -> bool:
    return (folder / RESULTS).exists()


def read_results(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        found["accuracy"][0][0]
    except FileNotFoundError:
        raise NispaError(f"{folder} holds no {RESULTS}; finish the run with nispa resume {folder}") from None
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise NispaError(f"{path} is not readable ({error}); delete it and resume the run") from None
    return found


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process a run folder; the lock goes with the process, however it ends."""
    read_config(folder)
    try:
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise NispaError(f"cannot write in {folder}: {error.strerror or error}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise NispaError(f"{folder} is being worked on by another process; wait for it") from None
        yield
    finally:
        os.close(handle)
