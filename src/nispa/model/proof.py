"""That nothing was forgotten, shown and not only promised.

Two things are kept for every task when it is learned, and compared after every change of the file and
whenever somebody asks (`nispa inspect --verify`):

* a hash of the task's own units: their inputs' positions, weights and biases. Exact on any machine.
* the task's logits on probes, random inputs that the file keeps. Compared bit for bit where they were
  taken (same engine, instruction set and torch), to 1e-5 of the logits' size elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nispa.capacity import own_units, used_by
from nispa.draws import ROOM, generator
from nispa.model.file import Made
from nispa.network import Network
from nispa.wiring import Bits

PROBES = 32
TOLERANCE = 1e-5


@dataclass
class Finding:
    """What the comparison found for one task."""

    task: str
    units: bool
    """The task's own units are what they were."""
    logits: bool
    difference: float
    """The largest difference of a probe's logits."""
    exact: bool
    """Bits were compared, not values."""
    through: list[str] = field(default_factory=list)
    """Earlier tasks whose units this one uses and that are not what they were."""

    @property
    def kept(self) -> bool:
        return self.units and self.logits and not self.through


def made_here(network: Network) -> Made:
    return Made(
        engine=network.engine.name,
        instructions=torch.backends.cpu.get_cpu_capability(),
        torch=torch.__version__,
    )


def draw_probes(shape: list[int], seed: int) -> Tensor:
    """Random inputs of several sizes and offsets: half of them rough, half smooth."""
    rng = generator(seed, ROOM, 0, 1)
    rough = rng.standard_normal((PROBES, *shape))
    if len(shape) == 3:
        coarse = rng.standard_normal((PROBES // 2, shape[0], 4, 4))
        rows = np.arange(shape[1]) * 4 // shape[1]
        columns = np.arange(shape[2]) * 4 // shape[2]
        rough[PROBES // 2 :] = coarse[:, :, rows][:, :, :, columns]
    sizes = rng.uniform(0.5, 1.5, (PROBES, *(1 for _ in shape)))
    return torch.from_numpy((rough * sizes).astype(np.float32))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Dense products may be cut differently for every number of threads; with one they are always alike."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fingerprint(part: Network, probes: Tensor) -> Tensor:
    """The logits of a task's part of the network on the probes."""
    with one_thread(), torch.no_grad():
        return part(probes).detach().cpu().float().clone()


def digest(network: Network, task: int) -> str:
    """SHA-256 of the task's own hidden units, then of its outputs, layer by layer and unit by unit.

    Positions are the numbers of units and columns, not their place in storage, so new units at the end
    of a layer change nothing.
    """
    own = own_units(network.wiring, task)[1:]
    hidden = _hash(network, list(enumerate(own[:-1])))
    return f"{hidden} {_hash(network, [(len(own) - 1, own[-1])])}"


def _hash(network: Network, layers: list[tuple[int, Bits]]) -> str:
    sha = hashlib.sha256()
    for i, bits in layers:
        layer, mask = network.sparse_layers[i], network.wiring.connections[i].mask
        units = np.flatnonzero(bits)
        inside = np.repeat(bits, mask.sum(axis=1))
        for array, kind in (
            (units, "<i8"),
            (mask[units].sum(axis=1), "<i8"),
            (np.nonzero(mask[units])[1], "<i8"),
            (layer.weights()[inside], "<f4"),
            (layer.bias()[units], "<f4"),
        ):
            sha.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return sha.hexdigest()


def uses(network: Network, task: int, outputs: list[int]) -> list[int]:
    """Earlier tasks whose units this task's answers pass through."""
    used = used_by(network.wiring, outputs)
    found = {int(t) for g in network.wiring.hidden for t in network.wiring.became[g][used[g]] if t >= 0}
    return sorted(found - {task})


def compare(before: Tensor, now: Tensor, exact: bool) -> tuple[bool, float]:
    """(alike, largest difference); NaN is never alike."""
    difference = float((before - now).abs().max()) if before.numel() else 0.0
    if exact:
        return torch.equal(before, now), difference
    size = max(1.0, float(before.abs().max())) if before.numel() else 1.0
    return difference <= TOLERANCE * size, difference
