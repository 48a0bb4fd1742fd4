"""Streams from a user's own data: a folder of images, or arrays in a .npz file."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nispa.data.cache import cached
from nispa.data.options import Options, check_share, stratified
from nispa.data.readers import ImageSet, Part
from nispa.data.readers.common import join
from nispa.data.readers.folder import Listing, list_folder, read_files
from nispa.data.readers.npz import read_npz
from nispa.data.splitting import even_groups, split_set
from nispa.data.task import Stream
from nispa.draws import SPLIT, generator
from nispa.errors import NispaError, nearest

FORM = (
    "say how they form tasks: a number (--set stream.tasks=2, in Python tasks=2), or a list of classes for"
    " each task"
)
Tasks = int | Sequence[Sequence[str]] | None


def stream_from_folder(
    path: str | os.PathLike[str],
    *,
    tasks: Tasks = None,
    size: Sequence[int] | int | None = None,
    channels: int | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    **options: Any,
) -> Stream:
    """Tasks from ``class/image.png``, ``train/class/…`` with ``test/class/…``, or one folder per task.

    ``tasks``: a number of tasks (the classes in natural order, in even groups), or the names of each
    task's classes; not needed with one folder per task. ``size`` (height, width) stretches the images,
    ``channels`` 1 or 3 converts them; without either they must be alike. Without test images of its
    own, ``test_fraction`` of every class is the test set, the same for every seed.
    """
    root, settings = Path(path).expanduser(), Options(**options)
    height_width = _size(size)
    check_share(test_fraction, "test_fraction")
    if channels not in (None, 1, 3):
        raise NispaError(f"channels is {channels!r}; want 1 (grey) or 3 (colour)")
    listings = list_folder(root)
    names = [f"{x.name}/{c}" if len(listings) > 1 else c for x in listings for c in x.classes]
    if tasks is None:
        if len(listings) == 1:
            raise NispaError(
                f"{root}: {len(names)} {'class' if len(names) == 1 else 'classes'} in one folder; {FORM}"
            )
        groups = _by_folder(listings)
    elif len(listings) > 1:
        raise NispaError(f"{root}: has one folder per task, so leave tasks out")
    else:
        groups = named_groups(tasks, names, str(root))
    numbers = {name: i for i, name in enumerate(names)}

    def build() -> ImageSet:
        return _read(listings, numbers, height_width, channels)

    label = re.sub(r"[^\w.-]", "_", root.resolve().name) or "folder"
    everything = [file for listing in listings for file in listing.files()]
    whole = cached(label, everything, (height_width, channels, names), build)
    titles = [x.name for x in listings] if tasks is None else _titles(groups, names)
    return _stream(root.resolve().name, whole, groups, titles, tuple(names), settings, test_fraction, seed)


def stream_from_npz(
    path: str | os.PathLike[str],
    *,
    tasks: int | Sequence[Sequence[int]] | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    **options: Any,
) -> Stream:
    """Tasks from the arrays of a .npz file: x_train, y_train, and x_test, y_test if there are any."""
    file, settings = Path(path).expanduser(), Options(**options)
    check_share(test_fraction, "test_fraction")
    whole = read_npz(file)
    classes = int(whole.train.labels.max()) + 1
    names = [str(c) for c in range(classes)]
    if tasks is None:
        raise NispaError(f"{file}: {classes} classes in it; {FORM}")
    groups = named_groups(tasks, names, str(file))
    titles = _titles(groups, names)
    return _stream(file.stem, whole, groups, titles, tuple(names), settings, test_fraction, seed)


def named_groups(tasks: Any, names: Sequence[str], what: str) -> list[tuple[int, ...]]:
    """The class positions of each task, from a number of tasks or from names."""
    if isinstance(tasks, int) and not isinstance(tasks, bool):
        return even_groups(len(names), tasks)
    if not _is_list(tasks) or not all(_is_list(group) and group for group in tasks):
        raise NispaError(f"{what}: tasks is {tasks!r}; want a number, or one list of classes per task")
    position = {name: i for i, name in enumerate(names)}
    groups: list[tuple[int, ...]] = []
    used: set[str] = set()
    for group in tasks:
        for name in map(str, group):
            if name not in position:
                raise NispaError(f"{what}: no class {name!r} in it{nearest(name, names)}")
            if name in used:
                raise NispaError(f"{what}: class {name!r} is in two tasks; give each class once")
            used.add(name)
        groups.append(tuple(position[str(name)] for name in group))
    return groups


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _titles(groups: Sequence[Sequence[int]], names: Sequence[str]) -> list[str]:
    def title(group: Sequence[int]) -> str:
        text = ", ".join(names[c] for c in group)
        return text if len(text) <= 40 else f"{names[group[0]]} to {names[group[-1]]}"

    return [title(group) for group in groups]


def _by_folder(listings: Sequence[Listing]) -> list[tuple[int, ...]]:
    edges = np.cumsum([0] + [len(x.classes) for x in listings]).tolist()
    return [tuple(range(start, end)) for start, end in itertools.pairwise(edges)]


def _size(size: Sequence[int] | int | None) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(type(n) is int and 1 <= n <= 4096 for n in pair):
        raise NispaError(f"size is {size!r}; want a number of pixels, or (height, width)")
    return pair[0], pair[1]


def _read(
    listings: Sequence[Listing], numbers: dict[str, int], size: tuple[int, int] | None, channels: int | None
) -> ImageSet:
    found: dict[str, list[Part]] = {}
    for listing in listings:
        prefix = f"{listing.name}/" if len(listings) > 1 else ""
        own = {name: numbers[prefix + name] for name in listing.classes}
        for part, classes in listing.parts.items():
            found.setdefault(part, []).append(read_files(classes, own, size, channels))
    for part, pieces in found.items():
        if len(pieces) != len(listings):
            raise NispaError(f"{part} images in some of the task folders only; give them to all or to none")
        for piece in pieces:
            if piece.images.shape[1:] != pieces[0].images.shape[1:]:
                raise NispaError(
                    f"tasks have images of {pieces[0].images.shape[1:]} and {piece.images.shape[1:]}"
                    " (channels, height, width); give size and channels"
                )
    joined = {part: join(pieces, part) for part, pieces in found.items()}
    return ImageSet.of(joined)


def _stream(
    name: str,
    whole: ImageSet,
    groups: list[tuple[int, ...]],
    titles: list[str],
    class_names: tuple[str, ...],
    settings: Options,
    test_fraction: float,
    seed: int,
) -> Stream:
    """Number the classes in the order of the tasks, set a test part aside if there is none, and split."""
    order = [c for group in groups for c in group]
    number = np.full(len(class_names), -1)
    number[order] = np.arange(len(order))

    def renumbered(part: Part | None) -> Part | None:
        if part is None:
            return None
        if part.labels.max() >= len(number):
            raise NispaError(f"{name}: class {part.labels.max()} has no training images; give some")
        used = np.flatnonzero(number[part.labels] >= 0)
        whole_part = len(used) == len(part)
        picked = part if whole_part else part.take(used)
        return Part(picked.images, number[picked.labels])

    train, test = renumbered(whole.train), renumbered(whole.test)
    assert train is not None
    if test is None and test_fraction:
        rows = stratified(train.labels, test_fraction, generator(0, SPLIT), least=1)
        test, train = train.take(rows), train.take(np.delete(np.arange(len(train)), rows))
    edges = np.cumsum([0] + [len(group) for group in groups]).tolist()
    consecutive = [range(start, end) for start, end in itertools.pairwise(edges)]
    ordered = ImageSet(train, test, renumbered(whole.validation), tuple(class_names[c] for c in order))
    return split_set(name, ordered, consecutive, titles, settings, seed)
