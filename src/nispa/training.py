"""The only epoch loop in the project, and what it needs: optimizers, task masking, accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nispa.data.samples import Batch, Samples
from nispa.data.task import Task
from nispa.engine import Optimizer
from nispa.errors import NispaError, nearest
from nispa.network import Network

MASKINGS = ("true", "zero", "none")
OPTIMIZERS = ("adam", "sgd")
EVALUATION_BATCH = 512

Loss = Callable[[Tensor, Tensor], Tensor]
"""Of the logits over all outputs and the labels."""
Beside = Callable[[int, np.random.Generator], Tensor]
"""A second term of the loss: of the number of samples in the step's batch, and the epoch's generator."""


@dataclass(frozen=True)
class Optimization:
    """Hyperparameters of one training run."""

    lr: float
    batch_size: int
    optimizer: str = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            hint = nearest(self.optimizer, OPTIMIZERS)
            raise NispaError(
                f"unknown optimizer {self.optimizer!r}{hint}; choose from {', '.join(OPTIMIZERS)}"
            )
        for name, value, ok, want in (
            ("lr", self.lr, self.lr > 0, "a number above 0, like 0.01"),
            ("batch_size", self.batch_size, self.batch_size >= 1, "1 or more"),
            ("momentum", self.momentum, 0 <= self.momentum < 1, "0 or more, and less than 1"),
            ("weight_decay", self.weight_decay, self.weight_decay >= 0, "0 or more"),
        ):
            if not ok:
                raise NispaError(f"{name} is {value}; want {want}")


def make_optimizer(network: Network, how: Optimization) -> Optimizer:
    """A fresh optimizer for the network's trainable values; frozen ones are in nobody's hands."""
    return network.engine.optimizer(
        network, how.optimizer, lr=how.lr, momentum=how.momentum, weight_decay=how.weight_decay
    )


@dataclass
class History:
    """What one call of ``fit`` did."""

    accuracies: list[float] = field(default_factory=list)
    """Validation accuracy after every epoch."""
    kept: int = -1
    """The epoch whose weights were kept."""
    samples: int = 0

    @property
    def accuracy(self) -> float:
        return self.accuracies[self.kept] if self.accuracies else 0.0


def fit(
    network: Network,
    samples: Samples,
    loss: Loss,
    how: Optimization,
    *,
    epochs: int,
    draws: Callable[[int], np.random.Generator],
    validate: Callable[[], float] | None = None,
    keep: str = "best",
    patience: int | None = None,
    beside: Beside | None = None,
    adjust: Callable[[], None] | None = None,
    after_step: Callable[[], None] | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
    augment: Callable[[int], Callable[[Batch], Batch]] | None = None,
    optimizer: Optimizer | None = None,
) -> History:
    """Train for some epochs; with ``keep="best"`` end with the weights of the best validation epoch.

    ``draws(epoch)`` gives the generator of that epoch's order. ``beside`` adds a term to every step's
    loss (a memory batch of as many samples, drawn by that generator). ``adjust`` sees the gradients between
    backward and step (A-GEM), ``after_step`` the weights after it (SI). Among equally good epochs the
    latest is kept; ``patience`` stops after so many epochs without a better one. ``augment(epoch)`` gives
    what changes that epoch's training batches (``augmentation``).
    """
    optimizer = optimizer or make_optimizer(network, how)
    history, best = History(), None
    since_better, highest = 0, -1.0
    for epoch in range(epochs):
        rng = draws(epoch)
        order = torch.from_numpy(rng.permutation(len(samples)))
        change = augment(epoch) if augment is not None else None
        for rows in torch.split(order, how.batch_size):
            batch = samples.batch(rows)
            optimizer.zero_grad()
            logits = network(batch if change is None else change(batch))
            total = loss(logits, samples.labels[rows])
            if beside is not None:
                total = total + beside(len(rows), rng)
            total.backward()  # type: ignore[no-untyped-call]
            if adjust is not None:
                adjust()
            optimizer.step()
            if after_step is not None:
                after_step()
            history.samples += len(rows)
        _check_finite(network, epoch, how)
        accuracy = validate() if validate is not None else 0.0
        history.accuracies.append(accuracy)
        if on_epoch is not None:
            on_epoch(epoch, accuracy)
        since_better = 0 if accuracy > highest else since_better + 1
        if accuracy >= highest or keep == "last":
            highest, history.kept = max(accuracy, highest), epoch
            if keep == "best" and validate is not None and epoch < epochs - 1:
                best = [(layer.store.clone(), layer.bias_store.clone()) for layer in network.sparse_layers]
        if patience is not None and since_better >= patience:
            break
    if keep == "best" and best is not None and history.kept < len(history.accuracies) - 1:
        with torch.no_grad():
            for layer, (weights, biases) in zip(network.sparse_layers, best, strict=True):
                layer.store.copy_(weights)
                layer.bias_store.copy_(biases)
    return history


def augmentation(
    task: Task, draws: Callable[[int], np.random.Generator]
) -> Callable[[int], Callable[[Batch], Batch]] | None:
    """The task's augmentation for ``fit``; ``draws(epoch)`` is the generator of that epoch's changes."""
    augment = task.augment
    if augment is None:
        return None

    def of_epoch(epoch: int) -> Callable[[Batch], Batch]:
        rng = draws(epoch)
        return lambda batch: augment(batch, rng)

    return of_epoch


def _check_finite(network: Network, epoch: int, how: Optimization) -> None:
    """A step too large ends in NaN: say so, rather than go on (and save it)."""
    for i, layer in enumerate(network.sparse_layers, 1):
        if not all(bool(torch.isfinite(p).all()) for p in (layer.values, layer.biases)):
            raise NispaError(
                f"training diverged: weights of layer {i} are NaN or infinite after epoch {epoch + 1};"
                f" take a smaller lr than {how.lr}"
            )


def task_loss(classes: Sequence[int], masking: str) -> Loss:
    """Cross-entropy over a task's outputs ("true"), with the others at zero ("zero"), or over all ("none").

    "true" is the paper's masking out of irrelevant outputs; "zero" is what the authors' code does
    (docs/fidelity.md, row 6).
    """
    ordered = sorted(classes)
    columns, first = torch.tensor(ordered), ordered[0]
    if masking == "none":
        return lambda logits, labels: F.cross_entropy(logits, labels.to(logits.device))
    if masking == "zero":
        return lambda logits, labels: F.cross_entropy(
            logits * _indicator(columns, logits), labels.to(logits.device)
        )
    if ordered == list(range(first, first + len(ordered))):  # a slice costs less than a choice of columns
        return lambda logits, labels: F.cross_entropy(
            logits[:, first : first + len(ordered)], (labels - first).to(logits.device)
        )
    return lambda logits, labels: F.cross_entropy(
        logits[:, columns.to(logits.device)], torch.searchsorted(columns, labels).to(logits.device)
    )


def mask_logits(logits: Tensor, classes: Sequence[int], masking: str) -> Tensor:
    """What a task may answer: other tasks' outputs are minus infinity (or zero, or untouched)."""
    if masking == "none":
        return logits
    keep = _indicator(torch.tensor(sorted(classes)), logits)
    return logits * keep if masking == "zero" else logits.masked_fill(keep == 0, -torch.inf)


def _indicator(columns: Tensor, logits: Tensor) -> Tensor:
    ones = torch.zeros(logits.shape[1], device=logits.device, dtype=logits.dtype)
    ones[columns.to(logits.device)] = 1
    return ones


def accuracy(answers: Callable[[Batch], Tensor], samples: Samples) -> float:
    """The share of samples whose highest answer (masked logits) is the right class."""
    right = 0
    with torch.no_grad():
        for batch in samples.batches(EVALUATION_BATCH):
            right += int((answers(batch).argmax(1).cpu() == samples.labels[batch.rows]).sum())
    return right / max(len(samples), 1)
