"""Streams by name: the paper's sequences of tasks, made from the data sets at hand."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nispa.data import catalog
from nispa.data.known import DIGITS
from nispa.data.options import COMMON, Options, check_names
from nispa.data.own import stream_from_folder, stream_from_npz
from nispa.data.readers import ImageSet, Part
from nispa.data.splitting import even_groups, split_set
from nispa.data.task import Stream, Task
from nispa.draws import SPLIT, generator
from nispa.errors import NispaError, nearest

__all__ = [
    *("STREAMS", "build", "cifar10", "cifar100", "digits", "ef_mnist", "mnist", "permuted_mnist"),
    *("split_classes", "stream_from_folder", "stream_from_npz"),
]

Data = str | os.PathLike[str] | None


def digits(seed: int = 0, **options: Any) -> Stream:
    """Five tasks of two digits each: the UCI optical digits (8x8 pixels), shipped in the package.

    A fifth of each digit's images is the test set, the same for every seed; the seed sets which
    tenth of the rest is held out for validation.
    """
    with files("nispa.data").joinpath("embedded/digits.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        images, labels = stored["images"][:, None], stored["labels"].astype(np.int64)
    rng = generator(0, SPLIT)
    test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        members = np.flatnonzero(labels == digit)
        test[rng.permutation(members)[: round(0.2 * len(members))]] = True
    whole = ImageSet(Part(images[~test], labels[~test]), Part(images[test], labels[test]), class_names=DIGITS)
    groups = even_groups(10, 5)
    names = _pairs("digits", groups)
    # pixels run from 0 to 16
    return split_set("digits", whole, groups, names, Options(**options), seed, scale=torch.tensor([1 / 16]))


def mnist(data: Data = None, seed: int = 0, **options: Any) -> Stream:
    """Split MNIST: five tasks of two digits each."""
    groups = even_groups(10, 5)
    return split_set(
        "mnist", catalog.load("mnist", data), groups, _pairs("digits", groups), Options(**options), seed
    )


def ef_mnist(data: Data = None, seed: int = 0, **options: Any) -> Stream:
    """EF-MNIST: digits, A-M, N-Z, the eleven lower-case letters of EMNIST, then Fashion-MNIST."""
    settings = Options(**options)
    letters, fashion = catalog.load("emnist", data), catalog.load("fashion-mnist", data)

    def both(first: Part | None, second: Part | None) -> Part:
        if first is None or second is None:
            raise NispaError("ef-mnist needs the test images of EMNIST and of Fashion-MNIST; one is missing")
        shifted = second.labels + len(letters.class_names)
        return Part(np.concatenate([first.images, second.images]), np.concatenate([first.labels, shifted]))

    whole = ImageSet(
        both(letters.train, fashion.train),
        both(letters.test, fashion.test),
        class_names=letters.class_names + fashion.class_names,
    )
    edges = (0, 10, 23, 36, 47, 57)
    groups = [range(start, end) for start, end in itertools.pairwise(edges)]
    names = ("digits", "letters A-M", "letters N-Z", "lower-case letters", "fashion")
    return split_set("ef-mnist", whole, groups, names, settings, seed)


def cifar10(data: Data = None, seed: int = 0, **options: Any) -> Stream:
    """Split CIFAR-10: five tasks of two classes each."""
    whole, groups = catalog.load("cifar10", data), even_groups(10, 5)
    names = [" and ".join(whole.class_names[c] for c in group) for group in groups]
    return split_set("cifar10", whole, groups, names, Options(**options), seed)


def cifar100(data: Data = None, seed: int = 0, **options: Any) -> Stream:
    """Split CIFAR-100: twenty tasks of five classes each."""
    whole, groups = catalog.load("cifar100", data), even_groups(100, 20)
    names = [f"{whole.class_names[g[0]]} to {whole.class_names[g[-1]]}" for g in groups]
    return split_set("cifar100", whole, groups, names, Options(**options), seed)


def permuted_mnist(
    data: Data = None, seed: int = 0, *, tasks: int = 5, fraction: float = 1.0, **options: Any
) -> Stream:
    """Permuted MNIST: the first task is MNIST itself, every other moves the same share of its pixels.

    In task t (from 1) a seeded choice of ``fraction`` of the 784 positions, drawn without replacement
    (docs/fidelity.md, row 22), is put in random order. Its classes are output units of its own,
    10(t-1) to 10(t-1)+9. A task holds its own 55 MB of images.
    """
    if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
        raise NispaError(f"permuted-mnist: tasks is {tasks!r}; want a whole number, 1 or more")
    if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
        raise NispaError(f"permuted-mnist: fraction is {fraction!r}; want a share of the pixels in [0, 1]")
    settings, whole = Options(**options), catalog.load("mnist", data)
    train = settings.shrink(whole.train, seed)
    arguments = settings.for_task(train)

    def permuted(
        part: Part | None, source: np.ndarray, first: int
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        if part is None:
            return None
        moved = part.images.reshape(len(part), -1)[:, source].reshape(part.images.shape)
        return torch.from_numpy(moved), torch.from_numpy(part.labels + first)

    made: list[Task] = []
    for t in range(tasks):
        source = pixel_permutation(784, fraction if t else 0.0, seed, t)
        first = 10 * t
        made.append(
            Task.from_arrays(
                permuted(train, source, first),
                permuted(whole.test, source, first),
                name=f"permutation {t}" if t else "unpermuted",
                classes=range(first, first + 10),
                class_names=whole.class_names,
                seed=seed,
                **arguments,
            )
        )
    return Stream("permuted-mnist", tuple(made))


def pixel_permutation(pixels: int, fraction: float, seed: int, task: int) -> np.ndarray:
    """Where each pixel comes from: so many positions are chosen, and these shuffled among themselves.

    "We randomly selected p_r of the pixels and shuffle them" (appendix, Permuted MNIST Experiments):
    every order of the chosen ones is as likely, so one of them, on average, stays in place.
    """
    source = np.arange(pixels)
    rng = generator(seed, SPLIT, task=task)
    chosen = rng.permutation(pixels)[: round(fraction * pixels)]
    source[chosen] = rng.permutation(chosen)
    return source


def _pairs(what: str, groups: Sequence[Sequence[int]]) -> list[str]:
    return [f"{what} {' and '.join(map(str, group))}" for group in groups]


_BUILDERS: dict[str, Callable[..., Stream]] = {
    "ef-mnist": ef_mnist,
    "mnist": mnist,
    "permuted-mnist": permuted_mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "digits": digits,
}
STREAMS = {
    "ef-mnist": "five tasks of 10, 13, 13, 11 and 10 classes (EMNIST balanced, Fashion-MNIST)",
    "mnist": "five tasks of two digits each (split MNIST)",
    "permuted-mnist": "any number of tasks of ten digits, pixels permuted (tasks=, fraction=)",
    "cifar10": "five tasks of two classes each (split CIFAR-10)",
    "cifar100": "twenty tasks of five classes each (split CIFAR-100)",
    "digits": "five tasks of two digits each (UCI optical digits, embedded)",
}


def build(name: str, *, data: Data = None, seed: int = 0, **options: Any) -> Stream:
    """The stream of this name, or from a user's own folder of images or .npz file.

    ``data`` is a folder to look for data sets in (else NISPA_DATA and the cache folder). All streams
    take the options of `nispa.data.options.Options`; permuted-mnist and a user's own data take more.

    >>> build("digits", subset=0.5)[1].classes
    (2, 3)
    """
    function = _builder(name)
    parameters = inspect.signature(function).parameters
    own = [p for p in parameters if p not in ("data", "path", "seed", "options")]
    check_names(options, [*own, *COMMON], f"stream {name!r}")
    if "path" in parameters:
        return function(name, seed=seed, **options)
    return function(seed=seed, **options, **({"data": data} if "data" in parameters else {}))


def _builder(name: str) -> Callable[..., Stream]:
    if name in _BUILDERS:
        return _BUILDERS[name]
    path = Path(name).expanduser()
    if path.suffix == ".npz":
        return stream_from_npz
    if path.is_dir() or os.sep in name:
        return stream_from_folder
    hint = nearest(name, STREAMS)
    raise NispaError(
        f"unknown stream {name!r}{hint} (known: {', '.join(STREAMS)}; or a folder, or a .npz file)"
    )
