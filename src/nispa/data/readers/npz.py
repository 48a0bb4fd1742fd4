"""Arrays in a .npz file: numbers only, checked before any memory is asked for."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from nispa.data.readers.common import MAX_BYTES, Bounded, ImageSet, Part, one_line, pair
from nispa.errors import NispaError

_NAMES = {
    "train": [("x_train", "y_train"), ("train_images", "train_labels"), ("images", "labels"), ("x", "y")],
    "validation": [("x_val", "y_val"), ("x_validation", "y_validation"), ("val_images", "val_labels")],
    "test": [("x_test", "y_test"), ("test_images", "test_labels")],
}


def read_npz(path: Path, limit: int = MAX_BYTES) -> ImageSet:
    """x_train, y_train and, if there, x_test, y_test, x_val, y_val; or images and labels alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            parts: dict[str, Part] = {}
            for part, candidates in _NAMES.items():
                for x, y in candidates:
                    if x in members and y in members and part not in parts:
                        images = _images(_member(archive, members[x], path, limit), f"{path}, {x}")
                        labels = _labels(_member(archive, members[y], path, limit), f"{path}, {y}")
                        parts[part] = pair(images, labels, f"{path}, {x}", f"{path}, {y}")
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError, zlib.error) as error:
        raise NispaError(f"{path}: damaged or no npz file ({one_line(error)}); make it again") from None
    if "train" not in parts:
        found = ", ".join(sorted(members))[:80]
        raise NispaError(f"{path}: want x_train and y_train, or images and labels, in it; it has {found}")
    return ImageSet.of(parts)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, limit: int) -> np.ndarray:
    """One array: the header must agree with the member's size before a byte of data is read."""
    what = f"{path}, {info.filename}"
    with archive.open(info) as file:
        stream: Any = Bounded(file, path, limit)
        try:
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(stream)
        except NispaError:
            raise
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
            raise NispaError(f"{what}: damaged header ({one_line(error)}); make the file again") from None
        if dtype.kind not in "uif" or dtype.itemsize > 8:
            raise NispaError(f"{what}: holds {dtype}, want numbers (objects are never loaded)")
        size = int(np.prod([*shape, dtype.itemsize], dtype=object))
        if min(shape, default=0) < 0 or size > limit or size > info.file_size:
            raise NispaError(f"{what}: its header tells of {size:,} bytes; it is damaged, or too large")
        data = stream.exactly(size)
        if len(data) != size or file.read(1):  # reading to the end also checks zip's own checksum
            raise NispaError(f"{what}: truncated, or longer than its header tells; make the file again")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _images(x: np.ndarray, what: str) -> np.ndarray:
    """``[N, C, H, W]`` or ``[N, F]``; channels last is understood where the last axis is 1 or 3."""
    if x.dtype != np.uint8:
        x = x.astype(np.float32)
    if x.ndim == 3:
        x = x[:, None]
    if x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim not in (2, 4):
        raise NispaError(f"{what}: shape {x.shape}; want [N, H, W], [N, H, W, C], [N, C, H, W] or [N, F]")
    return x


def _labels(y: np.ndarray, what: str) -> np.ndarray:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "ui":
        raise NispaError(f"{what}: shape {y.shape} of {y.dtype}; want one integer class number a sample")
    if len(y) and (int(y.min()) < 0 or int(y.max()) >= 1 << 20):
        raise NispaError(f"{what}: class numbers {y.min()} to {y.max()}; want them from 0, without gaps")
    return y.astype(np.int64)
