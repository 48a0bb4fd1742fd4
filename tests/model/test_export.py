"""ONNX and the hub's layout: other programs get the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import nispa
from model.material import blobs
from nispa import NispaError
from nispa.model import Model


def run(path: Path, name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {name: values.astype(np.float32)}), strict=True))


def answers(model: Model, task: int, values: np.ndarray) -> np.ndarray:
    inside = model._known
    with torch.no_grad():
        return inside.part(task)(inside.batch(torch.from_numpy(values))).numpy()


def test_onnxruntime_gives_the_same_answers(model: Model, tmp_path: Path) -> None:
    path, (x, _) = tmp_path / "all.onnx", blobs(7)
    notes = model.export_onnx(path)
    found = run(path, "features", x)
    for number, task in enumerate(("task0", "task1")):
        assert np.abs(found[f"{task}.logits"] - answers(model, number, x)).max() < 1e-4
        shares = [list(p.answers[0].probabilities.values()) for p in model.predict(x, task)]
        assert np.abs(found[f"{task}.probabilities"] - np.array(shares)).max() < 1e-4
    assert notes["tasks"]["task0"] == ["0", "1"]
    assert 0 < notes["live_weights"] < notes["weights"]
    import onnx

    kept = {p.key: json.loads(p.value) for p in onnx.load(path).metadata_props}
    assert kept["nispa.sparsity"] == notes["sparsity"]


def test_a_cnn_task_alone_with_pixels_as_input(tmp_path: Path) -> None:
    network = nispa.cnn((3, 9, 8), (4, 6), (12,), classes=4, density=0.5, pool_after=(1,), engine="reference")
    model = nispa.new(tmp_path / "c.nispa", like=network)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 3, 9, 8), dtype=np.uint8), np.arange(60) % 2
    x[y == 1] //= 3
    model.learn((x, y), name="light", classes=["bright", "dark"], minutes=0.004)
    notes = model.export_onnx(tmp_path / "light.onnx", task="light")
    found = run(tmp_path / "light.onnx", "pixels", x)
    assert np.abs(found["light.logits"] - answers(model, 0, x)).max() < 1e-4
    assert notes["weights"] <= sum(c.mask.size * 9 for c in model.network.wiring.connections)
    with pytest.raises(NispaError, match="no task 'dark'"):
        model.export_onnx(tmp_path / "none.onnx", task="dark")


def test_a_file_where_the_hubs_folder_should_be(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NispaError, match="cannot create folder"):
        model.save_pretrained(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_the_hubs_layout_comes_back_the_same(model: Model, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "repository")
    files = {path.name for path in (tmp_path / "repository").iterdir()}
    assert files >= {"model.safetensors", "config.json", "README.md"}
    assert (tmp_path / "repository" / "model.safetensors").read_bytes() == model.path.read_bytes()
    assert "task0" in (tmp_path / "repository" / "README.md").read_text()
    about = json.loads((tmp_path / "repository" / "config.json").read_text())
    assert about["network"]["outputs"] == 8
    again = nispa.Model.from_pretrained(tmp_path / "repository")
    x, _ = blobs(3)
    assert [p.label for p in again.predict(x)] == [p.label for p in model.predict(x)]
    mine = again.copy_to(tmp_path / "mine.nispa")
    mine.learn(blobs(5), name="more", minutes=0.004)
    assert len(mine.tasks) == 3
    assert len(again.tasks) == 2
