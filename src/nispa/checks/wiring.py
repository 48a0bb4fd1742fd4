"""Invariants of one moment: of a wiring, a selection, a growth, a network before and after training.

The numbers are those of docs/fidelity.md, "What is exactly true".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nispa.errors import NispaError
from nispa.network import Part
from nispa.wiring import Bits, Wiring


def check_wiring(wiring: Wiring, protected: Sequence[Bits] | None = None, *, grown: bool = True) -> None:
    """Sizes fit; every layer has its count of connections (1); no plastic unit feeds a protected one (2).

    ``protected`` is by default the stable units. With ``grown=False`` a layer may have fewer connections
    than its target although there is room: so it is between a drop and the growth, or after outputs were
    added to a layer that was short of slots.
    """
    protected = wiring.stable if protected is None else protected
    _check_sizes(wiring, protected)
    for g, connections in enumerate(wiring.connections, 1):
        if connections.live > connections.target_count:
            raise NispaError(
                f"layer {g} has {connections.live} connections, more than its {connections.target_count}"
            )
        if grown and connections.live < connections.target_count:
            plastic = ~protected[g]
            room = int(np.count_nonzero(~connections.mask[plastic]))
            if room:
                raise NispaError(
                    f"layer {g} has {connections.live} connections of {connections.target_count},"
                    f" although {room} slots into plastic units are free"
                )
        plastic_columns = ~protected[g - 1][connections.source_of]
        wrong = connections.mask & protected[g][:, None] & plastic_columns[None]
        if wrong.any():
            unit, column = np.argwhere(wrong)[0]
            raise NispaError(
                f"layer {g}: plastic unit {connections.source_of[column]} feeds protected unit {unit}"
            )


def _check_sizes(wiring: Wiring, protected: Sequence[Bits]) -> None:
    groups = wiring.groups
    if len(groups) != len(wiring.connections) + 1 or [len(bits) for bits in protected] != groups:
        raise NispaError(f"{len(wiring.connections)} layers do not fit groups of {groups} units")
    if not wiring.stable[0].all():
        raise NispaError("an input is not stable; inputs are stable by definition")
    for g, connections in enumerate(wiring.connections, 1):
        targets, columns = connections.mask.shape
        owners = np.arange(columns) * groups[g - 1] // max(columns, 1)
        if targets != groups[g] or not np.array_equal(connections.source_of, owners):
            raise NispaError(f"layer {g}: a {targets}x{columns} matrix does not fit {groups[g]} units")
    for g, (stable, now, log) in enumerate(zip(wiring.stable, protected, wiring.became, strict=True)):
        if (stable & ~now).any():
            raise NispaError(f"group {g}: stable unit {np.flatnonzero(stable & ~now)[0]} is not protected")
        if g and not np.array_equal(log >= 0, stable):
            raise NispaError(f"group {g}: the log of when units became stable does not fit the stable bits")


def check_selection(activation: NDArray[np.float64], stable: Bits, chosen: Bits, tau: float) -> None:
    """Candidates reach tau together with the stable units, and one fewer does not (5).

    Sums are taken as the selection takes them: stable units by index, then candidates by rank.
    """
    if (chosen & stable).any():
        raise NispaError(f"stable unit {np.flatnonzero(chosen & stable)[0]} was chosen as a candidate")
    plastic = np.flatnonzero(~stable)
    ranked = plastic[np.argsort(-activation[plastic], kind="stable")]
    count = int(chosen.sum())
    if not np.array_equal(np.sort(ranked[:count]), np.flatnonzero(chosen)):
        raise NispaError(f"the {count} candidates are not the {count} most active plastic units")
    running = [0.0]
    for unit in [*np.flatnonzero(stable), *ranked]:
        running.append(running[-1] + float(activation[unit]))
    held = running[int(stable.sum()) + count]
    if held < tau * running[-1]:
        raise NispaError(f"stable units and candidates hold {held} of {running[-1]}, less than tau {tau}")
    if count and running[int(stable.sum()) + count - 1] >= tau * running[-1]:
        raise NispaError(f"{count - 1} candidates would reach tau {tau}, {count} were chosen")


def check_growth(
    before: Sequence[Bits], wiring: Wiring, protected: Sequence[Bits], growth: str = "random"
) -> None:
    """From the masks before a rewiring to those after it (2, 6).

    Exactly the connections from plastic into protected units went; new ones lead into plastic units only;
    "novel" ("transfer") took the other type only when its own was used up.
    """
    for g, (old, connections) in enumerate(zip(before, wiring.connections, strict=True), 1):
        plastic_source = ~protected[g - 1][connections.source_of][None]
        must_go = old & protected[g][:, None] & plastic_source
        gone, new = old & ~connections.mask, connections.mask & ~old
        if not np.array_equal(gone, must_go):
            raise NispaError(
                f"layer {g}: {int(gone.sum())} connections were dropped, {int(must_go.sum())} had to be"
            )
        into = new & protected[g][:, None]
        if into.any():
            raise NispaError(f"layer {g}: a connection into protected unit {np.argwhere(into)[0][0]} grew")
        if growth == "random":
            continue
        own = plastic_source if growth == "novel" else ~plastic_source
        alive = np.zeros(len(protected[g - 1]), dtype=bool)
        alive[connections.source_of[(old & ~gone).any(axis=0)]] = True
        # A plastic hidden unit that had no output may have got one by repair, whatever the growth.
        repaired = ~alive[connections.source_of][None] & plastic_source if g > 1 else np.zeros_like(old[:1])
        foreign = new & ~own & ~repaired
        left = ~connections.mask & own & ~protected[g][:, None]
        if foreign.any() and left.any():
            raise NispaError(
                f"layer {g}: {growth} grew {int(foreign.sum())} connections of the other type"
                f" while {int(left.sum())} of its own were free"
            )


def check_frozen(before: Sequence[Part], stable: Sequence[Bits], after: Sequence[Part]) -> None:
    """Connections, weights and biases into these units are what they were, bit for bit (3).

    ``stable`` has one entry per layer (outputs included, inputs not), as ``Network.lay_out`` takes it.
    """
    for i, (bits, old, new) in enumerate(zip(stable, before, after, strict=True)):
        rows = np.flatnonzero(bits)
        if not np.array_equal(old[0][rows], new[0][rows]):
            raise NispaError(f"layer {i + 1}: connections into frozen units changed")
        for what, one, other in (
            ("a weight into", _into(old, rows), _into(new, rows)),
            ("the bias of", old[2][rows], new[2][rows]),
        ):
            if one.tobytes() != other.tobytes():
                raise NispaError(f"layer {i + 1}: {what} a frozen unit changed")


def _into(part: Part, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """The weights into some units, in row-major order of the mask."""
    mask, weights, _ = part
    wanted = np.zeros(mask.shape[0], dtype=bool)
    wanted[rows] = True
    found: NDArray[np.float32] = weights[np.repeat(wanted, mask.sum(axis=1))]
    return found


def check_no_path(wiring: Wiring, protected: Sequence[Bits], outputs: Sequence[int]) -> None:
    """No path leads from a plastic unit to one of these outputs (9)."""
    reached = np.zeros(wiring.groups[-1], dtype=bool)
    reached[list(outputs)] = True
    for g in range(len(wiring.connections), 0, -1):
        connections = wiring.connections[g - 1]
        below = np.zeros(wiring.groups[g - 1], dtype=bool)
        below[connections.source_of[connections.mask[reached].any(axis=0)]] = True
        plastic = below & ~protected[g - 1]
        if plastic.any():
            raise NispaError(
                f"plastic unit {np.flatnonzero(plastic)[0]} of group {g - 1} reaches an output of a task"
            )
        reached = below
