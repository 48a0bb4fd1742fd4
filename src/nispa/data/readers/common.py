"""What all readers share: the arrays that they return, and reading with a bound."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from nispa.data import large
from nispa.errors import NispaError

# No data set that fits this library is larger; what claims to be is damaged or a decompression bomb.
MAX_BYTES = 8 << 30
CHUNK = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Part:
    """Images ``[N, C, H, W]`` (or features ``[N, F]``) with a class number each."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray) -> Part:
        return Part(large.take(self.images, rows), self.labels[rows])

    def counts(self, classes: int) -> np.ndarray:
        return np.bincount(self.labels, minlength=classes)


@dataclass(frozen=True)
class ImageSet:
    """A data set as read from disk."""

    train: Part
    test: Part | None = None
    validation: Part | None = None
    class_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: Mapping[str, Part], class_names: tuple[str, ...] = ()) -> ImageSet:
        """The inverse of `parts`."""
        return cls(parts["train"], parts.get("test"), parts.get("validation"), class_names)

    def parts(self) -> dict[str, Part]:
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in named.items() if part is not None}


def one_line(error: BaseException) -> str:
    """An exception's text as part of a one-line message."""
    return " ".join(str(error).split())[:160] or type(error).__name__


def natural(name: str) -> list[Any]:
    """Sort key that puts class10 behind class9.

    >>> sorted(["c10", "c9", "C1"], key=natural)
    ['C1', 'c9', 'c10']
    """
    # every second piece is digits; a pair keeps numbers and words comparable, the name breaks ties
    pieces = re.split(r"([0-9]+)", name.casefold())
    return [[(int(p), "") if i % 2 else (0, p) for i, p in enumerate(pieces)], name]


def open_file(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise NispaError(f"{path}: cannot be read ({error.strerror or error})") from None


def is_gzip(path: Path) -> bool:
    with open_file(path) as file:
        return file.read(2) == GZIP_MAGIC


class Bounded:
    """A readable stream that refuses to give more than ``limit`` bytes: the end of every gzip bomb."""

    def __init__(self, stream: Any, path: Path, limit: int) -> None:
        self.stream, self.path, self.limit, self.left = stream, path, limit, limit

    def read(self, size: int = CHUNK) -> bytes:
        try:
            data: bytes = self.stream.read(min(size, CHUNK) if size >= 0 else CHUNK)
        except (OSError, EOFError, zlib.error) as error:
            raise NispaError(
                f"{self.path}: damaged or truncated ({one_line(error)}); get the file again"
            ) from None
        self.left -= len(data)
        if self.left < 0:
            raise NispaError(
                f"{self.path}: unpacks to more than {self.limit:,} bytes; this is no data set of ours"
            )
        return data

    def exactly(self, size: int) -> bytearray:
        """``size`` bytes or fewer if the stream ends; memory grows only as bytes really arrive."""
        data = bytearray()
        while len(data) < size:
            chunk = self.read(min(CHUNK, size - len(data)))
            if not chunk:
                break
            data += chunk
        return data


def open_bounded(path: Path, limit: int = MAX_BYTES) -> Bounded:
    """A file, unpacked on the way if it is gzip (told by its first bytes, not by its name)."""
    return Bounded(gzip.GzipFile(path) if is_gzip(path) else open_file(path), path, limit)


def read_bytes(path: Path, limit: int = 1 << 30) -> bytes:
    with open_file(path) as file:
        return bytes(Bounded(file, path, limit).exactly(limit + 1))


def check_labels(labels: np.ndarray, classes: int, path: Path | str) -> np.ndarray:
    """int64 labels, all below ``classes``."""
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        wrong = int(labels.min()) if labels.min() < 0 else int(labels.max())
        raise NispaError(f"{path}: label {wrong} is outside 0-{classes - 1}; these are other labels")
    return labels.astype(np.int64)


def pair(images: np.ndarray, labels: np.ndarray, image_file: Path | str, label_file: Path | str) -> Part:
    if len(images) != len(labels):
        raise NispaError(
            f"{image_file}: {len(images)} images but {len(labels)} labels in {Path(label_file).name};"
            " these files do not belong together"
        )
    if not len(labels):
        raise NispaError(f"{image_file}: holds no images")
    return Part(images, labels)


def join(parts: Sequence[Part], what: Path | str) -> Part:
    """The parts of one data set that lie in several files."""
    if len(parts) == 1:
        return parts[0]
    shapes = sorted({part.images.shape[1:] for part in parts})
    if len(shapes) > 1:
        raise NispaError(f"{what}: images of {shapes[0]} and of {shapes[1]} in one data set; make them alike")
    return Part(large.concatenate([p.images for p in parts]), np.concatenate([p.labels for p in parts]))
