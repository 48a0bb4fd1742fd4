"""A replay memory: a fixed number of samples, shared equally by the classes seen so far.

Appendix "NISPA-Replay and Class Incremental Learning": "We initialize a fixed-sized buffer with random
samples. We ensure that each class seen so far has the same number of samples stored." The samples of a
class lie in an order of importance (random, or a method's own), so that making room for a new class
means cutting every other class's list shorter. What is stored stays as it came (uint8 pixels).

    >>> from nispa.data import streams
    >>> stream, memory = streams.digits(), Memory(per_class=10)
    >>> memory.add(stream[0], outputs=10, seed=0, number=0)
    >>> len(memory), memory.counts()
    (100, {0: 50, 1: 50})
    >>> memory.add(stream[1], outputs=10, seed=0, number=1)
    >>> memory.counts()
    {0: 25, 1: 25, 2: 25, 3: 25}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nispa.data.samples import Batch, Samples
from nispa.data.task import Task
from nispa.draws import MEMORY, generator
from nispa.errors import NispaError

if TYPE_CHECKING:
    from nispa.network import Network

Order = Callable[[Samples, int], Tensor]
"""The ``n`` samples of one class to keep, best first: their rows in the samples given."""


class Memory:
    """Samples of earlier tasks, ``per_class`` times the network's outputs in all, with logits beside them
    if a method gives any.
    """

    def __init__(self, per_class: int) -> None:
        if per_class < 1:
            raise NispaError(f"per_class is {per_class}, the samples in memory per class; want 1 or more")
        self.per_class = per_class
        self.samples: Samples | None = None
        self.logits: Tensor | None = None
        """``[N, outputs]``, what the network answered when a sample was stored (DER)."""

    def __len__(self) -> int:
        return 0 if self.samples is None else len(self.samples)

    def counts(self) -> dict[int, int]:
        """How many samples each class has."""
        if self.samples is None:
            return {}
        classes, counts = torch.unique(self.samples.labels, return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))

    def add(
        self,
        task: Task,
        *,
        outputs: int,
        seed: int,
        number: int,
        order: Order | None = None,
        answers: Callable[[Batch], Tensor] | None = None,
    ) -> None:
        """Store samples of a task's training set and cut the other classes to the new, equal share.

        Without an ``order`` they are a random choice, drawn class by class. ``answers`` are logits to be
        stored with the new samples.
        """
        seen = [*self.counts(), *task.classes]
        share = self.per_class * outputs // len(seen)
        rng = generator(seed, MEMORY, number)
        kept, logits = [], []
        for label in self.counts():
            assert self.samples is not None
            rows = (self.samples.labels == label).nonzero()[:share, 0]
            kept.append(self.samples.take(rows))
            if self.logits is not None:  # outputs that were added since count as 0
                logits.append(F.pad(self.logits[rows], (0, outputs - self.logits.shape[1])))
        for label in task.classes:
            members = (task.train.labels == label).nonzero()[:, 0]
            if order is None:
                rows = torch.from_numpy(rng.permutation(members.numpy())[:share])
            else:
                rows = members[order(task.train.take(members), min(share, len(members)))]
            kept.append(task.train.take(rows))
            if answers is not None:
                logits.append(all_answers(answers, kept[-1]))
        self.samples = Samples(
            torch.cat([part.inputs for part in kept]),
            torch.cat([part.labels for part in kept]),
            kept[-1].scale,
            kept[-1].shift,
        )
        self.logits = torch.cat(logits) if answers is not None else None

    def draw(self, size: int, rng: np.random.Generator) -> Tensor:
        """Random rows, none twice: ``size`` of them, or all when there are fewer."""
        return torch.from_numpy(rng.choice(len(self), min(size, len(self)), replace=False))

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        if self.samples is None:
            return {}
        parts = {
            "inputs": self.samples.inputs,
            "labels": self.samples.labels,
            "scale": self.samples.scale,
            "shift": self.samples.shift,
            "logits": self.logits,
        }
        return {f"memory.{name}": tensor for name, tensor in parts.items() if tensor is not None}

    def load(self, tensors: Mapping[str, Tensor], network: Network) -> None:
        """Take up ``tensors()`` of a file; what does not fit together, or the network, is refused."""
        inputs, labels = tensors.get("memory.inputs"), tensors.get("memory.labels")
        self.samples, self.logits = None, tensors.get("memory.logits")
        if inputs is None or labels is None:
            return
        fits = (
            inputs.dtype in (torch.uint8, torch.float32)
            and labels.dtype == torch.int64
            and labels.shape == inputs.shape[:1]
            and inputs[:1].numel() == math.prod(network.shape.input)
            and bool(((labels >= 0) & (labels < network.classes)).all())
            and bool(torch.isfinite(inputs).all())
            and (self.logits is None or self.logits.shape[:1] == labels.shape)
        )
        if not fits:
            raise NispaError("the memory's samples do not fit together; the file is damaged")
        self.samples = Samples(inputs, labels, tensors.get("memory.scale"), tensors.get("memory.shift"))


def all_answers(answers: Callable[[Batch], Tensor], samples: Samples, size: int = 512) -> Tensor:
    """A function's answers for all samples, on the CPU, without gradients."""
    with torch.no_grad():
        return torch.cat([answers(batch).cpu() for batch in samples.batches(size)])
