"""Decoded data sets, kept as .npy files that are memory-mapped the next time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from nispa.data.folders import cache_folder
from nispa.data.readers.common import ImageSet, Part

# part of every key: raise it when a reader's result changes
VERSION = 1


def cached(label: str, files: Iterable[Path], options: Any, build: Callable[[], ImageSet]) -> ImageSet:
    """``build()``, or what an earlier call stored for the same files (path, size, time) and options."""
    folder = cache_folder() / "decoded" / f"{label}-{_key(files, options)}"
    stored = _load(folder)
    if stored is not None:
        return stored
    built = build()
    try:
        _store(folder, built)
    except OSError:  # a full or read-only cache folder costs time, never the run
        return built
    return _load(folder) or built


def _key(files: Iterable[Path], options: Any) -> str:
    digest = hashlib.sha256(repr((VERSION, options)).encode())
    for path in files:
        stat = path.stat()
        digest.update(repr((str(path.resolve()), stat.st_size, stat.st_mtime_ns)).encode())
    return digest.hexdigest()[:20]


def _store(folder: Path, images: ImageSet) -> None:
    """Write aside, flush to disk, rename: a reader sees a whole entry or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        parts = images.parts()
        for name, part in parts.items():
            for field, array in (("images", part.images), ("labels", part.labels)):
                with (aside / f"{name}-{field}.npy").open("wb") as file:
                    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
                    _flush(file.fileno(), file)
        with (aside / "about.json").open("w") as about:
            json.dump({"parts": list(parts), "class_names": images.class_names}, about)
            _flush(about.fileno(), about)
        with contextlib.suppress(OSError):  # another process was faster: its entry is as good
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _flush(number: int, file: Any) -> None:
    file.flush()
    os.fsync(number)


def _load(folder: Path) -> ImageSet | None:
    """The stored entry, memory-mapped; a damaged one is removed, so that it is built anew."""
    if not folder.is_dir():
        return None
    try:
        about = json.loads((folder / "about.json").read_text())
        parts: dict[str, Part] = {}
        for name in about["parts"]:
            images = np.load(folder / f"{name}-images.npy", mmap_mode="r", allow_pickle=False)
            labels = np.load(folder / f"{name}-labels.npy", allow_pickle=False)
            if len(images) != len(labels):
                raise ValueError("counts differ")
            parts[name] = Part(images, labels)
        return ImageSet.of(parts, tuple(about["class_names"]))
    except (OSError, EOFError, ValueError, LookupError, TypeError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
