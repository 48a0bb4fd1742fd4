"""The idx format of MNIST and its relatives, plain or gzipped.

Header: two zero bytes, a type byte (8: uint8), the number of dimensions, then each dimension as a
big-endian 32-bit number.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from nispa.data.readers.common import MAX_BYTES, Part, check_labels, is_gzip, open_bounded, pair
from nispa.errors import NispaError

_HOLDS = {1: "labels", 3: "images"}


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of an idx file that must have ``dimensions`` (1: labels, 3: images)."""
    stream = open_bounded(path)
    with stream.stream:
        header = stream.exactly(4 + 4 * dimensions)
        shape = _shape(header, path, dimensions)
        count = int(np.prod(shape, dtype=object))
        if not is_gzip(path):
            _check_size(path, path.stat().st_size - len(header), count)
            if count == 0:
                return np.zeros(shape, np.uint8)
            return np.memmap(path, np.uint8, "r", offset=len(header), shape=shape)
        # one byte too many is asked for, so that a longer file is noticed as well as a shorter one
        data = stream.exactly(count + 1)
        _check_size(path, len(data), count)
    return np.frombuffer(data, np.uint8).reshape(shape)


def _shape(header: bytearray, path: Path, dimensions: int) -> tuple[int, ...]:
    if len(header) < 4:
        raise NispaError(f"{path}: truncated, not even an idx header; get the file again")
    if header[:3] != b"\x00\x00\x08":
        raise NispaError(f"{path}: starts with {header[:4].hex()}, not with the magic number of idx (000008)")
    if header[3] != dimensions:
        found = _HOLDS.get(header[3], f"{header[3]} dimensions")
        raise NispaError(f"{path}: holds {found}, want {_HOLDS[dimensions]}; are two files swapped?")
    if len(header) < 4 + 4 * dimensions:
        raise NispaError(f"{path}: truncated in its header; get the file again")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    if int(np.prod(shape, dtype=object)) > MAX_BYTES:
        raise NispaError(f"{path}: claims to hold {shape} bytes; its header is damaged")
    return shape


def _check_size(path: Path, found: int, count: int) -> None:
    if found < count:
        raise NispaError(f"{path}: truncated, {found:,} of {count:,} bytes; get the file again")
    if found > count:
        raise NispaError(f"{path}: holds more than the {count:,} bytes its header tells of; get it again")


def read_idx_pair(images: Path, labels: Path, classes: int, transposed: bool = False) -> Part:
    """Images and labels; ``transposed``: EMNIST stores its pixels column by column."""
    pixels = read_idx(images, 3)[:, None]
    numbers = check_labels(read_idx(labels, 1), classes, labels)
    return pair(pixels.swapaxes(2, 3) if transposed else pixels, numbers, images, labels)
