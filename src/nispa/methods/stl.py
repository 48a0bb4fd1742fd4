"""STL, the single-task learner: one fresh network per task (paper, section "Comparison with STL").

With NISPA's density it is the upper bound, since every task has all connections for itself.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("stl")(net, epochs=2)
    >>> len(learner.learn(stream[0]).classes)
    2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor

from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.learner import Learner, Report, State, TaskRecord, silent
from nispa.methods.common import load_plain_state, plain_state, train_task
from nispa.network import Network
from nispa.state import build_network, network_data, network_tensors
from nispa.training import Optimization, task_loss


class STL(Learner):
    """Learns every task in a network of its own, with early stopping on validation."""

    name: ClassVar[str] = "stl"
    forgets: ClassVar[bool] = False

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(network, seed)
        self.lr, self.batch_size, self.epochs = lr, batch_size, epochs
        self.optimizer, self.momentum, self.weight_decay = optimizer, momentum, weight_decay
        self.how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        self.networks: list[Network] = []

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        self.admit(task)
        number = len(self.tasks)
        network = self.network if number == 0 else self.network.fresh(self.network.seed + number)
        self.networks.append(network)
        loss = task_loss(task.classes, self.masking)
        return train_task(self, network, task, loss, self.how, epochs=self.epochs, report=report)

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        return (self.networks[task] if task < len(self.networks) else self.network)(x)

    def state(self) -> State:
        state = plain_state(self, networks=[network_data(network) for network in self.networks])
        for i, network in enumerate(self.networks):
            state.tensors |= network_tensors(network, f"task{i}.")
        return state

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
        self.networks = [
            build_network(state.tensors, description, f"task{i}.").to(self.network.device)
            for i, description in enumerate(state.data["networks"])
        ]
        self.network = self.networks[0] if self.networks else self.network
