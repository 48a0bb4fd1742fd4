"""SI, synaptic intelligence (Zenke, Poole and Ganguli, ICML 2017).

A weight is important as far as its own motion lowered the loss. Along a task's training, step by step,

    ω_i = −Σ_steps g_i · Δθ_i                 g: gradient of the task's loss alone, without the penalty

and at the task's end, Δ_i being how far the weight has come since the task began,

    Ω_i ← max(0, Ω_i + ω_i / (Δ_i² + ξ))      ξ: damping

Later tasks pay lambda · Σ_i Ω_i (θ_i − θ*_i)², θ* being the weights after the latest task. Ω is kept at 0 or
above, since a negative one would drive weights away from θ*. Early stopping goes back to the best epoch,
and so does ω: it belongs to the path that led to the weights that are kept.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=1)
    >>> learner = nispa.methods.method_class("si")(net, epochs=2, strength=100)
    >>> record = learner.learn(stream[0])
    >>> float(learner.anchor.importance[0].max()) > 0
    True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor

from nispa.data.task import Task
from nispa.learner import Report, State, TaskRecord, silent
from nispa.methods.anchor import Anchor
from nispa.methods.common import load_plain_state, plain_state, require, train_task
from nispa.methods.sequential import Sequential
from nispa.network import Network
from nispa.training import Optimization, task_loss


class SI(Sequential):
    """strength  lambda
    damping   ξ
    """

    name: ClassVar[str] = "si"

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        strength: float = 100.0,
        damping: float = 0.1,
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
        require(damping > 0, "damping", damping, "a number above 0")
        self.strength, self.damping = strength, damping
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
        path = Path(self.network)

        def adjust() -> None:
            path.see_gradient()
            self.anchor.add_gradient(self.network, self.strength)

        return train_task(
            self,
            self.network,
            task,
            task_loss(task.classes, self.masking),
            self.how,
            epochs=self.epochs,
            patience=self.patience,
            report=report,
            adjust=adjust,
            after_step=path.see_step,
            on_epoch=path.see_epoch,
            after=lambda record, history: self._remember(path),
        )

    def _remember(self, path: Path) -> None:
        importance = []
        before = self.anchor.importance_of(self.network)
        for i, (parameter, old) in enumerate(zip(self.network.parameters(), before, strict=True)):
            moved = parameter.detach() - path.start[i]
            importance.append((old + path.kept[i] / (moved.square() + self.damping)).clamp_(min=0))
        self.anchor.replace(importance, self.network)

    def state(self) -> State:
        state = plain_state(self)
        state.tensors |= self.anchor.tensors()
        return state

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
        self.anchor.load(state.tensors, self.network)


class Path:
    """The path integral ω of one task's training."""

    def __init__(self, network: Network) -> None:
        self.parameters = list(network.parameters())
        self.start = [parameter.detach().clone() for parameter in self.parameters]
        self.before = [tensor.clone() for tensor in self.start]
        self.gradients = [torch.zeros_like(tensor) for tensor in self.start]
        self.omega = [torch.zeros_like(tensor) for tensor in self.start]
        self.best, self.kept = -1.0, self.omega

    def see_gradient(self) -> None:
        """Between backward and the penalty: the gradient of the task's loss."""
        for kept, parameter in zip(self.gradients, self.parameters, strict=True):
            kept.copy_(parameter.grad) if parameter.grad is not None else kept.zero_()

    def see_step(self) -> None:
        """After the optimizer's step: ω −= g · (θ − θ before)."""
        for i, parameter in enumerate(self.parameters):
            now: Tensor = parameter.detach()
            self.omega[i].addcmul_(self.gradients[i], now - self.before[i], value=-1)
            self.before[i].copy_(now)

    def see_epoch(self, epoch: int, accuracy: float) -> None:
        """``fit`` keeps the latest of the best epochs; so is ω."""
        if accuracy >= self.best:
            self.best, self.kept = accuracy, [tensor.clone() for tensor in self.omega]
