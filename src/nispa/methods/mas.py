"""MAS, memory aware synapses (Aljundi et al., ECCV 2018).

A weight is important where the network's answers are sensitive to it, whatever the labels:

    Ω_i = mean over batches of |∂ m / ∂θ_i|,   m = mean of the squared logits of the task's outputs

It is added up over tasks, and later tasks pay lambda · Σ_i Ω_i (θ_i − θ*_i)², θ* being the weights after the
latest task. The batch is that of training, as in the authors' code; ``importance_batch=1`` is the paper's
equation, one gradient per sample. The logits are the network's own, before any masking.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=1)
    >>> learner = nispa.methods.method_class("mas")(net, epochs=2, strength=10)
    >>> record = learner.learn(stream[0])
    >>> bool((learner.anchor.importance[0] >= 0).all())
    True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from nispa.data.samples import Samples
from nispa.data.task import Task
from nispa.learner import Report, State, TaskRecord, silent
from nispa.methods.anchor import Anchor
from nispa.methods.common import load_plain_state, plain_state, require, train_task
from nispa.methods.sequential import Sequential
from nispa.network import Network
from nispa.training import Optimization, task_loss


class MAS(Sequential):
    """strength          lambda
    importance_batch  samples whose gradients are averaged before the absolute value; none: batch_size
    """

    name: ClassVar[str] = "mas"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        strength: float = 1.0,
        importance_batch: int | None = None,
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
        least = importance_batch is None or importance_batch >= 1
        require(least, "importance_batch", importance_batch, "1 or more, or none")
        self.strength, self.importance_batch = strength, importance_batch
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
        size = self.importance_batch or self.batch_size
        outputs = range(self.network.classes) if self.masking == "none" else task.classes
        importance = sensitivity(self.network, task.train, outputs, size)
        for new, old in zip(importance, self.anchor.importance_of(self.network), strict=True):
            new += old
        self.anchor.replace(importance, self.network)

    def state(self) -> State:
        state = plain_state(self)
        state.tensors |= self.anchor.tensors()
        return state

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
        self.anchor.load(state.tensors, self.network)


def sensitivity(network: Network, samples: Samples, outputs: Sequence[int], size: int) -> list[Tensor]:
    """|gradient| of the mean squared logits, averaged over batches; one tensor per parameter."""
    total = [torch.zeros_like(parameter) for parameter in network.parameters()]
    batches = list(samples.batches(size))
    for batch in batches:
        network.zero_grad()
        network(batch)[:, list(outputs)].square().mean().backward()  # type: ignore[no-untyped-call]
        for sums, parameter in zip(total, network.parameters(), strict=True):
            if parameter.grad is not None:
                sums.add_(parameter.grad.abs(), alpha=1 / len(batches))
    network.zero_grad()
    return total
