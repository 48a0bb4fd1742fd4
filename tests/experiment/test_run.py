"""A run in a folder: results, resuming after kill -9 at random moments, damage, refusals."""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nispa.errors import NispaError
from nispa.experiment import recipe
from nispa.experiment.events import read_events
from nispa.experiment.folder import Config, is_complete, prepare
from nispa.experiment.many import Status, plan, planned, run_all
from nispa.experiment.run import run
from nispa.files import read

SMALL = [
    "network.hidden=[20,20]",
    "phase_epochs=1",
    "tau_period=5",
    "accuracy_loss=20",
    "network.density=0.4",
]
VOLATILE = {"seconds", "train_seconds", "peak_rss_bytes", "time"}


def config(seed: int = 0, method: str | None = None, **options: object) -> Config:
    overrides = SMALL if method is None else ["network.hidden=[20,20]", "epochs=2"]
    return Config(recipe.find("digits", method, overrides), seed, "reference", 1, **options)  # type: ignore[arg-type]


def stable_part(folder: Path) -> dict[str, object]:
    """Results without times and memory."""
    results = json.loads((folder / "results.json").read_text())
    tasks = [{k: v for k, v in task.items() if k not in VOLATILE} for task in results["tasks"]]
    return {**{k: v for k, v in results.items() if k not in VOLATILE}, "tasks": tasks}


def stable_events(folder: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in event.items() if k not in VOLATILE} for event in read_events(folder)]


def without_times(value: object) -> object:
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in VOLATILE}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def assert_same_model(one: Path, other: Path) -> None:
    """Two model files hold the same bits and, but for times, the same description."""
    (state, metadata), (state2, metadata2) = read(one), read(other)
    assert state.tensors.keys() == state2.tensors.keys()
    for name, tensor in state.tensors.items():
        assert tensor.dtype == state2.tensors[name].dtype, name
        assert tensor.numpy().tobytes() == state2.tensors[name].numpy().tobytes(), name
    assert without_times(metadata) == without_times(metadata2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    prepare(folder, config())
    run(folder)
    return folder


def test_results_have_every_field(finished: Path) -> None:
    results = json.loads((finished / "results.json").read_text())
    names = (
        "method stream seed engine config accuracy average_accuracy forgetting backward_transfer"
        " forward_transfer tasks density parameters flops samples_trained train_seconds seconds"
        " peak_rss_bytes threads versions logits_unchanged"
    )
    for name in names.split():
        assert name in results, name
    assert len(results["accuracy"]) == 5
    assert results["accuracy"][0][1:] == [None] * 4
    assert results["forgetting"] == 0
    assert results["logits_unchanged"] == [True] * 5
    assert results["density"]["before"] == pytest.approx([0.4] * 3, abs=0.003)
    assert results["density"]["after"][-1] < 0.39, "once all outputs are learned nothing grows into them"
    assert results["parameters"]["live"] < results["parameters"]["dense"]
    assert results["samples_trained"] == sum(task["samples"] for task in results["tasks"]) > 1000
    assert results["train_seconds"] == pytest.approx(sum(task["seconds"] for task in results["tasks"]))
    assert 0 < results["train_seconds"] <= results["seconds"]
    assert results["peak_rss_bytes"] > 50 << 20
    for task in results["tasks"]:
        assert {"name", "classes", "phases", "epochs", "final_tau", "stable_units", "seconds"} <= set(task)


def test_logits_that_change_are_told(tmp_path: Path) -> None:
    """A method that forgets: `verified bit for bit` is measured, not said."""
    prepare(tmp_path / "forgets", config(0, "finetune"))
    results = run(tmp_path / "forgets")
    assert results["logits_unchanged"] == [False] * 4 + [True]


def test_a_checkpoint_is_written_after_every_phase(tmp_path: Path) -> None:
    """An event of phase p comes before its checkpoint: the file is that of the phase before."""
    folder, places = tmp_path / "watched", list[tuple[int, int]]()
    prepare(folder, config())

    def look(event: dict[str, Any]) -> None:
        if event["event"] == "phase" and event["phase"] > 1:
            progress = read(folder / "checkpoint.nispa")[0].data["progress"]
            assert (progress["task"], progress["phase"]) == (event["task"], event["phase"])
            places.append((event["task"], event["phase"]))

    run(folder, look)
    assert len(places) >= 5


MOMENTS = ("fsync", "replace", "open")
"""Calls of ``os`` around which a worker is killed: they are the steps of writing a file."""


def work(folder: Path, die_at: int | None = None, die_after: float | None = None) -> bool:
    """Run the folder in a child process that is killed -9 at its n-th moment, or after some seconds.

    True if it was killed. A fork, since torch is already imported here and a start takes seconds.
    """
    child = os.fork()
    if child == 0:
        calls = 0

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def kill_before_or_after(*arguments: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = call(*arguments, **options)
                calls += 1
                if calls == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return kill_before_or_after

        for name in MOMENTS:
            setattr(os, name, counted(getattr(os, name)))
        code = 1
        try:
            run(folder)
            code = 0
        finally:
            os._exit(code)
    if die_after is not None:
        time.sleep(die_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def assert_as_if_never_killed(folder: Path, finished: Path) -> None:
    assert stable_part(folder) == stable_part(finished)
    assert_same_model(folder / "model.nispa", finished / "model.nispa")
    assert stable_events(folder) == stable_events(finished)
    assert (folder / "wiring.jsonl").read_bytes() == (finished / "wiring.jsonl").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in finished.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_killed_at_every_step_of_writing_it_ends_in_the_same_bits(finished: Path, tmp_path: Path) -> None:
    """kill -9 before and after an open, an fsync or a rename, of one or of two checkpoints, again and
    again: what comes out is what an uninterrupted run gives, model file included."""
    folder, kills = tmp_path / "killed", 0
    prepare(folder, config())
    while not is_complete(folder):
        kills += work(folder, die_at=1 + 11 * kills % 29)  # any step up to the 29th, in mixed order
        assert kills < 200
    assert kills >= 20
    assert_as_if_never_killed(folder, finished)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_killed_at_random_moments_it_ends_in_the_same_bits(finished: Path, tmp_path: Path) -> None:
    """kill -9 by the clock: in training, in rewiring, in between."""
    folder, rng = tmp_path / "killed", random.Random(1)
    prepare(folder, config())
    for _ in range(12):
        if not is_complete(folder):
            work(folder, die_after=rng.uniform(0.01, 0.4))
    work(folder)
    assert is_complete(folder)
    assert_as_if_never_killed(folder, finished)


def test_a_damaged_checkpoint_falls_back_on_the_one_before(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    prepare(folder, config())

    class StopError(Exception):
        pass

    def stop_in_second_task(event: dict[str, object]) -> None:
        if event["event"] == "phase" and event["task"] == 1 and event["phase"] == 2:
            raise StopError

    with pytest.raises(StopError):
        run(folder, stop_in_second_task)
    checkpoint = folder / "checkpoint.nispa"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    heard: list[dict[str, object]] = []
    run(folder, heard.append)
    warnings = [event["text"] for event in heard if event["event"] == "warning"]
    assert any("going back" in str(text) for text in warnings)
    assert stable_part(folder) == stable_part(finished)


def test_a_folder_of_another_run_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(NispaError, match="holds another run"):
        prepare(finished, config(seed=1))
    (tmp_path / "photo.txt").write_text("mine")
    with pytest.raises(NispaError, match="not empty"):
        prepare(tmp_path, config())
    assert (tmp_path / "photo.txt").read_text() == "mine"


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    prepare(folder, config())

    def second(event: dict[str, object]) -> None:
        if event["event"] == "phase":
            with pytest.raises(NispaError, match="another process"):
                run(folder)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, second)


def test_no_space_left_is_one_line_and_the_run_can_go_on(finished: Path, tmp_path: Path) -> None:
    """A limit on file size stands for a full disk: writes fail in the middle."""
    folder = tmp_path / "full"
    prepare(folder, config())
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "from nispa.experiment.run import main; main(sys.argv[1])"
    )
    program = [sys.executable, "-B", "-c", code]  # -B: no compiled file is cut by the limit
    done = subprocess.run([*program, str(folder)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("nispa: cannot write")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(folder.glob(".*.tmp"))
    run(folder)
    assert stable_part(folder) == stable_part(finished)


def test_several_runs_side_by_side(finished: Path, tmp_path: Path) -> None:
    root = tmp_path / "many"
    plan(root, [config(seed) for seed in (0, 1)] + [config(0, "stl")])
    with pytest.raises(NispaError, match="another set of runs"):
        plan(root, [config(5)])
    ended = run_all(root, jobs=2, threads=2, watch=lambda runs: None, pause=0.05)
    assert [status.state for status in ended] == ["complete"] * 3
    assert len(planned(root)) == 3
    # The same seed gives the same result whatever ran beside it.
    assert stable_part(ended[0].folder)["accuracy"] == stable_part(finished)["accuracy"]


@pytest.mark.parametrize(("jobs", "threads", "each"), [(2, 6, 3), (3, 4, 1), (9, 6, 2)])
def test_runs_side_by_side_share_the_threads(
    jobs: int, threads: int, each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never more runs than jobs at a time, nor more threads than there are (or one for each run)."""
    plan(tmp_path / "many", [config(seed) for seed in range(3)])
    given, running, start = list[str](), list[int](), subprocess.Popen

    def sleeper(command: list[str], *, env: dict[str, str], **options: Any) -> subprocess.Popen[bytes]:
        given.append(env["OMP_NUM_THREADS"])
        return start(["sleep", "0.1"], **options)

    def watch(runs: list[Status]) -> None:
        running.append(sum(status.state == "running" for status in runs))

    monkeypatch.setattr(subprocess, "Popen", sleeper)
    ended = run_all(tmp_path / "many", jobs, threads, watch, pause=0.02)
    assert [status.state for status in ended] == ["complete"] * 3
    assert given == [str(each)] * 3
    assert max(running) == min(jobs, 3)


def test_stopped_runs_side_by_side_go_on(tmp_path: Path) -> None:
    root = tmp_path / "stopped"
    plan(root, [config(seed) for seed in (0, 1)])
    calls = 0

    def interrupt(runs: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(root, jobs=2, threads=2, watch=interrupt, pause=0.1)
    ended = run_all(root, jobs=1, threads=1, watch=lambda runs: None, pause=0.05)
    assert [status.state for status in ended] == ["complete"] * 2


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_failing_run_is_reported_and_the_others_finish(tmp_path: Path) -> None:
    root = tmp_path / "failing"
    folders = plan(root, [config(seed) for seed in (0, 1)])
    text = (folders[0] / "config.json").read_text()
    (folders[0] / "config.json").write_text(text.replace('"digits"', '"no-such-stream"'))
    ended = run_all(root, jobs=2, threads=2, watch=lambda runs: None, pause=0.05)
    assert [status.state for status in ended] == ["failed", "complete"]
    assert "no-such-stream" in ended[0].error


def test_an_error_of_any_length_blocks_nothing_and_stays_on_disk(tmp_path: Path) -> None:
    root = tmp_path / "long"
    (folder,) = plan(root, [config()])
    path = folder / "config.json"
    plain = json.loads(path.read_text())
    plain["recipe"]["stream"]["options"] = {"x" * 300_000: 1}
    path.write_text(json.dumps(plain))
    (ended,) = run_all(root, jobs=1, threads=1, watch=lambda runs: None, pause=0.05)
    assert ended.state == "failed"
    assert "xxx" in ended.error
    assert (folder / "errors.txt").stat().st_size > 300_000


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """kill -9 of `nispa run --jobs` leaves no worker behind that would hold the folder's lock."""
    root = tmp_path / "orphans"
    slow = recipe.find("digits", None, ["phase_epochs=50"])
    folders = plan(root, [Config(slow, seed, "reference", 1) for seed in (0, 1)])
    code = (
        "import sys; from pathlib import Path; from nispa.experiment.many import run_all;"
        "run_all(Path(sys.argv[1]), 2, 2, lambda runs: None)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(root)])
    deadline = time.monotonic() + 60
    while not all(read_events(folder) for folder in folders) and time.monotonic() < deadline:
        time.sleep(0.02)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for folder in folders:
        while time.monotonic() < deadline:
            with (folder / ".lock").open("rb") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(0.05)
        else:
            pytest.fail(f"{folder} is still locked")


def test_a_folder_whose_claiming_was_killed_can_be_claimed_again(tmp_path: Path) -> None:
    folder = tmp_path / "claimed"
    folder.mkdir()
    (folder / ".config.json.x1y2z3.tmp").write_text('{"format"')
    prepare(folder, config())
    assert (folder / "config.json").is_file()
