"""A task, and a stream of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nispa.data.augment import Augment
from nispa.data.samples import Samples
from nispa.draws import SPLIT, generator
from nispa.errors import NispaError


@dataclass(frozen=True)
class Task:
    """One task: its classes (output units of the network) and its samples.

    Class numbers are those of the whole stream: with two classes a task, task 2 has classes (2, 3).

    >>> import numpy as np
    >>> x, y = np.random.rand(20, 5), np.arange(20) % 2
    >>> task = Task.from_arrays((x, y), name="coin")
    >>> task.classes, len(task.train), len(task.validation)
    ((0, 1), 18, 2)
    """

    name: str
    classes: tuple[int, ...]
    train: Samples
    validation: Samples
    test: Samples | None = None
    class_names: tuple[str, ...] = ()
    augment: Augment | None = None  # for the training loop; nispa.data.augment says how it is used

    @classmethod
    def from_arrays(
        cls,
        train: Any,
        test: Any = None,
        validation: Any = None,
        *,
        name: str = "task",
        classes: Sequence[int] | None = None,
        class_names: Sequence[str] = (),
        validation_fraction: float = 0.1,
        seed: int = 0,
        scale: Tensor | None = None,
        shift: Tensor | None = None,
        augment: Augment | None = None,
    ) -> Task:
        """A task from (inputs, labels) pairs of tensors or arrays, or from map-style Datasets.

        Without a ``validation`` of its own, a stratified part of the training samples is set aside.
        """
        scaling = {"scale": scale, "shift": shift}
        samples = Samples.of(train, f"task {name!r}, train", **scaling)
        if len(samples) == 0:
            raise NispaError(f"task {name!r} has no training samples; give some of each class")
        found = tuple(torch.unique(samples.labels).tolist())
        known = tuple(sorted({int(c) for c in classes})) if classes is not None else found
        if len(known) < 2:
            raise NispaError(
                f"task {name!r} has one class ({found[0]}); there is nothing to tell apart, give two or more"
            )
        held = None if validation is None else Samples.of(validation, f"task {name!r}, validation", **scaling)
        if held is None:
            samples, held = split(samples, validation_fraction, seed, name)
        tests = None if test is None else Samples.of(test, f"task {name!r}, test", **scaling)
        for part, what in ((samples, "train"), (held, "validation"), (tests, "test")):
            if part is not None:
                _check(part, samples, known, f"task {name!r}, {what}")
        missing = set(known) - set(found)
        if missing:
            raise NispaError(f"task {name!r} has no training sample of class {min(missing)}; give some")
        return cls(name, known, samples, held, tests, tuple(class_names), augment)


def _check(part: Samples, train: Samples, classes: tuple[int, ...], what: str) -> None:
    if len(part) == 0:
        raise NispaError(f"{what}: no samples; give some, or leave it out")
    if part.inputs.shape[1:] != train.inputs.shape[1:]:
        raise NispaError(
            f"{what}: inputs of shape {list(part.inputs.shape[1:])},"
            f" but {list(train.inputs.shape[1:])} in training; resize them"
        )
    foreign = sorted(set(torch.unique(part.labels).tolist()) - set(classes))
    if foreign:
        raise NispaError(f"{what}: class {foreign[0]} is none of the task's classes {list(classes)}")


def split(samples: Samples, fraction: float, seed: int, name: str = "task") -> tuple[Samples, Samples]:
    """Set aside a stratified, seeded fraction of every class (FIDELITY 16): (rest, set aside)."""
    if not 0 < fraction < 1:
        raise NispaError(f"validation_fraction is {fraction}; want a number between 0 and 1")
    rng = generator(seed, SPLIT)
    labels = samples.labels.numpy()
    aside: list[np.ndarray] = []
    for c in np.unique(labels):
        members = np.flatnonzero(labels == c)
        if len(members) < 2:
            raise NispaError(
                f"task {name!r} has one sample of class {c}; give two or more, or a validation set"
            )
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        aside.append(rng.permutation(members)[:count])
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[np.concatenate(aside)] = True
    pick = torch.from_numpy(chosen)
    return samples.take((~pick).nonzero()[:, 0]), samples.take(pick.nonzero()[:, 0])


@dataclass(frozen=True)
class Stream:
    """Tasks in the order in which they are learned, with disjoint classes.

    ``classes`` is the number of output units that a network for the whole stream needs.
    """

    name: str
    tasks: tuple[Task, ...]
    input_shape: tuple[int, ...] = field(init=False)
    classes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        if not self.tasks:
            raise NispaError(f"stream {self.name!r} has no tasks; give at least one")
        shape = tuple(self.tasks[0].train.inputs.shape[1:])
        owner: dict[int, str] = {}
        for task in self.tasks:
            if tuple(task.train.inputs.shape[1:]) != shape:
                raise NispaError(
                    f"stream {self.name!r}: task {task.name!r} has inputs of shape"
                    f" {list(task.train.inputs.shape[1:])}, the first task {list(shape)}; make them alike"
                )
            for c in task.classes:
                if c in owner:
                    raise NispaError(
                        f"stream {self.name!r}: class {c} is in task {owner[c]!r} and in {task.name!r};"
                        " give every task classes of its own"
                    )
                owner[c] = task.name
        object.__setattr__(self, "input_shape", shape)
        object.__setattr__(self, "classes", max(owner) + 1)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, index: int) -> Task:
        return self.tasks[index]
