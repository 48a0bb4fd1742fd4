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
            self.became = [np.where(bits, -1, -1).astype(np.int32) for bits in self.stable]

    @property
    def groups(self) -> list[int]:
        """The number of units in every group."""
        return [len(bits) for bits in self.stable]

    @property
    def hidden(self) -> range:
        """The groups that take part in selection."""
        return range(1, len(self.stable) - 1)

    def copy_stable(self) -> list[Bits]:
        return [bits.copy() for bits in self.stable]
