"""Files out of .tar.gz and .zip archives, in memory: nothing is ever unpacked to a path of the archive."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from nispa.data.readers.common import MAX_BYTES, Bounded, one_line, open_bounded
from nispa.errors import NispaError


def read_tar(path: Path, names: Collection[str], limit: int = MAX_BYTES) -> dict[str, bytes]:
    """The regular files of these names (last part of their path), whatever folder they are in."""
    found: dict[str, bytes] = {}
    stream = open_bounded(path, limit)
    try:
        with stream.stream, tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                name = _safe(member.name, path)
                if name not in names or not member.isreg():
                    continue
                if name in found:
                    raise NispaError(f"{path}: holds {name!r} twice; get the file again")
                content = archive.extractfile(member)
                data = b"" if content is None else content.read()
                if len(data) != member.size:
                    raise NispaError(f"{path}: truncated in {name!r}; get the file again")
                found[name] = data
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise NispaError(f"{path}: damaged or no tar archive ({one_line(error)}); get it again") from None
    _complete(found, names, path)
    return found


def read_zip(path: Path, names: Collection[str], limit: int = MAX_BYTES) -> dict[str, bytes]:
    """As `read_tar`, for zip archives."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = _safe(member.filename, path)
                if name not in names or member.is_dir():
                    continue
                if name in found:
                    raise NispaError(f"{path}: holds {name!r} twice; get the file again")
                with archive.open(member) as content:
                    found[name] = bytes(Bounded(content, path, limit).exactly(limit + 1))
                limit -= len(found[name])
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, RuntimeError, zlib.error) as error:
        raise NispaError(f"{path}: damaged or no zip archive ({one_line(error)}); get it again") from None
    _complete(found, names, path)
    return found


def _safe(member: str, path: Path) -> str:
    """The file's own name; an archive that tries to leave its folder is not read at all."""
    pure = PurePosixPath(member.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts:
        raise NispaError(f"{path}: its member {member[:80]!r} points outside of it; not a safe archive")
    return pure.name


def _complete(found: dict[str, bytes], names: Collection[str], path: Path) -> None:
    missing = sorted(set(names) - set(found))
    if missing:
        raise NispaError(f"{path}: {missing[0]!r} is missing in it; get the file again")
