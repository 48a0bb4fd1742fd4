"""Files that are there whole or not at all: written aside, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from nispa.errors import NispaError


def write(path: str | Path, content: bytes | str) -> None:
    """Replace a file in one step; a crash at any moment leaves the old one or the new one."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
        sync_folder(path.parent)
    except OSError as error:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        todo = "free some space or choose another folder" if full else "choose another place"
        raise NispaError(f"cannot write {path}: {error.strerror or error}; {todo}") from None


def leftovers(folder: Path) -> list[Path]:
    """What ``write`` leaves behind when it is killed: files aside that never came to be."""
    return [path for path in folder.glob(".*.tmp") if path.is_file()]


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: str | Path) -> Path:
    """Create a folder, or say in one line why not."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NispaError(f"cannot create folder {path}: {error.strerror or error}; choose another") from None
    return path
