"""What trackers are given is what the event log says: read back with the trackers' own readers."""

import importlib.util
import json
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from nispa.errors import NispaError
from nispa.experiment import recipe
from nispa.experiment.collect import collect
from nispa.experiment.events import read_events
from nispa.experiment.exporters import TARGETS, export, points
from nispa.experiment.folder import Config, prepare
from nispa.experiment.run import run

SMALL = "network.hidden=[20,12] network.density=0.4 phase_epochs=2 tau_period=4 accuracy_loss=30".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "digits-nispa-seed0"
    prepare(path, Config(recipe.find("digits", None, SMALL), 0, "reference", 1))
    run(path)
    return path


def available(package: str) -> None:
    """Skip, and say so loudly, where an optional tracker is not installed."""
    if importlib.util.find_spec(package) is None:
        warnings.warn(f"{package.upper()} IS NOT INSTALLED: its exporter was not tried", stacklevel=2)
        pytest.skip(f"{package} is not installed: its exporter was not tried")


def wanted(folder: Path, name: str) -> list[tuple[int, float]]:
    return [(p.step, p.values[name]) for p in points(folder) if name in p.values]


def test_points_are_the_event_log(folder: Path) -> None:
    events = read_events(folder)
    epochs = [event for event in events if event["event"] == "epoch"]
    found = wanted(folder, "validation_accuracy")
    assert [value for _, value in found] == [event["validation_accuracy"] for event in epochs]
    assert [step for step, _ in found] == list(range(1, len(epochs) + 1))
    taus = [event["tau"] for event in events if event["event"] == "phase"]
    assert [value for _, value in wanted(folder, "rewiring/tau")] == taus
    tested = [event["accuracy"] for event in events if event["event"] == "tested"]
    assert wanted(folder, "test_accuracy/task_5")[-1][1] == tested[-1][4]
    times = [point.time for point in points(folder)]
    assert times == sorted(times)
    assert times[0] > 1.7e9


def test_tensorboard_reads_what_was_written(folder: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):  # a second export replaces the first
        (line,) = export(collect([folder]), "tensorboard", str(tmp_path))
    assert f"tensorboard --logdir {tmp_path}" in line
    assert len(list(tmp_path.rglob("events.out*"))) == 1
    read = EventAccumulator(str(tmp_path / folder.name), size_guidance={"scalars": 0})
    read.Reload()
    for name in ("validation_accuracy", "rewiring/tau", "test_accuracy/average", "protected/layer_2"):
        values = [(event.step, event.value) for event in read.Scalars(name)]
        assert values == [(s, pytest.approx(v)) for s, v in wanted(folder, name)], name
    results = json.loads((folder / "results.json").read_text())
    (average,) = read.Scalars("summary/average_accuracy")
    assert average.value == pytest.approx(results["average_accuracy"])
    (text,) = read.Tensors("settings")
    assert b"method.tau_period = 4" in text.tensor_proto.string_val[0]


def test_tensorboard_export_needs_no_torch_summary_writer(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from nispa.experiment.collect import collect;"
        "from nispa.experiment.exporters import export;"
        f"export(collect([Path({str(folder)!r})]), 'tensorboard', {str(tmp_path)!r});"
        "assert not any(m.startswith(('tensorflow', 'torch.utils.tensorboard')) for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_mlflow_stores_what_was_written(folder: Path, tmp_path: Path) -> None:
    available("mlflow")
    from mlflow import MlflowClient

    store = tmp_path / "runs.db"
    for _ in range(2):
        export(collect([folder]), "mlflow", str(store))
    with sqlite3.connect(store) as database:
        assert database.execute("select count(*) from metrics").fetchone()[0] > 50
    client = MlflowClient(tracking_uri=f"sqlite:///{store}")
    experiment = client.get_experiment_by_name("digits")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.run_name == folder.name
    assert found.info.status == "FINISHED"
    assert found.data.params["method.tau_period"] == "4.0"
    history = client.get_metric_history(found.info.run_id, "validation_accuracy")
    assert sorted((m.step, m.value) for m in history) == wanted(folder, "validation_accuracy")
    results = json.loads((folder / "results.json").read_text())
    assert found.data.metrics["average_accuracy"] == results["average_accuracy"]


def test_an_absent_mlflow_server_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    available("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(NispaError, match=r"MLflow at http://127\.0\.0\.1:9") as caught:
        export(collect([folder]), "mlflow", "http://127.0.0.1:9")
    assert "\n" not in str(caught.value)


def leveldb_records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: seven bytes of header, then LevelDB's log format in blocks of 32 KiB."""
    position, parts = 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        length, kind = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def test_wandb_writes_an_offline_run(folder: Path, tmp_path: Path) -> None:
    available("wandb")
    from wandb.proto import wandb_internal_pb2

    for _ in range(2):
        (line,) = export(collect([folder]), "wandb", str(tmp_path))
    assert "wandb sync" in line
    (path,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    history = []
    for data in leveldb_records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {(i.key or ".".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item}
            history.append(items)
    values = [(row["_step"], row["validation_accuracy"]) for row in history if "validation_accuracy" in row]
    assert values == wanted(folder, "validation_accuracy")


@pytest.mark.parametrize("target", TARGETS)
def test_a_missing_package_names_the_extra(
    target: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in list(sys.modules):
        if module.split(".")[0] == target:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, target, None)
    with pytest.raises(NispaError, match=rf"pip install 'nispa\[{target}\]'") as caught:
        export(collect([folder]), target, str(tmp_path / "x"))
    assert "\n" not in str(caught.value)


def test_a_run_that_still_goes_on_is_copied_as_far_as_it_is(folder: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    shutil.copytree(folder, half)
    (half / "results.json").unlink()
    log = half / "events.jsonl"
    log.write_bytes(log.read_bytes()[:5000])
    export(collect([half]), "tensorboard", str(tmp_path / "tb"))
    assert list((tmp_path / "tb" / "half").iterdir())


def test_the_command_needs_a_known_target(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nispa", "export-log", str(folder), "--out", str(tmp_path / "t"), "--to"]
    done = subprocess.run([*command, "tensorboard"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tensorboard --logdir" in done.stdout
    wrong = subprocess.run([*command, "tensorbord"], capture_output=True, text=True)
    assert wrong.returncode != 0
    assert "Traceback" not in wrong.stderr
