"""What the methods with a replay memory share: one call of ``fit`` per task, and the memory after it.

They train a fixed number of epochs and keep the last: the current task's validation set knows nothing of
earlier classes, so stopping by it would reward forgetting. Their softmax runs over all outputs.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.errors import NispaError
from nispa.learner import Learner, Report, State, TaskRecord
from nispa.memory import Memory
from nispa.methods.common import load_plain_state, plain_state, train_task
from nispa.network import Network
from nispa.training import Beside, Optimization, task_loss


class Rehearsal(Learner, ABC):
    """A class-incremental method on one network of fixed wiring, with a memory of earlier samples."""

    masking = "none"

    def __init__(
        self, network: Network, seed: int, how: Optimization, *, epochs: int, per_class: int
    ) -> None:
        super().__init__(network, seed)
        if epochs < 1:
            raise NispaError(f"epochs is {epochs}; want 1 or more")
        self.how, self.epochs, self.per_class = how, epochs, per_class
        self.lr, self.batch_size, self.optimizer = how.lr, how.batch_size, how.optimizer
        self.momentum, self.weight_decay = how.momentum, how.weight_decay
        self.memory = Memory(per_class)

    def train(
        self,
        task: Task,
        report: Report,
        *,
        beside: Beside | None = None,
        adjust: Callable[[], None] | None = None,
        answers: Callable[[Batch], Tensor] | None = None,
    ) -> TaskRecord:
        """CE on the task, with ``beside`` or ``adjust`` once there is a memory; then the memory's share.

        ``answers`` are logits to be stored with the new samples.
        """
        self.admit(task)
        number, filled = len(self.tasks), len(self.memory) > 0
        record = train_task(
            self,
            self.network,
            task,
            task_loss(task.classes, self.masking),
            self.how,
            epochs=self.epochs,
            report=report,
            keep="last",
            beside=beside if filled else None,
            adjust=adjust if filled else None,
        )
        self.memory.add(task, outputs=self.network.classes, seed=self.seed, number=number, answers=answers)
        return record

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        return self.network(x)

    def state(self) -> State:
        state = plain_state(self)
        state.tensors |= self.memory.tensors()
        return state

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
        self.memory.load(state.tensors, self.network)


def memory_loss(network: Network, memory: Memory, size: int, rng: np.random.Generator) -> Tensor:
    """E over (x, y) ~ B of CE(y, f(x)): cross-entropy over all outputs on ``size`` random samples."""
    assert memory.samples is not None
    rows = memory.draw(size, rng)
    logits = network(memory.samples.batch(rows))
    return F.cross_entropy(logits, memory.samples.labels[rows].to(logits.device))


def logit_loss(network: Network, memory: Memory, size: int, rng: np.random.Generator) -> Tensor:
    """E over (x, z) ~ B of the mean square of f(x) - z; z are the logits stored with x.

    Outputs that were added since have no z yet.
    """
    assert memory.samples is not None
    assert memory.logits is not None
    rows = memory.draw(size, rng)
    stored = memory.logits[rows]
    logits = network(memory.samples.batch(rows))[:, : stored.shape[1]]
    return F.mse_loss(logits, stored.to(logits.device))
