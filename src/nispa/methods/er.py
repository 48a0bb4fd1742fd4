"""ER, experience replay with a tiny memory (Chaudhry et al., 2019).

The loss is NISPA-Replay's: CE on the task's batch + lambda · CE on as many samples of the memory.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("er")(net, epochs=2, per_class=10)
    >>> for task in list(stream)[:2]:
    ...     record = learner.learn(task)
    >>> learner.memory.counts()
    {0: 25, 1: 25, 2: 25, 3: 25}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from nispa.data.task import Task
from nispa.learner import Report, TaskRecord, silent
from nispa.methods.rehearsal import Rehearsal, memory_loss
from nispa.network import Network
from nispa.training import Optimization


class ER(Rehearsal):
    """Trains on every task and on a class-balanced memory of the earlier ones."""

    name: ClassVar[str] = "er"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.1,
        batch_size: int = 32,
        epochs: int = 10,
        per_class: int = 100,
        replay_weight: float = 1.0,
        optimizer: Literal["adam", "sgd"] = "sgd",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, seed, how, epochs=epochs, per_class=per_class)
        self.replay_weight = replay_weight

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        return self.train(task, report, beside=self.replay)

    def replay(self, size: int, rng: np.random.Generator) -> Tensor:
        """lambda · CE on the memory."""
        return self.replay_weight * memory_loss(self.network, self.memory, size, rng)
