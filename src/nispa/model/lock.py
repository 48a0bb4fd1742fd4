"""One process at a time may change a model file; the lock goes with the process, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from nispa.errors import NispaError


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold ``.NAME.lock`` beside the file; a second process gets a refusal at once.

    The lock's file is removed at the end. Whoever got hold of a removed one sees that by its number on
    disk and opens the new one, so two processes never hold locks on two files of that name.
    """
    name = path.parent / f".{path.name}.lock"
    handle = _take(name, path)
    try:
        for left in path.parent.glob(f".{path.name}*.tmp"):  # of a process that was killed while writing
            left.unlink(missing_ok=True)
        yield
    finally:
        name.unlink(missing_ok=True)
        os.close(handle)


def _take(name: Path, path: Path) -> int:
    while True:
        try:
            handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise NispaError(f"cannot write beside {path}: {error.strerror or error}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise NispaError(f"{path} is being changed by another process; wait until it is done") from None
        try:
            if os.stat(name).st_ino == os.fstat(handle).st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)
