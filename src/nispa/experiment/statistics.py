"""Mean, standard deviation and Student's t interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    """A sample of runs in three numbers; the last two need two runs."""

    mean: float
    std: float | None
    """Sample standard deviation (n - 1)."""
    half: float | None
    """Half the width of the 95 % t interval of the mean."""

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.half is None else (self.mean - self.half, self.mean + self.half)


def spread(values: Sequence[float]) -> Spread:
    """
    >>> spread([91.0, 92.0, 93.0])
    Spread(mean=92.0, std=1.0, half=2.484...)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Spread(mean, None, None)
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1))
    return Spread(mean, std, t_quantile(count - 1) * std / math.sqrt(count))


@cache
def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """The t beyond which Student's distribution leaves (1 - level) in both tails together."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < level:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def t_within(t: float, freedom: int) -> float:
    """P(|T| < t) for a whole number of degrees of freedom: the finite sums 26.7.3 and 26.7.4 of
    Abramowitz and Stegun, *Handbook of Mathematical Functions*."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    for k in range(2 if odd else 1, freedom - 1, 2):
        term *= k / (k + 1) * cosine**2
        total += term
    if not odd:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))
