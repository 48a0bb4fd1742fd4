"""What the methods with a replay memory share."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from nispa.memory import Memory
from nispa.network import Network


def memory_loss(network: Network, memory: Memory, size: int, rng: np.random.Generator) -> Tensor:
    """E over (x, y) ~ B of CE(y, f(x)): cross-entropy over all outputs on ``size`` random samples."""
    assert memory.samples is not None
    rows = memory.draw(size, rng)
    logits = network(memory.samples.batch(rows))
    return F.cross_entropy(logits, memory.samples.labels[rows].to(logits.device))
