"""`nispa learn` is killed, interrupted and resumed: the file opens, no task is lost, nothing is left over."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from model.material import blobs, small
from nispa import NispaError
from nispa.model import Model
from nispa.model.teach import learning_file


def start(model: Path, data: Path, name: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nispa", "learn", str(model), str(data), "--name", name, *more]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_hear_ctrl_c,
    )


def _hear_ctrl_c() -> None:
    """A background job of a shell ignores Ctrl-C, and so would everything that the tests start in one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def table(path: Path, task: int) -> Path:
    x, y = blobs(task, each=20)
    np.savez(path, x_train=x, y_train=y)
    return path


def _killed(tmp_path: Path, times: int, seed: int) -> None:
    model = small(tmp_path / "m.nispa")
    model.learn(blobs(0), name="first", minutes=0.004)
    data, rng = table(tmp_path / "second.npz", 1), np.random.default_rng(seed)
    started = time.monotonic()
    done = start(model.path, data, "second")
    assert done.wait(timeout=120) == 0, done.communicate()[0]
    whole = time.monotonic() - started
    expected = Model.open(model.path).network.snapshot()
    Model.open(model.path).undo()
    resumed = 0
    for number in range(times):
        process = start(model.path, data, "second")
        if number % 2:  # while it starts, learns or writes
            time.sleep(float(rng.uniform(0.3, 1.02)) * whole)
        else:  # surely while it learns
            _wait_for_a_phase(learning_file(model.path), process)
            time.sleep(float(rng.uniform(0, 0.3)) * whole)
        process.kill()
        text = process.communicate()[0]
        resumed += "going on where" in text
        opened = Model.open(model.path)
        assert [f.kept for f in opened.verify()] == [True] * len(opened.tasks)
        assert opened.tasks[0].name == "first"
        if len(opened.tasks) == 2:
            _same(opened, expected)
            opened.undo()
    process = start(model.path, data, "second")
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 0, text
    resumed += "going on where" in text
    opened = Model.open(model.path)
    assert [task.name for task in opened.tasks] == ["first", "second"]
    _same(opened, expected)
    assert resumed > 0
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != "" or p.is_file()) == [
        "m.nispa",
        "second.npz",
    ]


def _wait_for_a_phase(path: Path, process: subprocess.Popen[str]) -> None:
    def written() -> int:
        return path.stat().st_mtime_ns if path.exists() else 0

    before = written()
    while written() == before and process.poll() is None:
        time.sleep(0.002)


def _same(model: Model, expected: list[tuple[np.ndarray, ...]]) -> None:
    """Interrupted or not, the same network comes out, bit for bit."""
    for part, other in zip(model.network.snapshot(), expected, strict=True):
        for array, same in zip(part, other, strict=True):
            assert np.array_equal(array, same)


def test_killed_a_few_times(tmp_path: Path) -> None:
    _killed(tmp_path, times=2, seed=0)


@pytest.mark.slow
def test_killed_at_fifty_moments(tmp_path: Path) -> None:
    _killed(tmp_path, times=50, seed=1)


def test_ctrl_c_leaves_the_file_and_says_how_to_go_on(tmp_path: Path) -> None:
    model = small(tmp_path / "m.nispa")
    before = model.path.read_bytes()
    data = table(tmp_path / "d.npz", 1)
    process = start(model.path, data, "d")
    aside = learning_file(model.path)
    deadline = time.monotonic() + 60
    while not aside.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 130, text
    assert "same command goes on" in text
    assert "Traceback" not in text
    assert model.path.read_bytes() == before
    with pytest.raises(
        NispaError, match=r"learning 'd' was interrupted; go on with it .* or give it up with --restart"
    ):
        model.learn(blobs(3), name="other")
    model.learn(blobs(3), name="other", restart=True, minutes=0.004)
    assert not aside.exists()


def test_what_is_left_of_another_model_does_no_harm(tmp_path: Path) -> None:
    model = small(tmp_path / "m.nispa")
    learning_file(model.path).write_bytes(b"damaged")
    events: list[dict[str, object]] = []
    model.learn(blobs(1), name="a", minutes=0.004, report=events.append)
    assert any("not readable; learning starts over" in str(e.get("text")) for e in events)
    assert not learning_file(model.path).exists()
