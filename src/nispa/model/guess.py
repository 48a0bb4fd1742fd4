"""Which task does an input belong to? A streaming ridge regression, computed without old data.

Every input has the same fixed random features h: for pictures 128 random 6x6 filters with stride 2, ReLU,
averaged over the four quarters; for feature vectors 512 random projections and ReLU. The file keeps the
sum G of h h' over all training samples so far and, for every class, the sum s of its h (samples weighted so
that each class counts once). From these the least-squares answer

    W = (G + lambda mean(diag G) I)^-1 S

is the very one that all tasks' data together would give, though no old sample is kept. The likeliest task
is the one of the class with the highest h'W. docs/limits.md shows how often it is right; the file
keeps how often it was for the validation samples of a new task, and `nispa evaluate` measures it anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nispa.data.samples import Samples
from nispa.draws import ROOM, generator

FILTERS, SIDE, STRIDE = 128, 6, 2
FEATURES = 4 * FILTERS
WIDTH = FEATURES + 1
"""One is always 1."""
RIDGE = 1e-3
FIRING = 0.2
"""A filter's answer below this (in deviations of the picture) counts as none."""


class RandomFeatures:
    """The fixed features of a model: a function of its seed and its inputs' shape."""

    def __init__(self, shape: Sequence[int], seed: int) -> None:
        rng = generator(seed, ROOM, 0, 2)
        self.picture = len(shape) == 3
        if self.picture:
            side = min(SIDE, *shape[1:])
            drawn = torch.from_numpy(rng.standard_normal((FILTERS, shape[0], side, side))).float()
            drawn -= drawn.mean((1, 2, 3), keepdim=True)
            norms = drawn.flatten(1).norm(dim=1).clamp_min(1e-6)
            self.weights = drawn / norms[:, None, None, None]
        else:
            drawn = torch.from_numpy(rng.standard_normal((FEATURES, shape[0]))).float()
            self.weights = drawn / shape[0] ** 0.5

    def __call__(self, x: Tensor) -> Tensor:
        """``[N, WIDTH]``, float64."""
        with torch.no_grad():
            if self.picture:
                mean, deviation = x.mean((1, 2, 3), keepdim=True), x.std((1, 2, 3), keepdim=True)
                maps = F.conv2d((x - mean) / (deviation + 0.1), self.weights, stride=STRIDE)
                h = F.adaptive_avg_pool2d(F.relu(maps - FIRING), 2).flatten(1)
            else:
                h = F.relu(F.linear(x.flatten(1), self.weights))
        return torch.cat([h, torch.ones(len(h), 1)], 1).double()


def sums(features: RandomFeatures, samples: Samples, classes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What the samples of a task add to G, and its S, ``[WIDTH, classes]``; each class has weight 1."""
    gram, own = torch.zeros(WIDTH, WIDTH, dtype=torch.float64), []
    for c in sorted(classes):
        rows = (samples.labels == c).nonzero()[:, 0]
        total = torch.zeros(WIDTH, dtype=torch.float64)
        for part in torch.split(rows, 512):
            h = features(samples.batch(part).tensor())
            gram += h.T @ h / len(rows)
            total += h.sum(0) / len(rows)
        own.append(total)
    return gram.float(), torch.stack(own, 1).float()


class Guess:
    """The rule for the tasks of a model."""

    def __init__(self, features: RandomFeatures, gram: Tensor, own: dict[int, Tensor]) -> None:
        self.features = features
        self.tasks = torch.tensor([n for n, s in own.items() for _ in range(s.shape[1])])
        g = gram.double()
        g = g + (RIDGE * g.diagonal().mean() + 1e-12) * torch.eye(len(g), dtype=torch.float64)
        self.weights = torch.linalg.lstsq(g, torch.cat(list(own.values()), 1).double()).solution

    def __call__(self, x: Tensor) -> list[int]:
        """The number of the likeliest task of every scaled input."""
        scores = self.features(x) @ self.weights
        return [int(n) for n in self.tasks[scores.argmax(1)]]
