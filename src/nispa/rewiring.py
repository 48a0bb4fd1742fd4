"""The verbs of the paper on a wiring: select, degrade, drop, repair, grow. Pure NumPy, no weights.

``protected`` has one bit per unit and group, as ``Wiring.stable`` has; what is not protected is plastic.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nispa.wiring import Bits, Connections, Wiring

GROWTHS = ("random", "novel", "transfer")
SELECTIONS = ("paper", "all-units")


def select_candidates(
    activation: NDArray[np.float64], stable: Bits, tau: float, selection: str = "paper"
) -> Bits:
    """The fewest plastic units that, with the stable ones, hold a fraction tau of a layer's activation.

    Section "Selecting Candidate Stable Units", eq. 2: S is credited first, then the most active plastic
    units one by one (ties by index), until the criterion holds. S alone may fulfil it: no candidates.
    ``selection="all-units"`` ranks stable units with the others, as the authors' code does.
    """
    ranked = np.flatnonzero(~stable) if selection == "paper" else np.arange(len(stable))
    ranked = ranked[np.argsort(-activation[ranked], kind="stable")]
    credited = activation[stable] if selection == "paper" else activation[:0]
    # Sums of 0, 1, 2, … ranked units beside S. The last is the layer's total, added in this very order,
    # so that tau = 1 can always be reached.
    running = np.cumsum(np.concatenate([[0.0], credited, activation[ranked]]))[len(credited) :]
    enough = running >= tau * running[-1]
    chosen = np.zeros(len(stable), dtype=bool)
    chosen[ranked[: int(np.argmax(enough))]] = True
    return chosen & ~stable


def degrade(wiring: Wiring, protected: list[Bits]) -> list[Bits]:
    """Candidates without any input from protected units become plastic (appendix, "Dead Units").

    Layer by layer from the input, so that one degraded unit can take the next layer's with it. Stable
    units have kept their inputs and are never degraded; neither are outputs.
    """
    result = [bits.copy() for bits in protected]
    for g in wiring.hidden:
        fed = inputs_from(wiring.connections[g - 1], result[g - 1])
        result[g][~(fed | wiring.stable[g])] = False
    return result


def inputs_from(connections: Connections, sources: Bits) -> Bits:
    """``[targets]``: has the unit a live input from one of these sources?"""
    fed: Bits = np.asarray(connections.mask[:, sources[connections.source_of]].any(axis=1))
    return fed


def drop(wiring: Wiring, protected: Sequence[Bits]) -> int:
    """Remove connections from plastic into protected units (section "Connection Rewiring", 1)."""
    dropped = 0
    for g, connections in enumerate(wiring.connections, 1):
        rows = np.flatnonzero(protected[g])
        columns = np.flatnonzero(~protected[g - 1][connections.source_of])
        hit = np.ix_(rows, columns)
        dropped += int(np.count_nonzero(connections.mask[hit]))
        connections.mask[hit] = False
    return dropped


def repair(wiring: Wiring, g: int, protected: Sequence[Bits], rng: np.random.Generator) -> int:
    """Give plastic units of group g-1 that lost all outputs one to a random plastic unit of group g.

    Appendix, "Dead Units". In random order, while the layer's growth budget lasts; a unit that owns
    several columns gets one of them. Returns the number of connections made.
    """
    connections = wiring.connections[g - 1]
    targets = np.flatnonzero(~protected[g])
    if g - 1 not in wiring.hidden or not len(targets):
        return 0
    dead = np.flatnonzero(~connections.has_output(len(protected[g - 1])) & ~protected[g - 1])
    dead = rng.permutation(dead)[: max(connections.target_count - connections.live, 0)]
    area = len(connections.source_of) // len(protected[g - 1])
    into = targets[rng.integers(len(targets), size=len(dead))]
    connections.mask[into, dead * area + rng.integers(area, size=len(dead))] = True
    return len(dead)


def grow(
    wiring: Wiring, g: int, protected: Sequence[Bits], rng: np.random.Generator, growth: str = "random"
) -> int:
    """New connections into plastic units of group g, up to the layer's target (section "Rewiring", 2).

    ``novel`` takes plastic sources (type 1), ``transfer`` protected ones (type 2), while they last;
    ``random`` does not look. Returns how many connections found no free slot.
    """
    connections = wiring.connections[g - 1]
    wanted = connections.target_count - connections.live
    plastic_rows = np.flatnonzero(~protected[g])
    if wanted <= 0 or not len(plastic_rows):
        return max(wanted, 0)
    # Slots count row by row through the plastic rows; only the picked ones need their row.
    free = np.flatnonzero(~connections.mask[plastic_rows])
    if growth == "random":
        pools = [free]
    else:
        type_1 = ~protected[g - 1][connections.source_of[free % len(connections.source_of)]]
        pools = [free[type_1], free[~type_1]] if growth == "novel" else [free[~type_1], free[type_1]]
    for slots in pools:
        count = min(wanted, len(slots))
        picked = slots[rng.choice(len(slots), count, replace=False, shuffle=False)] if count else slots[:0]
        row, column = np.divmod(picked, len(connections.source_of))
        connections.mask[plastic_rows[row], column] = True
        wanted -= count
    return wanted
