"""Augmentation reaches the training batches of every learner, and nothing else."""

import dataclasses

import numpy as np
import pytest
import torch

import nispa
from nispa.data.augment import Augment
from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.draws import AUGMENT, generator
from nispa.learner import Learner
from nispa.methods import method_class

OPTIONS = {
    "nispa": {"phase_epochs": 2, "tau_period": 4, "accuracy_loss": 10, "batch_size": 64},
    "stl": {"epochs": 2, "batch_size": 64},
}


def learner(method: str, seed: int = 3) -> Learner:
    net = nispa.mlp((1, 8, 8), [20], classes=10, density=0.5, seed=seed)
    made: Learner = method_class(method)(net, seed=seed, **OPTIONS[method])
    return made


@dataclasses.dataclass(frozen=True)
class Watched(Augment):
    """A real augmentation that notes what it was asked for."""

    seen: list[tuple[int, float]] = dataclasses.field(default_factory=list)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        changed = super().__call__(batch, rng)
        self.seen.append((len(batch), float(rng.random())))
        return changed


@pytest.mark.parametrize("method", sorted(OPTIONS))
def test_every_training_batch_is_augmented_with_its_own_generator(method: str) -> None:
    watched = Watched(shift=1)
    task = dataclasses.replace(nispa.streams.digits()[0], augment=watched)
    record = learner(method).learn(task)
    batches = -(-len(task.train) // 64)
    assert len(watched.seen) == record.epochs * batches
    assert sum(count for count, _ in watched.seen) == record.samples
    for epoch in range(2):  # both in phase 1: replay the epoch's draws from its address alone
        rng, again = generator(3, AUGMENT, 0, 1, epoch), []
        for count, _ in watched.seen[epoch * batches : (epoch + 1) * batches]:
            Augment(shift=1)(Batch(task.train.inputs, torch.arange(count)), rng)
            again.append(float(rng.random()))
        assert again == [number for _, number in watched.seen[epoch * batches : (epoch + 1) * batches]]


def test_a_stream_option_changes_training_and_not_what_is_measured() -> None:
    plain, augmented = nispa.streams.digits(), nispa.streams.digits(augment={"shift": 2})
    assert bool((plain[0].validation.inputs == augmented[0].validation.inputs).all())

    def weights(task: Task) -> bytes:
        one = learner("stl")
        one.learn(task)
        return one.network.sparse_layers[0].weights().tobytes()

    assert weights(plain[0]) != weights(augmented[0])
    assert weights(augmented[0]) == weights(augmented[0])
