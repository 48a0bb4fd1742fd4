"""DER, dark experience replay (Buzzega et al., NeurIPS 2020, eq. 4).

The memory keeps, with every sample, the logits z that the network gave when it was stored; replay pulls
the network's answers back to them: CE on the task's batch + alpha · mean (f(x) - z)² on the memory. The
original stores samples all through a task (reservoir sampling); here, as for all methods of the table,
the memory is class-balanced and filled at a task's end (docs/class-incremental.md).

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("der")(net, epochs=2, per_class=10)
    >>> record = learner.learn(stream[0])
    >>> tuple(learner.memory.logits.shape)       # 100 samples, 10 outputs
    (100, 10)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from nispa.data.task import Task
from nispa.learner import Report, TaskRecord, silent
from nispa.methods.rehearsal import Rehearsal, logit_loss
from nispa.network import Network
from nispa.training import Optimization


class DER(Rehearsal):
    """Trains on every task and keeps its answers on a memory of the earlier ones."""

    name: ClassVar[str] = "der"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.1,
        batch_size: int = 32,
        epochs: int = 10,
        per_class: int = 100,
        logit_weight: float = 0.5,
        optimizer: Literal["adam", "sgd"] = "sgd",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, seed, how, epochs=epochs, per_class=per_class)
        self.logit_weight = logit_weight

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        return self.train(task, report, beside=self.replay, answers=self.network)

    def replay(self, size: int, rng: np.random.Generator) -> Tensor:
        """alpha · mean square of f(x) - z."""
        return self.logit_weight * logit_loss(self.network, self.memory, size, rng)
