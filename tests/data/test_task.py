"""The validation set of a task: a tenth, stratified, seeded, once per task (docs/fidelity.md, row 16)."""

import numpy as np
import torch

from nispa.data.streams import build
from nispa.data.task import Task

LABELS = np.repeat([0, 1, 2], [50, 30, 11])
INPUTS = np.arange(2 * len(LABELS), dtype=np.float32).reshape(-1, 2)
"""Every sample tells its number."""


def task(seed: int = 0, validation: tuple[np.ndarray, np.ndarray] | None = None) -> Task:
    return Task.from_arrays((INPUTS, LABELS), validation=validation, seed=seed)


def test_a_tenth_of_every_class_is_set_aside_and_in_no_other_part() -> None:
    made = task()
    assert torch.bincount(made.validation.labels).tolist() == [5, 3, 1]
    assert torch.bincount(made.train.labels).tolist() == [45, 27, 10]
    both = torch.cat([made.train.inputs, made.validation.inputs])
    assert sorted(both[:, 0].tolist()) == INPUTS[:, 0].tolist()
    assert [len(t.validation) for t in build("digits")] == [29, 29, 29, 28, 28]


def test_which_ones_is_drawn_from_the_seed() -> None:
    def chosen(seed: int) -> list[float]:
        return list(task(seed).validation.inputs[:, 0].tolist())

    assert chosen(3) == chosen(3)
    often = {number for seed in range(60) for number in chosen(seed)}
    assert len(often) > 85, "of 91 samples each is sometimes set aside"


def test_a_validation_set_of_ones_own_is_taken_as_it_is() -> None:
    made = task(validation=(INPUTS[:4] + 1000, LABELS[:4]))
    assert len(made.train) == len(LABELS)
    assert made.validation.inputs[:, 0].tolist() == [1000, 1002, 1004, 1006]
