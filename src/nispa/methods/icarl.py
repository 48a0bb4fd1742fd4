"""iCaRL (Rebuffi et al., CVPR 2017): nearest mean of exemplars, herding, distillation.

- Features phi(x): the last hidden layer's activations, scaled to length 1.
- Classifier (algorithm 1): the class whose exemplars' mean feature is nearest.
- Loss (algorithm 3): binary cross-entropy of every seen output's sigmoid, on the task's samples and the
  exemplars together; new outputs learn the labels, old ones what the network answered before the task
  (distillation). Summed over outputs, averaged over samples.
- Exemplars (algorithm 4, "herding"): one by one the sample that brings the exemplars' mean nearest to
  the class's mean. Room for new classes is made by cutting these lists at the end (algorithm 5).

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("icarl")(net, epochs=2, per_class=10)
    >>> record = learner.learn(stream[0])
    >>> learner.means.any(1).tolist()[:4]        # a mean for classes 0 and 1, none yet for the others
    [True, True, False, False]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nispa.data.samples import Batch, Samples
from nispa.data.task import Task
from nispa.errors import NispaError
from nispa.learner import Learner, Report, State, TaskRecord, silent
from nispa.memory import Memory, all_answers
from nispa.methods.common import load_plain_state, plain_state, train_task
from nispa.network import Network
from nispa.training import Loss, Optimization


class ICaRL(Learner):
    """Classifies by the nearest mean of stored exemplars, and learns features for it."""

    name: ClassVar[str] = "icarl"
    masking = "none"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.1,
        batch_size: int = 32,
        epochs: int = 10,
        per_class: int = 100,
        optimizer: Literal["adam", "sgd"] = "sgd",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(network, seed)
        if epochs < 1:
            raise NispaError(f"epochs is {epochs}; want 1 or more")
        self.lr, self.batch_size, self.epochs, self.per_class = lr, batch_size, epochs, per_class
        self.optimizer, self.momentum, self.weight_decay = optimizer, momentum, weight_decay
        self.how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        self.memory = Memory(per_class)
        self.means = self._means()
        """``[outputs, features]``: the exemplars' mean of every class, zero where none is stored."""

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
        samples, targets = self._lesson(task)
        rows = Samples(samples.inputs, torch.arange(len(samples)), samples.scale, samples.shift)
        record = train_task(
            self,
            self.network,
            replace(task, train=rows),
            distillation([*self.memory.counts(), *task.classes], targets),
            self.how,
            epochs=self.epochs,
            report=report,
            keep="last",
        )
        self.memory.add(task, outputs=self.network.classes, seed=self.seed, number=number, order=self._herd)
        self.means = self._means()
        return record

    def features(self, x: Tensor | Batch) -> Tensor:
        """phi(x): the last hidden layer's activations, of length 1."""
        return F.normalize(self.network.activations(x)[-1].flatten(1))

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        """Minus the distance to each class's mean; minus infinity for classes never seen."""
        answers = -torch.cdist(self.features(x), self.means.to(self.network.device))
        unseen = sorted(set(range(len(self.means))) - set(self.memory.counts()))
        answers[:, unseen] = -torch.inf
        return answers

    def _lesson(self, task: Task) -> tuple[Samples, Tensor]:
        """The task's samples and the exemplars, with a target for every output (algorithm 3)."""
        samples, old = task.train, self.memory.samples
        if old is not None:
            samples = Samples(
                torch.cat([samples.inputs, old.inputs]),
                torch.cat([samples.labels, old.labels]),
                samples.scale,
                samples.shift,
            )
        targets = F.one_hot(samples.labels, self.network.classes).float()
        if old is not None:
            known = list(self.memory.counts())
            targets[:, known] = all_answers(self.network, samples)[:, known].sigmoid()
        return samples, targets

    def _herd(self, samples: Samples, count: int) -> Tensor:
        return herding(all_answers(self.features, samples), count)

    def _means(self) -> Tensor:
        """Algorithm 1: per class the mean of its exemplars' features, scaled to length 1."""
        means = torch.zeros(self.network.classes, self.network.sparse_layers[-1].columns)
        if (samples := self.memory.samples) is not None:
            features = all_answers(self.features, samples)
            for label in self.memory.counts():
                means[label] = F.normalize(features[samples.labels == label].mean(0), dim=0)
        return means

    def state(self) -> State:
        state = plain_state(self)
        state.tensors |= self.memory.tensors()
        return state

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
        self.memory.load(state.tensors, self.network)
        self.means = self._means()


def distillation(seen: list[int], targets: Tensor) -> Loss:
    """Binary cross-entropy of the seen outputs with their targets; the labels are rows of ``targets``."""
    columns = torch.tensor(sorted(seen))

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        wanted = targets[rows][:, columns].to(logits.device)
        entropy = F.binary_cross_entropy_with_logits(
            logits[:, columns.to(logits.device)], wanted, reduction="sum"
        )
        return entropy / len(rows)

    return loss


def herding(features: Tensor, count: int) -> Tensor:
    """Algorithm 4: rows in the order in which they bring the chosen ones' mean nearest to that of all.

    In step k the row x with the least |mean - (chosen + x)/k|², that is with the least
    |x|² - 2 x·(k mean - chosen); ties go to the first.
    """
    features = features.double()
    mean, squares = features.mean(0), features.square().sum(1)
    chosen = torch.zeros_like(mean)
    rows: list[int] = []
    for k in range(1, count + 1):
        cost = squares - 2 * (features @ (k * mean - chosen))
        cost[rows] = torch.inf
        rows.append(int(cost.argmin()))
        chosen += features[rows[-1]]
    return torch.tensor(rows)
