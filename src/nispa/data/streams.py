"""Streams by name: sequences of tasks made from the data sets at hand."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import torch

from nispa.data.task import Stream, Task
from nispa.draws import SPLIT, generator


def split_classes(
    name: str,
    train: tuple[Any, Any],
    test: tuple[Any, Any] | None,
    groups: Sequence[Sequence[int]],
    *,
    names: Sequence[str] = (),
    seed: int = 0,
    **options: Any,
) -> Stream:
    """One task per group of classes; class numbers stay what they are."""

    def part(pair: tuple[Any, Any], group: Sequence[int]) -> tuple[Any, Any]:
        rows = np.flatnonzero(np.isin(np.asarray(pair[1]), group))
        return np.asarray(pair[0])[rows], np.asarray(pair[1])[rows].astype(np.int64)

    tasks = [
        Task.from_arrays(
            part(train, group),
            part(test, group) if test is not None else None,
            name=names[i] if names else f"classes {min(group)}-{max(group)}",
            classes=group,
            seed=seed,
            **options,
        )
        for i, group in enumerate(groups)
    ]
    return Stream(name, tuple(tasks))


def digits(seed: int = 0) -> Stream:
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
    return split_classes(
        "digits",
        (images[~test], labels[~test]),
        (images[test], labels[test]),
        [(2 * t, 2 * t + 1) for t in range(5)],
        names=[f"digits {2 * t} and {2 * t + 1}" for t in range(5)],
        seed=seed,
        scale=torch.tensor([1 / 16]),  # pixels run from 0 to 16
    )


STREAMS = {"digits": "five tasks of two digits each (UCI optical digits, embedded)"}


def build(name: str, *, data: str | None = None, seed: int = 0, **options: Any) -> Stream:
    """A stream by name."""
    return digits(seed)
