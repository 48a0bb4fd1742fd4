"""Cutting one data set into tasks by classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nispa.data import large
from nispa.data.options import Options
from nispa.data.readers import ImageSet
from nispa.data.task import Stream, Task
from nispa.errors import NispaError


def split_classes(
    name: str,
    train: tuple[Any, Any],
    test: tuple[Any, Any] | None,
    groups: Sequence[Sequence[int]],
    *,
    validation: tuple[Any, Any] | None = None,
    names: Sequence[str] = (),
    class_names: Sequence[str] = (),
    seed: int = 0,
    **options: Any,
) -> Stream:
    """One task per group of classes; class numbers stay what they are."""

    def part(pair: tuple[Any, Any] | None, group: Sequence[int]) -> tuple[Any, Any] | None:
        if pair is None:
            return None
        rows = np.flatnonzero(np.isin(np.asarray(pair[1]), group))
        # tensors over the picked rows: Samples takes them as they are, arrays it would copy once more
        labels = np.asarray(pair[1])[rows].astype(np.int64)
        return torch.from_numpy(large.take(np.asarray(pair[0]), rows)), torch.from_numpy(labels)

    tasks = [
        Task.from_arrays(
            part(train, group),
            part(test, group),
            part(validation, group),
            name=names[i] if names else f"classes {min(group)}-{max(group)}",
            classes=group,
            class_names=[class_names[c] for c in sorted(group)] if class_names else (),
            seed=seed,
            **options,
        )
        for i, group in enumerate(groups)
    ]
    return Stream(name, tuple(tasks))


def split_set(
    name: str,
    whole: ImageSet,
    groups: Sequence[Sequence[int]],
    names: Sequence[str],
    options: Options,
    seed: int,
    **overrides: Any,
) -> Stream:
    """As `split_classes`, from a data set as read, with the options of all streams."""
    train = options.shrink(whole.train, seed)
    arguments = options.for_task(train)
    if options.normalise is False:
        arguments |= overrides
    test, held = whole.test, whole.validation
    return split_classes(
        name,
        (train.images, train.labels),
        None if test is None else (test.images, test.labels),
        groups,
        validation=None if held is None else (held.images, held.labels),
        names=names,
        class_names=whole.class_names,
        seed=seed,
        **arguments,
    )


def even_groups(classes: int, tasks: int) -> list[tuple[int, ...]]:
    """Classes 0, 1, … in ascending order (FIDELITY 25), in groups whose sizes differ by one at most.

    >>> even_groups(5, 2)
    [(0, 1, 2), (3, 4)]
    """
    if classes < 2:
        raise NispaError(f"there is {classes} class; a task needs two or more to tell apart")
    if tasks < 1 or classes < 2 * tasks:
        raise NispaError(
            f"tasks is {tasks} for {classes} classes; each task needs two, so give 1 to {classes // 2}"
        )
    return [tuple(group.tolist()) for group in np.array_split(np.arange(classes), tasks)]
