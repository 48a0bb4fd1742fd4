"""Arrays too large to hold in memory beside the network: files without a name, mapped into memory.

The operating system keeps of them what is in use. They lie in the cache folder, are reserved in full when
they are made (a disk that fills up later would kill the process), and go with the process, however it ends.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from nispa.data.folders import cache_folder
from nispa.errors import NispaError

LARGE = 1 << 30
"""Bytes from which an array is kept in a file."""
BLOCK = 1 << 26


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """As ``np.empty``, in a file if it is large."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size <= LARGE:
        return np.empty(shape, dtype)
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype, "r+", shape=shape)
    except OSError as error:
        raise NispaError(
            f"{folder}: no room for {size:,} bytes of images ({error.strerror or error}); free some space, or"
            " name another folder with NISPA_CACHE"
        ) from None


def take(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``array[rows]``, block by block if it is large."""
    shape = (len(rows), *array.shape[1:])
    if math.prod(shape) * array.itemsize <= LARGE:
        picked: np.ndarray = np.asarray(array[rows])
        return picked
    result, step = empty(shape, array.dtype), max(1, BLOCK // max(array[0].nbytes, 1))
    for start in range(0, len(rows), step):
        result[start : start + step] = array[rows[start : start + step]]
    return result


def concatenate(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """As ``np.concatenate`` along the first axis."""
    count = sum(len(array) for array in arrays)
    result, start = empty((count, *arrays[0].shape[1:]), arrays[0].dtype), 0
    for array in arrays:
        result[start : start + len(array)] = array
        start += len(array)
    return result
