"""NISPA-Replay+: NISPA-Replay that answers by the exemplars' statistics on stable units.

Beyond the paper. The network, its training, its memory and the samples in it are NISPA-Replay's. But the
output layer, trained on thousands of new samples and few old ones, leans to the new classes; here it only
shapes the features. A class is answered for by its exemplars: their mean activation of the stable units of
all hidden layers, and one covariance for all classes (``gaussian.py``). Like iCaRL's means these follow
from the memory: nothing else is stored. docs/class-incremental.md has what was measured, and what lost.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("nispa-replay+")(
    ...     net, lr=0.1, phase_epochs=1, min_phases=2, tau_period=4, accuracy_loss=7, per_class=10
    ... )
    >>> for task in list(stream)[:2]:
    ...     record = learner.learn(task)
    >>> learner.accuracy(stream[0].test, 0) > 0.8
    True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.learner import Learner, Report, State, TaskRecord, silent
from nispa.memory import all_answers
from nispa.methods.common import require
from nispa.methods.gaussian import discriminant, unit_activations
from nispa.methods.replay import NISPAReplay
from nispa.network import Network


class NISPAReplayPlus(Learner):
    """NISPA-Replay with a classifier made of the exemplars' stable activations.

    shrinkage  how much of the mean variance is added to the covariance's diagonal
    The others are NISPA-Replay's.
    """

    name: ClassVar[str] = "nispa-replay+"
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
        shrinkage: float = 0.03,
        seed: int = 0,
    ) -> None:
        super().__init__(network, seed)
        require(shrinkage > 0, "shrinkage", shrinkage, "a number above 0")
        self.shrinkage = shrinkage
        self.replay = NISPAReplay(
            network,
            lr=lr,
            batch_size=batch_size,
            per_class=per_class,
            replay_weight=replay_weight,
            phase_epochs=phase_epochs,
            accuracy_loss=accuracy_loss,
            tau_period=tau_period,
            tau_schedule=tau_schedule,
            growth=growth,
            selection=selection,
            min_phases=min_phases,
            optimizer=optimizer,
            momentum=momentum,
            weight_decay=weight_decay,
            seed=seed,
        )
        for option, value in self.replay.hyperparameters().items():
            setattr(self, option, value)
        self.tasks = self.replay.tasks
        self._units = self._weights = self._offsets = torch.zeros(0)

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        record = self.replay.learn(task, last=last, report=report, checkpoint=checkpoint)
        self._summarise()
        return record

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        """log p(x | c) but for a constant; minus infinity for classes never seen."""
        found = unit_activations(self.network, x)
        answers = found.new_full((len(found), self.network.classes), -torch.inf)
        answers[:, list(self.replay.memory.counts())] = found[:, self._units] @ self._weights + self._offsets
        return answers

    def _summarise(self) -> None:
        """The exemplars' means and covariance, over the units that are stable now."""
        memory, wiring = self.replay.memory, self.network.wiring
        stable = np.concatenate([wiring.stable[g] for g in wiring.hidden])
        self._units = torch.from_numpy(np.flatnonzero(stable)).to(self.network.device)
        assert memory.samples is not None
        activations = all_answers(
            lambda batch: unit_activations(self.network, batch)[:, self._units], memory.samples
        )
        labels = memory.samples.labels
        means = torch.stack([activations[labels == label].mean(0) for label in memory.counts()])
        apart = activations - means[torch.searchsorted(torch.tensor(list(memory.counts())), labels)]
        covariance = apart.T @ apart / max(len(labels) - len(means), 1)
        weights, offsets = discriminant(means, covariance, self.shrinkage)
        self._weights, self._offsets = weights.to(self.network.device), offsets.to(self.network.device)

    def state(self) -> State:
        return self.replay.state()

    def load_state(self, state: State) -> None:
        self.replay.load_state(state)
        self.network, self.tasks = self.replay.network, self.replay.tasks
        if len(self.replay.memory):
            self._summarise()
