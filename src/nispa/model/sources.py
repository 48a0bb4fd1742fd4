"""What a user points at, as arrays: a folder, .npz, parquet, a table, a Dataset, or plain arrays."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nispa.data.cache import cached
from nispa.data.readers import ImageSet, Part
from nispa.data.readers.common import natural, read_bytes
from nispa.data.readers.folder import list_folder, read_files
from nispa.data.readers.npz import read_npz
from nispa.data.readers.parquet import class_names, has_images, read_parquet, read_table, shards
from nispa.errors import NispaError
from nispa.model.file import Inputs
from nispa.model.inputs import convert

LABELS = ("label", "class", "target", "y")
"""A table's column of classes; without one of these the last column."""
MANY = 10_000


@dataclass(frozen=True)
class Material:
    """Samples as the network reads them, with class numbers that count through ``classes``."""

    name: str
    classes: tuple[str, ...]
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor] | None = None
    test: tuple[Tensor, Tensor] | None = None

    def fingerprint(self) -> str:
        """SHA-256 of everything: is this the data that an interrupted learning began with?"""
        sha = hashlib.sha256(json.dumps(self.classes).encode())
        for part in (self.train, self.validation, self.test):
            for tensor in part or ():
                sha.update(str(tuple(tensor.shape)).encode())
                sha.update(tensor.contiguous().numpy().tobytes())
        return sha.hexdigest()


def material(
    source: Any, inputs: Inputs, name: str | None = None, classes: Sequence[str] | None = None
) -> Material:
    """Samples and classes from a path or from data in memory."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source).expanduser()
        if not path.exists():
            raise NispaError(f"{path} does not exist; give a folder of class folders, .npz, .parquet or .csv")
        whole, names = _from_path(path, inputs)
        label = name or path.resolve().stem
    else:
        whole, names = _from_memory(source, inputs)
        label = name or "task"
    if classes is not None:
        names = [str(c) for c in classes]
    return _material(label, whole, names, inputs)


def _material(label: str, whole: ImageSet, names: Sequence[str], inputs: Inputs) -> Material:
    used = np.unique(whole.train.labels)
    if len(names) <= int(used.max(initial=0)):
        raise NispaError(
            f"{label}: class number {int(used.max())}, but {len(names)} class names; give one each"
        )
    for part, what in ((whole.validation, "validation"), (whole.test, "test")):
        extra = [] if part is None else sorted(set(part.labels.tolist()) - set(used.tolist()))
        if extra:
            raise NispaError(f"{label}: {what} has class {names[extra[0]]!r}, training has no sample of it")
    picked = [names[c] for c in used]
    if len(set(picked)) != len(picked):
        raise NispaError(f"{label}: two classes have the same name; give every class a name of its own")

    def pair(part: Part | None, what: str) -> tuple[Tensor, Tensor] | None:
        if part is None or not len(part):
            return None
        labels = torch.from_numpy(np.searchsorted(used, part.labels).astype(np.int64))
        return _fit(part.images, inputs, f"{label}, {what}"), labels

    train = pair(whole.train, "train")
    if train is None:
        raise NispaError(f"{label}: no samples in it; give some of each class")
    return Material(
        label, tuple(picked), train, pair(whole.validation, "validation"), pair(whole.test, "test")
    )


def _fit(values: np.ndarray, inputs: Inputs, what: str) -> Tensor:
    """Arrays in the network's shape: pictures resized, features checked."""
    if inputs.kind == "features":
        return convert(inputs, values.reshape(len(values), -1), what)
    if values.ndim == 2:
        raise NispaError(f"{what}: features, but this model looks at pictures {inputs.shape}")
    if values.dtype == np.uint8 and list(values.shape[1:]) == inputs.shape:
        return torch.from_numpy(np.array(values))
    return convert(inputs, values, what)


def _from_path(path: Path, inputs: Inputs) -> tuple[ImageSet, list[str]]:
    pictures = inputs.kind == "pictures"
    if path.is_dir() and (train := shards(path, "train") or shards(path / "data", "train")):
        return _parquet(train, inputs)
    if path.is_dir():
        if not pictures:
            raise NispaError(f"{path}: a folder of pictures, but this model reads {inputs.shape[0]} features")
        return _folder(path, inputs)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        whole = read_npz(path)
        return whole, [str(c) for c in range(int(whole.train.labels.max(initial=0)) + 1)]
    if suffix == ".parquet":
        return _parquet([path], inputs)
    if suffix in (".csv", ".tsv"):
        header, rows = _csv(path)
        return _table(path, header, rows)
    raise NispaError(f"{path}: want a folder of class folders, .npz, .parquet, .csv or .tsv")


def unlabelled(path: Path, inputs: Inputs) -> Tensor:
    """The features of a table, whose column of classes may be missing."""
    if path.suffix.lower() == ".parquet":
        header, rows = read_table(path)
    elif path.suffix.lower() in (".csv", ".tsv"):
        header, rows = _csv(path)
    else:
        raise NispaError(f"{path}: this model reads {inputs.shape[0]} features; give .csv, .tsv or .parquet")
    drop = next((i for i, name in enumerate(header) if name.strip().lower() in LABELS), len(header))
    try:
        values = np.array([[*row[:drop], *row[drop + 1 :]] for row in rows], dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise NispaError(f"{path}: features must be numbers ({error})"[:160]) from None
    return convert(inputs, values, str(path))


def _folder(path: Path, inputs: Inputs) -> tuple[ImageSet, list[str]]:
    listings = list_folder(path)
    if len(listings) > 1:
        first = listings[0].name
        raise NispaError(f"{path}: one folder per task; teach them one by one, first {path / first}")
    listing = listings[0]
    numbers = {name: i for i, name in enumerate(listing.classes)}
    channels, height, width = inputs.shape

    def build() -> ImageSet:
        return ImageSet.of(
            {
                part: read_files(classes, numbers, (height, width), channels)
                for part, classes in listing.parts.items()
            }
        )

    whole = cached("model", listing.files(), (tuple(inputs.shape), listing.classes), build)
    return whole, listing.classes


def _parquet(train: list[Path], inputs: Inputs) -> tuple[ImageSet, list[str]]:
    if not has_images(train[0]):
        header, rows = read_table(train[0])
        return _table(train[0], header, rows)
    if inputs.kind != "pictures":
        raise NispaError(f"{train[0]}: pictures, but this model reads {inputs.shape[0]} features a sample")
    channels, height, width = inputs.shape
    found = {"train": train}
    if train[0].name.startswith("train"):
        for part, files in (("validation", "validation"), ("test", "test")):
            if others := shards(train[0].parent, files):
                found[part] = others
    parts = {part: read_parquet(files, 1 << 20, channels, (height, width)) for part, files in found.items()}
    names = class_names(train[0])
    most = max(int(part.labels.max()) for part in parts.values()) + 1
    return ImageSet.of(parts), names if len(names) >= most else [str(c) for c in range(most)]


def _csv(path: Path) -> tuple[list[str], list[list[Any]]]:
    text = read_bytes(path)
    try:
        lines = text.decode("utf-8-sig").splitlines()
        rows = [
            row for row in csv.reader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ",") if row
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise NispaError(f"{path}: no table of text ({error})") from None
    if len(rows) < 2:
        raise NispaError(f"{path}: want a line of column names, then one line a sample")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise NispaError(f"{path}, line {number}: {len(row)} columns, the first line has {len(rows[0])}")
    return rows[0], rows[1:]


def _table(path: Path, header: list[str], rows: Sequence[Sequence[Any]]) -> tuple[ImageSet, list[str]]:
    """A column of classes (any text) and columns of numbers."""
    lower = [name.strip().lower() for name in header]
    at = next((lower.index(name) for name in LABELS if name in lower), len(header) - 1)
    words = [str(row[at]).strip() for row in rows]
    try:
        values = np.array([[*row[:at], *row[at + 1 :]] for row in rows], dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise NispaError(
            f"{path}: every column but {header[at]!r} must hold numbers ({error})"[:160]
        ) from None
    if values.shape[1] < 1:
        raise NispaError(f"{path}: one column only; want features and a column {LABELS[0]!r}")
    names = sorted(set(words), key=natural)
    if len(names) > MANY:
        raise NispaError(f"{path}: {len(names)} classes in column {header[at]!r}; is that the right column?")
    numbers = {word: i for i, word in enumerate(names)}
    return ImageSet(Part(values, np.array([numbers[word] for word in words], np.int64))), names


def _from_memory(source: Any, inputs: Inputs) -> tuple[ImageSet, list[str]]:
    """(inputs, labels); a mapping of those with the keys train, validation, test; or a Dataset."""
    if hasattr(source, "keys") and not hasattr(source, "features"):
        parts = {("validation" if k == "val" else k): source[k] for k in source.keys()}  # noqa: SIM118
        if "train" not in parts or not set(parts) <= {"train", "validation", "test"}:
            raise NispaError(f"data has parts {', '.join(map(str, parts))}; want train, validation, test")
        read = {name: _part(part, inputs, name) for name, part in parts.items()}
        names = _names(parts["train"], max(int(p.labels.max(initial=0)) for p in read.values()) + 1)
        return ImageSet.of(read), names
    part = _part(source, inputs, "data")
    return ImageSet(part), _names(source, int(part.labels.max(initial=0)) + 1)


def _part(source: Any, inputs: Inputs, what: str) -> Part:
    if isinstance(source, (tuple, list)) and len(source) == 2:
        things, labels = source
    else:
        things, labels = _items(source, what)
    try:
        numbers = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
    except (TypeError, ValueError):
        raise NispaError(f"{what}: labels are no list of class numbers") from None
    if numbers.ndim != 1 or numbers.dtype.kind not in "ui" or (len(numbers) and numbers.min() < 0):
        raise NispaError(
            f"{what}: labels of shape {numbers.shape}, {numbers.dtype}; want a class number from 0 for each"
        )
    values = convert(inputs, things, what)
    if len(values) != len(numbers):
        raise NispaError(f"{what}: {len(values)} inputs but {len(numbers)} labels; give one each")
    return Part(values.numpy(), numbers.astype(np.int64))


def _items(source: Any, what: str) -> tuple[list[Any], list[Any]]:
    """A map-style Dataset's items: (input, label), or a row of a Hugging Face data set."""
    if not hasattr(source, "__getitem__") or not hasattr(source, "__len__"):
        raise NispaError(
            f"{what}: {type(source).__name__} is no data; give a path, (inputs, labels) or a Dataset"
        )
    things, labels = [], []
    for i in range(len(source)):
        item = source[i]
        if isinstance(item, dict):
            x = next((item[k] for k in ("image", "img", "pixel_values", "features") if k in item), None)
            y = next((item[k] for k in ("fine_label", "label", "labels", "class") if k in item), None)
            if x is None or y is None:
                raise NispaError(f"{what}: rows have {', '.join(map(str, item))}; want image and label")
        elif isinstance(item, (tuple, list)) and len(item) == 2:
            x, y = item
        else:
            raise NispaError(f"{what}: item {i} is {type(item).__name__}; want (input, label)")
        things.append(x)
        labels.append(int(y))
    return things, labels


def _names(source: Any, classes: int) -> list[str]:
    """Class names of a torchvision-like data set (``classes``) or of a Hugging Face one (``features``)."""
    names = getattr(source, "classes", None)
    features = getattr(source, "features", None)
    if names is None and features is not None and hasattr(features, "get"):
        for key in ("fine_label", "label", "labels"):
            names = names or getattr(features.get(key), "names", None)
    if names is not None and len(names) >= classes:
        return [str(name) for name in names]
    return [str(c) for c in range(classes)]
