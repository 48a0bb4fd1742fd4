"""How tau falls from phase to phase (paper, section "Calculating tau"; ablation in its appendix)."""

from __future__ import annotations

import math
from collections.abc import Callable

from nispa.errors import NispaError, nearest

Schedule = Callable[[int], float]

SCHEDULES = ("cosine", "linear")
FLOOR = 0.05
"""No phase goes below this share of the activation (docs/fidelity.md, row 4)."""


def cosine(period: float) -> Schedule:
    """tau_p = (1 + cos(p·pi/k)) / 2, with ``period`` k (typically 30 or 40); 0 from p = k on.

    >>> tau = cosine(30)
    >>> round(tau(1), 4), round(tau(15), 4)
    (0.9973, 0.5)
    """
    return lambda phase: 0.5 * (1 + math.cos(min(phase, period) * math.pi / period))


def linear(step: float = 0.05) -> Schedule:
    """tau_p = 1 - p·step."""
    return lambda phase: 1 - phase * step


def schedule(name: str, period: float) -> Schedule:
    """A schedule by name; one that starts at or below the floor is refused."""
    if name not in SCHEDULES:
        raise NispaError(
            f"unknown schedule {name!r}{nearest(name, SCHEDULES)}; choose from {', '.join(SCHEDULES)}"
        )
    if not period > 0:
        raise NispaError(f"tau_period is {period}; want a number above 0")
    chosen = cosine(period) if name == "cosine" else linear()
    if chosen(1) <= FLOOR:
        raise NispaError(
            f"tau_period is {period}: tau is {chosen(1):.3f} in the first phase, not above the floor"
            f" {FLOOR}; take a longer period (the paper's are 30 and 40)"
        )
    return chosen
