"""What is connected to what, and which units are stable: plain data, and the words for it.

A network is a chain of unit groups: the inputs (group 0), one group per hidden layer, the outputs. A
unit of a convolutional layer is a filter and a connection one 2D kernel (paper, appendix "NISPA in
Convolutional Neural Networks"). Where a linear layer follows a flattened convolution every unit owns
several columns of the connection matrix; ``source_of`` says which.

Two words are kept apart everywhere. *Frozen*: stable when the task began, so its inputs may not change.
*Protected*: frozen, or candidate, or an output of the current task; gets no plastic input and no growth.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]


@dataclass
class Connections:
    """The connections into one layer, at the paper's granularity."""

    mask: Bits
    """``[targets, columns]``: which connections are live."""
    source_of: NDArray[np.int64]
    """``[columns]``: the source unit that owns each column."""
    target_count: int
    """How many connections the layer's density asks for."""

    @property
    def live(self) -> int:
        return int(np.count_nonzero(self.mask))

    @property
    def density(self) -> float:
        return self.live / self.mask.size if self.mask.size else 0.0

    def has_output(self, sources: int) -> Bits:
        """``[sources]``: does the source unit have a live outgoing connection?"""
        has = np.zeros(sources, dtype=bool)
        has[self.source_of[self.mask.any(axis=0)]] = True
        return has


@dataclass
class Wiring:
    """All groups and connections. ``stable`` is all the plasticity state there is: one bit per unit."""

    connections: list[Connections]
    stable: list[Bits]
    """Per group; inputs are stable by definition, outputs once their task is learned."""
    became: list[NDArray[np.int32]] = field(default_factory=list)
    """Per group: the task in which each unit became stable, -1 if plastic. A log for people."""

    def __post_init__(self) -> None:
        if not self.became:
            self.became = [np.full(len(bits), -1, dtype=np.int32) for bits in self.stable]

    @property
    def groups(self) -> list[int]:
        """The number of units in every group."""
        return [len(bits) for bits in self.stable]

    @property
    def hidden(self) -> range:
        """The groups that take part in selection."""
        return range(1, len(self.stable) - 1)

    def free_connections(self) -> list[int]:
        """Per layer, the live connections into plastic units: what later tasks can still train."""
        return [
            int(np.count_nonzero(connections.mask[~self.stable[g]]))
            for g, connections in enumerate(self.connections, 1)
        ]

    def summary(self) -> str:
        """Density and free capacity of every layer, as a small table."""
        lines = ["layer   units  stable  plastic  connections  density     free"]
        free = self.free_connections()
        for g, connections in enumerate(self.connections, 1):
            units, stable = len(self.stable[g]), int(self.stable[g].sum())
            name = "output" if g == len(self.connections) else f"{g}"
            lines.append(
                f"{name:6} {units:6} {stable:7} {units - stable:8} {connections.live:12,}"
                f" {connections.density:8.3f} {free[g - 1] / max(connections.live, 1):8.1%}"
            )
        return "\n".join(lines)

    def copy_stable(self) -> list[Bits]:
        return [bits.copy() for bits in self.stable]
