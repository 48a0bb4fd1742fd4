"""EWC, elastic weight consolidation (Kirkpatrick et al., PNAS 2017).

A weight is important where the Fisher information of a task is large. Its diagonal is measured after every
task, over n random training samples, at the label that the network itself thinks most likely:

    F_i = 1/n Σ_x (∂ log p(ŷ(x) | x) / ∂θ_i)²,   ŷ(x) = argmax_y p(y | x)

Later tasks then pay lambda · Σ_tasks Σ_i F_i (θ_i − θ*_i)² for moving: one term per task, kept as two
running sums (anchor.py), so that no task makes the next one slower. ``online=True`` keeps one term instead,
anchored at the latest weights, with F ← decay · F + F_task (Schwarz et al., ICML 2018).

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=1)
    >>> learner = nispa.methods.method_class("ewc")(net, epochs=2, strength=1000, samples=50)
    >>> record = learner.learn(stream[0])
    >>> [tuple(F.shape) for F in learner.anchor.importance[:2]]      # weights and biases of layer 1
    [(2560,), (40,)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from nispa.data.samples import Samples
from nispa.data.task import Task
from nispa.draws import IMPORTANCE, generator
from nispa.learner import Report, State, TaskRecord, silent
from nispa.methods.anchor import Anchor
from nispa.methods.common import load_plain_state, plain_state, require, train_task
from nispa.methods.sequential import Sequential
from nispa.network import Network
from nispa.training import Optimization, mask_logits, task_loss


class EWC(Sequential):
    """strength  lambda (half of Kirkpatrick's: we do not divide the penalty by two)
    samples   n, over how many training samples of a task the Fisher information is measured
    online    one term instead of one per task; decay is then how much of the old one is kept
    """

    name: ClassVar[str] = "ewc"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        strength: float = 5000,
        samples: int = 1000,
        online: bool = False,
        decay: float = 1.0,
        patience: int | None = 3,
        masking: Literal["true", "zero", "none"] = "true",
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, how, epochs=epochs, patience=patience, masking=masking, seed=seed)
        require(strength >= 0, "strength", strength, "0 or more")
        require(samples >= 1, "samples", samples, "1 or more")
        require(0 <= decay <= 1, "decay", decay, "a number from 0 to 1")
        self.strength, self.samples, self.online, self.decay = strength, samples, online, decay
        self.anchor = Anchor()

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
            adjust=lambda: self.anchor.add_gradient(self.network, self.strength),
            after=lambda record, history: self._remember(task),
        )

    def _remember(self, task: Task) -> None:
        rng = generator(self.seed, IMPORTANCE, len(self.tasks))
        rows = torch.from_numpy(rng.permutation(len(task.train))[: self.samples])
        information = fisher(self.network, task.train, rows, task.classes, self.masking)
        if not self.online:
            self.anchor.add(information, self.network)
            return
        before = self.anchor.importance_of(self.network)
        for new, old in zip(information, before, strict=True):
            new.add_(old, alpha=self.decay)
        self.anchor.replace(information, self.network)

    def state(self) -> State:
        state = plain_state(self)
        state.tensors |= self.anchor.tensors()
        return state

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
        self.anchor.load(state.tensors, self.network)


def fisher(
    network: Network, samples: Samples, rows: Tensor, classes: Sequence[int], masking: str
) -> list[Tensor]:
    """The diagonal of the Fisher information, one tensor per parameter of the network.

    Squares of single samples' gradients, so the samples go through one by one: that is right for every
    layer and every engine, and small beside the training of the task (docs/methods.md has the times).
    """
    loss, total = task_loss(classes, masking), [torch.zeros_like(p) for p in network.parameters()]
    for row in torch.split(rows, 1):
        network.zero_grad()
        logits = network(samples.batch(row))
        likeliest = mask_logits(logits.detach(), classes, masking).argmax(1).cpu()
        loss(logits, likeliest).backward()  # type: ignore[no-untyped-call]
        for sums, parameter in zip(total, network.parameters(), strict=True):
            if parameter.grad is not None:
                sums.addcmul_(parameter.grad, parameter.grad, value=1 / len(rows))
    network.zero_grad()
    return total
