"""A-GEM, averaged gradient episodic memory (Chaudhry et al., ICLR 2019, eq. 11).

The memory is not trained on. Its gradient r only corrects the task's gradient g where a step would raise
the loss on the memory, that is where g·r < 0: then g - (g·r / r·r) r is taken instead.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("a-gem")(net, epochs=2, per_class=10)
    >>> learner.learn(stream[0]).epochs
    2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from nispa.data.task import Task
from nispa.draws import MEMORY, generator
from nispa.learner import Report, TaskRecord, silent
from nispa.methods.rehearsal import Rehearsal, memory_loss
from nispa.network import Network
from nispa.training import Optimization


class AGEM(Rehearsal):
    """Trains on every task, along directions that do not raise the loss on a memory of earlier ones."""

    name: ClassVar[str] = "a-gem"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.05,
        batch_size: int = 64,
        epochs: int = 5,
        per_class: int = 100,
        optimizer: Literal["adam", "sgd"] = "sgd",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, seed, how, epochs=epochs, per_class=per_class)

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        rng = generator(self.seed, MEMORY, len(self.tasks), phase=1)
        return self.train(task, report, adjust=lambda: self.correct(rng))

    def correct(self, rng: np.random.Generator) -> None:
        """Project the gradients that backward has left, by those of a memory batch."""
        parameters = list(self.network.parameters())
        loss = memory_loss(self.network, self.memory, self.batch_size, rng)
        reference = torch.autograd.grad(loss, parameters)
        gradient = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for parameter, projected in zip(parameters, project(gradient, reference), strict=True):
            parameter.grad = projected


def project(gradient: Sequence[Tensor], reference: Sequence[Tensor]) -> list[Tensor]:
    """Eq. 11: the nearest gradient whose product with the reference is not negative."""
    product = sum(float((g.double() * r.double()).sum()) for g, r in zip(gradient, reference, strict=True))
    if product >= 0:
        return list(gradient)
    square = sum(float(r.double().square().sum()) for r in reference)
    return [g - (product / square) * r for g, r in zip(gradient, reference, strict=True)]
