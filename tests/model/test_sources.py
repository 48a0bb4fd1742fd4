"""Whatever a user points at ends as the same samples: folders, npz, parquet, tables, Datasets, arrays."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image

from nispa import NispaError
from nispa.model.inputs import convert, features, pictures
from nispa.model.sources import material

INPUTS = pictures([3, 8, 8])
NAMES = ["ape", "bee"]


def images(count: int = 6, side: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, 3, side, side), dtype=np.uint8), np.arange(count) % 2


def png(array: np.ndarray) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    Image.fromarray(array.transpose(1, 2, 0)).save(buffer, "PNG")
    return buffer.getvalue()


class Rows:
    """As a Hugging Face data set looks to us: rows by number, and features with names."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        label = type("ClassLabel", (), {"names": NAMES})()
        self.x, self.y, self.features = x, y, {"image": None, "label": label}

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"image": Image.fromarray(self.x[i].transpose(1, 2, 0)), "label": int(self.y[i])}


class Dataset(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    classes = NAMES

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(self.x[i]).float() / 255, int(self.y[i])


def as_folder(path: Path, x: np.ndarray, y: np.ndarray) -> Path:
    for i, (image, label) in enumerate(zip(x, y, strict=True)):
        (path / NAMES[label]).mkdir(parents=True, exist_ok=True)
        (path / NAMES[label] / f"{i}.png").write_bytes(png(image))
    return path


def as_parquet(path: Path, x: np.ndarray, y: np.ndarray) -> Path:
    table = arrow.table({"image": [{"bytes": png(image), "path": None} for image in x], "label": y})
    about = '{"info": {"features": {"label": {"names": ["ape", "bee"], "_type": "ClassLabel"}}}}'
    parquet.write_table(table.replace_schema_metadata({"huggingface": about}), path)
    return path


def test_every_kind_of_source_gives_the_same_samples(tmp_path: Path) -> None:
    x, y = images()
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y)
    for source in (
        tmp_path / "data.npz",
        as_parquet(tmp_path / "data.parquet", x, y),
        Rows(x, y),
        Dataset(x, y),
        (x, y),
        (torch.from_numpy(x), torch.from_numpy(y)),
        {"train": Rows(x, y), "test": Rows(x, y)},
    ):
        found = material(source, INPUTS)
        assert torch.equal(found.train[0], torch.from_numpy(x)), source
        assert found.train[1].tolist() == y.tolist()
        if not isinstance(source, (tuple, Path)) or str(source).endswith("parquet"):
            assert found.classes == ("ape", "bee")
    folder = material(as_folder(tmp_path / "folder", x, y), INPUTS)
    order = np.argsort(y, kind="stable")
    assert torch.equal(folder.train[0], torch.from_numpy(x[order]))
    assert (folder.name, folder.classes) == ("folder", ("ape", "bee"))


def test_pictures_are_resized_and_channels_handled() -> None:
    for given in (
        np.zeros((20, 30), np.uint8),
        np.zeros((20, 30, 3), np.uint8),
        np.zeros((3, 20, 30)),
        torch.zeros(1, 20, 30),
        Image.new("RGBA", (30, 20)),
        np.zeros((1, 20, 30, 3), np.uint8),
    ):
        assert convert(INPUTS, given).shape == (1, 3, 8, 8)
    assert convert(INPUTS, [np.zeros((5, 9), np.uint8)] * 3).shape == (3, 3, 8, 8)
    assert convert(INPUTS, np.full((8, 8), 0.5)).unique().tolist() == [128]
    for bad, words in (
        (np.zeros((2, 3, 4, 5, 6)), "want"),
        (np.full((8, 8), np.nan), "NaN"),
        (np.full((8, 8), 999.0), "want 0 to 255"),
        (Path("/nowhere.png"), "no such file"),
        ([], "nothing in it"),
        (b"text", "not a readable image"),
    ):
        with pytest.raises(NispaError, match=words):
            convert(INPUTS, bad)


def test_tables(tmp_path: Path) -> None:
    rows = [["1.5", "a b", "2"], ["2.5", "c", "3"], ["3", "a b", "4"]]
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["x", "Class", "y"], *rows])
    found = material(path, features(2))
    assert found.classes == ("a b", "c")
    assert found.train[0].tolist() == [[1.5, 2], [2.5, 3], [3, 4]]
    table = arrow.table({"x": [1.5, 2.5, 3], "y": [2, 3, 4], "label": ["a b", "c", "a b"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    other = material(tmp_path / "t.parquet", features(2))
    assert other.fingerprint() == found.fingerprint()
    assert material(path, features(2), name="other").fingerprint() == found.fingerprint()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,label\n1,a,3\n", "line 2: 3 columns"),
        ("x,label\n", "one line a sample"),
        ("x,label\nhello,a\n", "must hold numbers"),
        ("label\na\nb\n", "one column only"),
        ("x,y,label\n1,2,a\n3,4,b\n", "this model reads 1 features"),
        ("x,label\nnan,a\n3,b\n", "NaN"),
    ],
)
def test_bad_tables_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(NispaError, match=words) as caught:
        material(path, features(1))
    assert "\n" not in str(caught.value)


def test_other_bad_sources(tmp_path: Path) -> None:
    x, y = images()
    for task in ("one", "two"):
        as_folder(tmp_path / "tasks" / task, x, y)
    for source, words in (
        (tmp_path / "tasks", "one folder per task; teach them one by one"),
        (tmp_path / "none", "does not exist"),
        (tmp_path / "text.txt", "want a folder"),
        (42, "int is no data"),
        ((x, y.astype(float)), "labels"),
        ({"test": (x, y)}, "want train, validation, test"),
        ({"train": (x, y), "test": (x, y + 1)}, "test has class"),
    ):
        if isinstance(source, Path) and source.name == "text.txt":
            source.write_text("hello")
        with pytest.raises(NispaError, match=words):
            material(source, INPUTS)
