"""A user's own folder of images, one folder per class.

Three layouts are understood, told apart by where the images lie: ``class/image``,
``train/class/image`` (with ``test`` and perhaps ``val``), and either of these inside one folder per task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nispa.data.readers.common import Part, natural
from nispa.data.readers.images import SUFFIXES, decode_all
from nispa.errors import NispaError

PARTS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class Listing:
    """The files of one task or data set: part → class → files, both in natural order."""

    name: str
    parts: dict[str, dict[str, list[Path]]] = field(default_factory=dict)

    @property
    def classes(self) -> list[str]:
        return list(self.parts["train"])

    def files(self) -> list[Path]:
        return [f for classes in self.parts.values() for files in classes.values() for f in files]


def list_folder(root: Path) -> list[Listing]:
    """One listing, or one per task if the folder holds a folder per task."""
    if not root.is_dir():
        raise NispaError(f"{root}: no such folder; give one with class/image.png inside")
    children = _folders(root)
    if _is_data_set(children):
        return [_listing(root, children)]
    tasks = [child for child in children if _is_data_set(_folders(child))]
    if not tasks:
        raise NispaError(f"{root}: no images in it; want class/image.png, train/class/… or task/class/…")
    stray = [child.name for child in children if child not in tasks]
    if stray:
        raise NispaError(f"{root / stray[0]}: no class folders with images in it, unlike {tasks[0].name!r}")
    return [_listing(task, _folders(task)) for task in tasks]


def _folders(path: Path) -> list[Path]:
    found = [p for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")]
    return sorted(found, key=lambda p: natural(p.name))


def _images(folder: Path) -> list[Path]:
    files = (p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))
    return sorted((p for p in files if p.is_file()), key=lambda p: natural(p.name))


def _is_data_set(children: list[Path]) -> bool:
    names = {PARTS.get(child.name.lower()) for child in children}
    return "train" in names or any(_images(child) for child in children)


def _listing(root: Path, children: list[Path]) -> Listing:
    by_part = {PARTS[c.name.lower()]: c for c in children if c.name.lower() in PARTS}
    if "train" in by_part:
        parts = {part: _classes(folder, _folders(folder)) for part, folder in by_part.items()}
    else:
        parts = {"train": _classes(root, children)}
    for part, classes in parts.items():
        for name in classes:
            if name not in parts["train"]:
                raise NispaError(f"{by_part[part] / name}: a class that the training images do not have")
    return Listing(root.name, parts)


def _classes(root: Path, folders: list[Path]) -> dict[str, list[Path]]:
    found = {folder.name: _images(folder) for folder in folders}
    empty = [name for name, files in found.items() if not files]
    if empty:
        raise NispaError(f"{root / empty[0]}: no images in it (png, jpg, webp, bmp, gif); fill or remove it")
    if not found:
        raise NispaError(f"{root}: no class folders in it; want class/image.png inside")
    return found


def read_files(
    classes: dict[str, list[Path]],
    numbers: dict[str, int],
    size: tuple[int, int] | None,
    channels: int | None,
) -> Part:
    """Decode one part; a class's number comes from ``numbers``."""
    files = [(path, numbers[name]) for name, paths in classes.items() for path in paths]
    paths = [path for path, _ in files]
    images = decode_all(paths, [str(path) for path in paths], size, channels)
    return Part(images, np.array([number for _, number in files], np.int64))
