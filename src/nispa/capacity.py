"""Room in a network: who uses which unit, more units, units given back. Bits of what stays are untouched."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nispa.draws import REINIT, ROOM, generator
from nispa.network import Network, Part, Shape
from nispa.rewiring import drop
from nispa.wiring import Bits, Wiring


def used_by(wiring: Wiring, outputs: Sequence[int]) -> list[Bits]:
    """Per group, the units from which a path of live connections leads to one of these outputs."""
    used = [np.zeros(n, dtype=bool) for n in wiring.groups]
    used[-1][list(outputs)] = True
    for g in range(len(wiring.connections), 0, -1):
        connections = wiring.connections[g - 1]
        columns = connections.mask[used[g]].any(axis=0)
        used[g - 1][connections.source_of[columns]] = True
    return used


def part_for(network: Network, outputs: Sequence[int]) -> Network:
    """The part of the network that these outputs need, as a network of its own.

    It holds the units of `used_by` (one at least in every layer) and their connections, in the same order.
    What is learned later, or grown, is not in it, so that its answers keep every bit on every engine:
    dense products may be summed otherwise when a matrix gets larger, even if only zeros are added.
    """
    used = used_by(network.wiring, outputs)
    used[0][:] = True
    for bits in used:
        bits[0] |= not bits.any()
    parts: list[Part] = []
    for i, (mask, weights, biases) in enumerate(network.snapshot()):
        columns = used[i][network.wiring.connections[i].source_of]
        inside = (used[i + 1][:, None] & columns[None])[mask]
        parts.append((mask[used[i + 1]][:, columns], weights[inside], biases[used[i + 1]]))
    counts = [int(bits.sum()) for bits in used[1:]]
    convolutions = network.shape.convolutions
    shape = Shape(
        input=network.shape.input,
        convolutions=tuple((n, k, pool) for n, (_, k, pool) in zip(counts, convolutions, strict=False)),
        hidden=tuple(counts[len(convolutions) : -1]),
        classes=counts[-1],
        density=1.0,
    )
    return Network(shape, seed=network.seed, init=network.init, engine=network.engine_choice, parts=parts)


def grown(network: Network, units: Sequence[int], outputs: int = 0) -> Network:
    """The network with more plastic units in its hidden layers, and more outputs.

    New units come last in their group. They get inputs at the network's density, and outputs into
    plastic units only, so no stable unit gets or loses a connection. What the new slots hold at that
    density is added to the layers' targets.
    """
    shape, wiring = network.shape, network.wiring
    convolutions = tuple(
        (n + more, *rest) for (n, *rest), more in zip(shape.convolutions, units, strict=False)
    )
    hidden = tuple(n + more for n, more in zip(shape.hidden, units[len(convolutions) :], strict=True))
    larger = replace(
        shape,
        convolutions=convolutions,  # type: ignore[arg-type]
        hidden=hidden,
        classes=shape.classes + outputs,
    )
    added = [0, *units, outputs]
    rng = generator(network.seed, ROOM, sum(wiring.groups))
    parts: list[Part] = []
    for i, (mask, weights, biases) in enumerate(network.snapshot()):
        area = mask.shape[1] // wiring.groups[i]
        rows, columns = mask.shape[0] + added[i + 1], mask.shape[1] + added[i] * area
        slots = np.zeros((rows, columns), dtype=bool)
        slots[mask.shape[0] :] = True
        slots[: mask.shape[0], mask.shape[1] :] = ~wiring.stable[i + 1][:, None]
        chosen = np.flatnonzero(slots)
        dense = i == 0 and bool(convolutions)
        if not dense:
            count = round(shape.density * len(chosen))
            chosen = rng.choice(chosen, count, replace=False, shuffle=False)
        wider = np.zeros((rows, columns), dtype=bool)
        wider[: mask.shape[0], : mask.shape[1]] = mask
        old = np.flatnonzero(wider)
        wider.ravel()[chosen] = True
        values = np.zeros((int(wider.sum()), *weights.shape[1:]), dtype=np.float32)
        values[np.searchsorted(np.flatnonzero(wider), old)] = weights
        parts.append((wider, values, np.append(biases, np.zeros(added[i + 1], dtype=np.float32))))
    result = Network(larger, seed=network.seed, init=network.init, engine=network.engine_choice, parts=parts)
    _fill(network, result, rng)
    return result


def _fill(before: Network, after: Network, rng: np.random.Generator) -> None:
    """Weights and biases of what is new, the stable bits and the targets of what was there."""
    for i, layer in enumerate(after.sparse_layers):
        connections, old = after.wiring.connections[i], before.wiring.connections[i]
        rows, columns = old.mask.shape
        there = np.zeros(connections.mask.shape, dtype=bool)
        there[:rows, :columns] = old.mask
        new = ~there[connections.mask]
        weights, biases = layer.weights(), layer.bias()
        weights[new] = after.initial_weights(i, int(new.sum()), rng)
        biases[rows:] = after.initial_biases(i, layer.targets - rows, rng)
        connections.target_count = old.target_count + int(new.sum())
        layer.lay_out(connections.mask, weights, biases, np.zeros(layer.targets, dtype=bool))
    for g, units in enumerate(after.wiring.groups):
        stable, became = before.wiring.stable[g], before.wiring.became[g]
        after.wiring.stable[g] = np.append(stable, np.zeros(units - len(stable), dtype=bool))
        after.wiring.became[g] = np.append(became, np.full(units - len(became), -1, dtype=np.int32))


def own_units(wiring: Wiring, task: int) -> list[Bits]:
    """Per group, the units that became stable in this task."""
    return [log == task for log in wiring.became]


def released(network: Network, units: Sequence[Bits], number: int) -> Network:
    """A copy in which these stable units are plastic again and have fresh weights.

    Connections from them into units that stay stable are dropped: those units' tasks lose what came
    that way. ``number`` tells one release from the next (draws.py).
    """
    result = copy.deepcopy(network)
    wiring = result.wiring
    for g in range(1, len(wiring.stable)):
        wiring.stable[g] &= ~units[g]
        wiring.became[g][units[g]] = -1
    drop(wiring, wiring.stable)
    rng = generator(result.seed, REINIT, number, epoch=1)
    for i in range(len(wiring.connections)):
        result.rewire(i, rng)
    result.reinitialize(rng, keep=wiring.stable[1:])
    return result
