"""Small streams and networks for the tests: noisy blobs, one per class."""

from __future__ import annotations

from typing import Any

import numpy as np

from nispa.data.task import Stream, Task
from nispa.engine import choose
from nispa.errors import NispaError
from nispa.network import Network, cnn, mlp


def _built(engine: str) -> bool:
    try:
        return choose(engine).name == engine
    except NispaError:
        return False


ENGINES = [engine for engine in ("reference", "native") if _built(engine)]
"""The engines that run here."""
FEATURES, IMAGE = (9,), (2, 6, 5)
"""The inputs of the small MLP and of the small CNN (odd sizes: pooling leaves a rest)."""


def stream(
    seed: int = 0,
    *,
    tasks: int = 3,
    classes: int = 2,
    samples: int = 24,
    shape: tuple[int, ...] = FEATURES,
    noise: float = 0.6,
) -> Stream:
    """Every class is a random point with noise around it."""
    rng = np.random.default_rng([seed, 77])

    def part(points: np.ndarray, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(count) % classes
        inputs = points[labels] + noise * rng.standard_normal((count, *shape))
        return inputs.astype(np.float32), labels + first

    made = []
    for t in range(tasks):
        points = rng.standard_normal((classes, *shape))
        parts = [part(points, t * classes, n) for n in (samples, samples // 2, samples // 2)]
        made.append(Task.from_arrays(parts[0], parts[1], parts[2], name=f"blobs {t}"))
    return Stream("blobs", tuple(made))


def network(kind: str, classes: int, density: float = 0.4, **options: Any) -> Network:
    """A small MLP or a small CNN with pooling, two convolutions and one hidden layer."""
    if kind == "mlp":
        sizes = options.pop("hidden", (12, 10))
        return mlp(FEATURES, sizes, classes=classes, density=density, **options)
    filters, hidden = options.pop("filters", (5, 6)), options.pop("hidden", (9,))
    return cnn(IMAGE, filters, hidden, classes=classes, density=density, pool_after=(2,), **options)


def shape_of(kind: str) -> tuple[int, ...]:
    return FEATURES if kind == "mlp" else IMAGE
