"""Several runs side by side: one process each, cores divided among them, every folder resumable by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nispa import atomic
from nispa.errors import NispaError
from nispa.experiment.folder import Config, is_complete, prepare, read_config
from nispa.experiment.run import WITH_PARENT

PLAN, ERRORS = "plan.json", "errors.txt"


@dataclass
class Status:
    """One run of a plan, seen from outside."""

    folder: Path
    state: str = "waiting"
    """waiting, running, complete, failed"""
    error: str = ""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    started: float | None = None
    ended: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long this process has been at it."""
        return None if self.started is None else (self.ended or time.monotonic()) - self.started


def plan(root: Path, configs: Sequence[Config]) -> list[Path]:
    """Lay out one folder per run, and a list of them. The same plan again is fine, another is refused."""
    folders = [root / config.name for config in configs]
    if len(set(folders)) < len(folders):
        raise NispaError("the same method and seed is asked for twice; name each once")
    listed = json.dumps({"format": "nispa-plan", "runs": [folder.name for folder in folders]}, indent=1)
    path = atomic.make_folder(root) / PLAN
    if path.exists() and path.read_text() != listed:
        raise NispaError(f"{root} holds another set of runs (see {path}); choose another --out")
    if not path.exists() and any(root.iterdir()):
        raise NispaError(f"{root} is not empty and holds no plan of runs; choose another --out")
    atomic.write(path, listed)
    for folder, config in zip(folders, configs, strict=True):
        prepare(folder, config)
    return folders


def is_plan(root: Path) -> bool:
    return (root / PLAN).exists()


def planned(root: Path) -> list[Path]:
    """The folders of a plan."""
    path = root / PLAN
    try:
        return [root / str(name) for name in json.loads(path.read_text())["runs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NispaError(f"{path} is not readable ({error})") from None


def run_all(
    root: Path, jobs: int, threads: int | None, watch: Callable[[list[Status]], None], pause: float = 0.25
) -> list[Status]:
    """Run what is not complete, ``jobs`` at a time; ``watch`` sees the state of things now and then."""
    runs = [Status(folder) for folder in planned(root)]
    for run in runs:
        read_config(run.folder)
        run.state = "complete" if is_complete(run.folder) else "waiting"
    per_job = max(1, (threads or os.cpu_count() or 1) // max(1, min(jobs, len(runs))))
    try:
        while any(run.state in ("waiting", "running") for run in runs):
            busy = sum(run.state == "running" for run in runs)
            for run in [run for run in runs if run.state == "waiting"][: max(jobs - busy, 0)]:
                command = ["nispa.experiment.run", str(run.folder), WITH_PARENT]
                run.process, run.state = spawn(command, run.folder / ERRORS, per_job), "running"
                run.started = time.monotonic()
            for run in runs:
                if run.process is not None and run.state == "running" and run.process.poll() is not None:
                    _end(run)
            watch(runs)
            time.sleep(pause)
    finally:
        for run in runs:
            if run.process is not None and run.process.poll() is None:
                run.process.terminate()
                run.process.wait()
    watch(runs)
    return runs


def spawn(module: Sequence[str], errors: Path, threads: int) -> subprocess.Popen[bytes]:
    """A process of its own: no shared state, threads of its share, waiting threads asleep.

    What it says goes into a file, which can never fill up and block it as a pipe can. Its standard input
    is a pipe that ends when this process does, however that happens: then the worker ends too.
    """
    asleep = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    environment = {**os.environ, **asleep, "OMP_NUM_THREADS": str(threads)}
    with errors.open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", *module],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )


def _end(run: Status) -> None:
    """Note how a worker ended; what a failed one said stays in its folder."""
    assert run.process is not None
    run.ended = time.monotonic()
    run.state = "complete" if run.process.returncode == 0 else "failed"
    path = run.folder / ERRORS
    if run.state == "complete":
        path.unlink(missing_ok=True)
        return
    lines = path.read_text(errors="replace").strip().splitlines()
    run.error = (
        lines[-1].removeprefix("nispa: ") if lines else f"ended with exit code {run.process.returncode}"
    )
    if not (lines and lines[-1].startswith("nispa: ")):
        run.error += f" (see {path})"
