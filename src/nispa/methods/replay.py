"""NISPA-Replay: NISPA for class-incremental learning (paper, section and appendix of that name).

It is Algorithm 1 itself (``nispa.algorithm.NISPA``) in another arrangement; docs/fidelity.md, row 21:

- the softmax runs over all outputs, whatever the task (``masking="none"``), so the last layer is never
  frozen; connections from plastic units into the outputs of classes seen are still dropped;
- nothing is re-initialised between tasks: that would change what the later classes' outputs answer;
- no early stopping inside a phase, and ``min_phases`` phases at least;
- the loss is CE on the task's batch + lambda · CE on as many samples of a class-balanced memory.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("nispa-replay")(
    ...     net, lr=0.1, phase_epochs=1, min_phases=2, tau_period=4, accuracy_loss=5, per_class=10
    ... )
    >>> for task in list(stream)[:2]:
    ...     record = learner.learn(task)
    >>> learner.memory.counts()                  # 10 a class x 10 classes, shared by the four seen
    {0: 25, 1: 25, 2: 25, 3: 25}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from nispa.algorithm import NISPA
from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.learner import Learner, Report, State, TaskRecord, silent
from nispa.memory import Memory
from nispa.methods.rehearsal import memory_loss
from nispa.network import Network


class NISPAReplay(Learner):
    """NISPA whose last layer goes on learning, with a replay memory.

    per_class      the memory holds this many samples times all classes of the network
    replay_weight  lambda, the weight of the memory's loss
    min_phases     3 for MNIST, 5 otherwise (the authors' code)
    """

    name: ClassVar[str] = "nispa-replay"
    masking = "none"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.1,
        batch_size: int = 256,
        per_class: int = 100,
        replay_weight: float = 1.0,
        phase_epochs: int = 5,
        accuracy_loss: float = 2.0,
        tau_period: float = 30,
        tau_schedule: Literal["cosine", "linear"] = "cosine",
        growth: Literal["random", "novel", "transfer"] = "random",
        selection: Literal["paper", "all-units"] = "paper",
        min_phases: int = 5,
        optimizer: Literal["adam", "sgd"] = "sgd",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(network, seed)
        self.lr, self.batch_size, self.optimizer = lr, batch_size, optimizer
        self.momentum, self.weight_decay = momentum, weight_decay
        self.per_class, self.replay_weight = per_class, replay_weight
        self.phase_epochs, self.accuracy_loss, self.min_phases = phase_epochs, accuracy_loss, min_phases
        self.tau_period, self.tau_schedule = tau_period, tau_schedule
        self.growth, self.selection = growth, selection
        self.memory = Memory(per_class)
        self.nispa = NISPA(
            network,
            lr=lr,
            batch_size=batch_size,
            phase_epochs=phase_epochs,
            accuracy_loss=accuracy_loss,
            tau_period=tau_period,
            tau_schedule=tau_schedule,
            growth=growth,
            selection=selection,
            masking="none",
            keep_epoch="last",
            reinitialize=False,
            min_phases=min_phases,
            optimizer=optimizer,
            momentum=momentum,
            weight_decay=weight_decay,
            seed=seed,
        )
        self.tasks = self.nispa.tasks

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        number = len(self.tasks)
        beside = self.replay if len(self.memory) else None
        record = self.nispa.learn(task, last=last, report=report, checkpoint=checkpoint, beside=beside)
        self.memory.add(task, outputs=self.network.classes, seed=self.seed, number=number)
        return record

    def replay(self, size: int, rng: np.random.Generator) -> Tensor:
        """The second term of the loss: lambda · CE on ``size`` samples of the memory."""
        return self.replay_weight * memory_loss(self.network, self.memory, size, rng)

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        return self.network(x)

    def state(self) -> State:
        state = self.nispa.state()
        state.tensors |= self.memory.tensors()
        return state

    def load_state(self, state: State) -> None:
        self.nispa.load_state(state)
        self.network, self.tasks = self.nispa.network, self.nispa.tasks
        self.memory.load(state.tensors, self.network)
