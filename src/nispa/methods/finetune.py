"""Finetune: the network is trained on one task after the other, and nothing is done against forgetting.

The lower bound of every continual learner; EWC, SI and MAS with strength 0 are this, bit for bit.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=1)
    >>> learner = nispa.methods.method_class("finetune")(net, epochs=2)
    >>> learner.learn(stream[0]).epochs
    2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from nispa.data.task import Task
from nispa.learner import Report, State, TaskRecord, silent
from nispa.methods.common import load_plain_state, plain_state, train_task
from nispa.methods.sequential import Sequential
from nispa.network import Network
from nispa.training import Optimization, task_loss


class Finetune(Sequential):
    """patience  early stopping: so many epochs without a better validation accuracy end a task"""

    name: ClassVar[str] = "finetune"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        patience: int | None = 3,
        masking: Literal["true", "zero", "none"] = "true",
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, how, epochs=epochs, patience=patience, masking=masking, seed=seed)

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        self.admit(task)
        return train_task(
            self,
            self.network,
            task,
            task_loss(task.classes, self.masking),
            self.how,
            epochs=self.epochs,
            patience=self.patience,
            report=report,
        )

    def state(self) -> State:
        return plain_state(self)

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
