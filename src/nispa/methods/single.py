"""What STL and STL-ISO share: every task is learned in a network of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from torch import Tensor

from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.learner import Learner, Report, State, TaskRecord, silent
from nispa.methods.common import load_plain_state, plain_state, train_task
from nispa.network import Network
from nispa.state import build_network, network_data, network_tensors
from nispa.training import Optimization, task_loss


class SingleTask(Learner):
    """``network`` is the first task's; later tasks get fresh ones of the same shape."""

    def __init__(self, network: Network, how: Optimization, epochs: int, seed: int) -> None:
        super().__init__(network, seed)
        self.lr, self.batch_size, self.epochs = how.lr, how.batch_size, epochs
        self.optimizer, self.momentum, self.weight_decay = how.optimizer, how.momentum, how.weight_decay
        self.how = how
        self.networks: list[Network] = []

    @abstractmethod
    def check(self) -> None:
        """Refuse to begin while something is missing."""

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        self.check()
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
