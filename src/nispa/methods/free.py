"""NISPA-Free: class-incremental learning with NISPA and no stored example (the paper's future work).

NISPA itself learns the tasks, each with its own outputs, and forgets nothing: within a task p(c | t, x) is
the softmax over the task's outputs. What is missing is the task, p(t | x), and that comes from statistics
of units that have stopped changing. Units that were stable (or inputs, stable by definition) when a class
was learned answer the same for ever, so the mean of their activations over the class, and their covariance
inside classes, are measured once and stay true.

A class of task t knows the units F_t that were stable at the end of t, and F_1 < F_2 < …. So tasks are told
apart one after the other, each with all units that it shares with those after it: stage k asks, on F_k,
whether x is of task k or of a later one (Gaussians with one covariance, ``gaussian.py``):

    p(t | x) = q_t · Π_{k<t} (1 - q_k),   q_k = p(task k | task k or later; activations of F_k)
    p(c | x) = p(t | x) · p(c | t, x)

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("nispa-free")(
    ...     net, phase_epochs=2, tau_period=4, accuracy_loss=7
    ... )
    >>> for task in list(stream)[:2]:
    ...     record = learner.learn(task)
    >>> learner.accuracy(stream[0].test, 0) > 0.8
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nispa.algorithm import NISPA
from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.errors import NispaError
from nispa.learner import Learner, Report, State, TaskRecord, silent
from nispa.methods.common import require
from nispa.methods.gaussian import discriminant, unit_activations
from nispa.network import Network
from nispa.state import take


class NISPAFree(Learner):
    """NISPA, and statistics of its stable units that tell the tasks apart.

    shrinkage  how much of the mean variance is added to the covariance's diagonal
    The others are NISPA's.
    """

    name: ClassVar[str] = "nispa-free"
    masking = "none"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        phase_epochs: int = 5,
        accuracy_loss: float = 0.75,
        tau_period: float = 30,
        tau_schedule: Literal["cosine", "linear"] = "cosine",
        growth: Literal["random", "novel", "transfer"] = "random",
        selection: Literal["paper", "all-units"] = "paper",
        min_phases: int = 2,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        shrinkage: float = 0.01,
        seed: int = 0,
    ) -> None:
        super().__init__(network, seed)
        require(shrinkage > 0, "shrinkage", shrinkage, "a number above 0")
        self.shrinkage = shrinkage
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
            min_phases=min_phases,
            optimizer=optimizer,
            momentum=momentum,
            weight_decay=weight_decay,
            seed=seed,
        )
        for option, value in self.nispa.hyperparameters().items():
            if option != "masking":
                setattr(self, option, value)
        self.tasks = self.nispa.tasks
        self.units = torch.zeros(0, dtype=torch.int64)
        """The units measured, by the task in which they became stable; numbered through all groups."""
        self.known: list[int] = []
        """How many of them each task has: F_t is ``units[:known[t]]``."""
        self.counts: list[int] = []
        """Training samples of each task."""
        self.means = torch.zeros(network.classes, 0)
        self.scatters: list[Tensor] = []
        """Per stage k: Σ (a - m_c)(a - m_c)ᵀ on F_k, over all samples of task k and later ones."""
        self._stages: list[tuple[Tensor, Tensor, list[int]]] = []

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        record = self.nispa.learn(task, last=last, report=report, checkpoint=checkpoint)
        self._measure(task)
        self._prepare()
        return record

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        """log p(c | x); minus infinity for classes never seen."""
        logits = self.network(x).cpu().double()
        activations = unit_activations(self.network, x, inputs=True).cpu()[:, self.units]
        answers = torch.full_like(logits, -torch.inf)
        later = logits.new_zeros(len(logits))  # log of the product of 1 - q_k
        for number, (weights, offsets, classes) in enumerate(self._stages):
            mine = self.tasks[number].classes
            scores = (activations[:, : len(weights)] @ weights + offsets).log_softmax(1)
            own = torch.tensor([c in mine for c in classes])
            this = later + scores[:, own].logsumexp(1)
            answers[:, mine] = this[:, None] + logits[:, mine].log_softmax(1)
            later = later + scores[:, ~own].logsumexp(1)
        return answers.to(self.network.device)

    def _measure(self, task: Task) -> None:
        """Means of the task's classes and their part of the covariance, over its stable units."""
        wiring, outputs = self.network.wiring, self.network.classes
        stable = np.concatenate([wiring.stable[g] for g in (0, *wiring.hidden)])
        stable[self.units.numpy()] = False
        self.units = torch.cat([self.units, torch.from_numpy(np.flatnonzero(stable))])
        grown = len(self.units) - self.means.shape[1]
        self.means = F.pad(self.means, (0, grown, 0, outputs - len(self.means)))
        self.known.append(len(self.units))
        self.counts.append(len(task.train))

        def batches() -> Iterator[tuple[Tensor, Tensor]]:
            for batch in task.train.batches(512):
                found = unit_activations(self.network, batch, inputs=True).cpu()
                yield found[:, self.units], task.train.labels[batch.rows]

        sums = torch.zeros(outputs, len(self.units)).double()
        for activations, labels in batches():
            sums.index_add_(0, labels, activations)
        for label in task.classes:
            self.means[label] = (sums[label] / (task.train.labels == label).sum()).float()
        scatter = torch.zeros(len(self.units), len(self.units)).double()
        for activations, labels in batches():
            apart = activations - self.means[labels]
            scatter += apart.T @ apart
        self.scatters.append(torch.zeros(scatter.shape))
        for earlier in self.scatters:
            earlier += scatter[: len(earlier), : len(earlier)]

    def _prepare(self) -> None:
        """The linear discriminant of every stage, from the statistics."""
        self._stages = []
        for number, known in enumerate(self.known):
            classes = [c for record in self.tasks[number:] for c in record.classes]
            self._stages.append(
                (
                    *discriminant(
                        self.means[classes, :known].double(),
                        self.scatters[number].double() / sum(self.counts[number:]),
                        self.shrinkage,
                    ),
                    classes,
                )
            )

    def state(self) -> State:
        state = self.nispa.state()
        state.data |= {"known": self.known, "counts": self.counts}
        state.tensors |= {"units": self.units, "means": self.means}
        state.tensors |= {f"scatter.{k}": matrix.clone() for k, matrix in enumerate(self.scatters)}
        return state

    def load_state(self, state: State) -> None:
        self.nispa.load_state(state)
        self.network, self.tasks = self.nispa.network, self.nispa.tasks
        self.known, self.counts = list(state.data["known"]), list(state.data["counts"])
        self.units = state.tensors["units"]
        size = len(self.units)
        self.means = take(state.tensors, "means", (len(state.tensors["means"]), size))
        self.scatters = [
            take(state.tensors, f"scatter.{k}", (n, n)).clone() for k, n in enumerate(self.known)
        ]
        units = sum(self.network.wiring.groups[:-1])
        fits = (
            self.known == sorted(self.known)
            and (self.known or [0])[-1] == size
            and len(self.known) == len(self.counts) == len(self.tasks)
            and self.units.dtype == torch.int64
            and bool(((self.units >= 0) & (self.units < units)).all())
        )
        if not fits:
            raise NispaError("the statistics do not fit the network; the file is damaged")
        self._prepare()
