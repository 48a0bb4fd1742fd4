"""Getting the known data sets from their official mirrors. Nothing here runs unless a user asks for it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from nispa.data.catalog import dataset
from nispa.data.folders import cache_folder
from nispa.data.readers.archive import read_zip
from nispa.data.readers.common import one_line
from nispa.errors import NispaError

CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
TRIES = 4
MAX_BYTES = 2 << 30

# (name of the file, bytes so far, bytes in all or None)
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Remote:
    """One file on a mirror; ``unpack`` lists what a .zip is fetched for (the .zip itself is not kept)."""

    url: str
    checksum: str
    unpack: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]


def _idx(base: str, *checksums: str) -> tuple[Remote, ...]:
    stems = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(Remote(f"{base}/{s}-ubyte.gz", f"md5:{c}") for s, c in zip(stems, checksums, strict=True))


_EMNIST = tuple(
    f"emnist-balanced-{part}-{kind}-ubyte.gz"
    for part in ("train", "test")
    for kind in ("images-idx3", "labels-idx1")
)
MIRRORS: dict[str, tuple[Remote, ...]] = {
    "mnist": _idx(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    "fashion-mnist": _idx(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    "emnist": (
        Remote(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            "md5:58c8d27c78d21e728a6bc7b3cc06412e",
            _EMNIST,
        ),
    ),
    "cifar10": (
        Remote(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "md5:c58f30108f718f92721af3b95e74349a"
        ),
    ),
    "cifar100": (
        Remote(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        ),
    ),
}


def get(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    mirrors: Sequence[Remote] | None = None,
) -> Path:
    """Fetch a data set into ``root/name`` (the cache folder unless given); what is there already stays.

    A download that breaks off leaves a ``.part`` file, from which the next call goes on.
    """
    folder = (Path(root).expanduser() if root is not None else cache_folder() / "data") / dataset(name).name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for remote in mirrors if mirrors is not None else MIRRORS[name]:
            wanted = [folder / file for file in remote.unpack] or [folder / remote.name]
            if not all(path.is_file() for path in wanted):
                fetch(remote, folder, progress)
    except OSError as error:
        raise NispaError(f"{folder}: cannot be written ({error.strerror or one_line(error)})") from None
    return folder


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> None:
    """One file: into ``.part``, checked, then moved to its name (or unpacked, if it is a .zip)."""
    part = folder / f"{remote.name}.part"
    for attempt in range(TRIES):
        try:
            _transfer(remote, part, progress)
            break
        except urllib.error.HTTPError as error:
            raise NispaError(f"{remote.url}: the server says {error.code} {error.reason}") from None
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            if attempt == TRIES - 1:
                have = part.stat().st_size if part.is_file() else 0
                reason = one_line(getattr(error, "reason", error))
                what = f"broken off after {have:,} bytes" if have else "not reached"
                raise NispaError(f"{remote.url}: {what} ({reason}); run it again to go on") from None
            time.sleep(min(2**attempt / 4, 2))
    _check(remote, part)
    if remote.unpack:
        for name, content in read_zip(part, remote.unpack).items():
            _write(folder / name, content)
        part.unlink()
    else:
        _flush(part)
        part.replace(folder / remote.name)


def _transfer(remote: Remote, part: Path, progress: Progress | None) -> None:
    """Append what is missing of the file; start anew where the server cannot go on from there."""
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(
        remote.url, headers={"User-Agent": "nispa", "Accept-Encoding": "identity"}
    )
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        # 416: nothing lies beyond what we have; the checksum decides whether that is the whole file
        if error.code == 416 and have:
            return
        raise
    with response:
        continued = response.status == 206 and response.headers.get("Content-Range", "").startswith(
            f"bytes {have}-"
        )
        if response.status == 206 and not continued:
            raise NispaError(f"{remote.url}: the server sent another part than asked for; delete {part}")
        have = have if continued else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        with part.open("ab" if continued else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                if have > MAX_BYTES:
                    raise NispaError(f"{remote.url}: sends more than {MAX_BYTES:,} bytes; not the data set")
                if progress is not None:
                    progress(remote.name, have, total)
    if total is not None and have < total:
        raise ConnectionError(f"{have:,} of {total:,} bytes came")


def _check(remote: Remote, part: Path) -> None:
    """Compare with the published checksum; a wrong file is removed, so that it cannot be gone on with."""
    kind, expected = remote.checksum.split(":")
    digest = hashlib.new(kind, usedforsecurity=False)
    with part.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        size = part.stat().st_size
        part.unlink()
        raise NispaError(
            f"{remote.url}: wrong {kind} checksum {digest.hexdigest()} ({size:,} bytes), want {expected};"
            " the download was removed, try again"
        )


def _write(path: Path, content: bytes) -> None:
    aside = path.with_name(path.name + ".part")
    aside.write_bytes(content)
    _flush(aside)
    aside.replace(path)


def _flush(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())
