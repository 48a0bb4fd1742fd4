"""Sparse layers that store their live weights only.

A layer keeps one flat ``store`` of live weights and one of biases, row by row. A row holds the incoming
connections of one unit; rows lie in the order *frozen, working, idle*, ascending inside each part:

    frozen   stable when the task began: no gradient, in no optimizer's hands
    working  everything that training moves
    idle     plastic units that no output of the current task can see (docs/performance.md);
             ``logits`` need not compute them, selection of candidates does

So the trainable ``values`` and ``biases`` are the tails of their stores (views: they share memory), and
no optimizer, momentum or weight decay can reach a frozen weight. The index changes only with the wiring.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nispa.wiring import Bits

Floats = NDArray[np.float32]


class SparseLayer(nn.Module, ABC):
    """Live weights of one layer. ``SparseLinear`` and ``SparseConv2d`` add their geometry."""

    units: Tensor
    """``[targets]`` int32: the unit that a stored row belongs to."""
    starts: Tensor
    """``[targets + 1]`` int32: where a row's connections start in ``index`` and ``store``."""
    index: Tensor
    """``[live]`` int32: the column of every live connection, ascending inside a row."""
    store: Tensor
    """``[live, *kernel]``: live weights in row order."""
    bias_store: Tensor
    """``[targets]``: biases in row order."""
    frozen_rows: int
    working_rows: int
    """Rows before this one are frozen or working, the rest idle."""
    version: int
    """Counts re-layouts, so that an engine knows when what it derived from the index is stale."""

    def __init__(self, targets: int, columns: int, relu: bool) -> None:
        super().__init__()
        self.targets, self.columns, self.relu = targets, columns, relu
        self.version = 0

    @property
    @abstractmethod
    def kernel(self) -> tuple[int, ...]:
        """The shape of one connection's weights: () or (k, k)."""

    @property
    def live(self) -> int:
        return self.index.numel()

    @property
    def full(self) -> bool:
        """Every possible connection is live, so the layer is a plain dense one."""
        return self.live == self.targets * self.columns

    def lay_out(
        self, mask: Bits, weights: Floats, biases: Floats, frozen: Bits, working: Bits | None = None
    ) -> None:
        """Store new connections; weights are in row-major order of the mask, biases in unit order."""
        device = self.store.device if "store" in self._buffers else torch.device("cpu")
        part = np.where(frozen, 0, 1 if working is None else np.where(working, 1, 2))
        order = np.argsort(part, kind="stable").astype(np.int32)
        counts = mask.sum(axis=1, dtype=np.int64)
        ends = np.concatenate([[0], np.cumsum(counts)])
        starts = np.concatenate([[0], np.cumsum(counts[order])])
        columns = np.nonzero(mask)[1].astype(np.int32)
        if not np.array_equal(order, np.arange(self.targets)):
            moved = _rows(ends[order], counts[order])
            weights, columns = weights[moved], columns[moved]
        self.targets = len(order)
        self.frozen_rows = int(np.count_nonzero(part == 0))
        self.working_rows = int(np.count_nonzero(part <= 1))
        for name, array in (
            ("units", order),
            ("starts", starts.astype(np.int32)),
            ("index", columns),
            ("store", np.array(weights, dtype=np.float32)),  # a copy: training must not reach the caller's
            ("bias_store", biases[order].astype(np.float32)),
        ):
            self.register_buffer(name, torch.from_numpy(array).to(device), persistent=False)
        self.tie()

    def tie(self) -> None:
        """Make ``values`` and ``biases`` the trainable tails of the stores."""
        first = int(self.starts[self.frozen_rows])
        self.values = nn.Parameter(self.store[first:])
        self.biases = nn.Parameter(self.bias_store[self.frozen_rows :])
        self.version += 1

    def weights(self) -> Floats:
        """All live weights, in row-major order of the mask."""
        stored = self.store.detach().cpu().numpy()
        units, starts = self.units.cpu().numpy(), self.starts.cpu().numpy().astype(np.int64)
        rows = np.argsort(units, kind="stable")
        return stored[_rows(starts[rows], np.diff(starts)[rows])]

    def bias(self) -> Floats:
        """All biases, in unit order."""
        result = np.empty(self.targets, dtype=np.float32)
        result[self.units.cpu().numpy()] = self.bias_store.detach().cpu().numpy()
        return result

    def mask(self) -> Bits:
        """The connection matrix, decoded from the index."""
        result = np.zeros((self.targets, self.columns), dtype=bool)
        rows = np.repeat(self.units.cpu().numpy(), np.diff(self.starts.cpu().numpy()))
        result[rows, self.index.cpu().numpy()] = True
        return result


def _rows(begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions begins[i], begins[i]+1, … of every row, one row after the other."""
    offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(begins, counts) + offsets


class SparseLinear(SparseLayer):
    """``y = relu(W x + b)`` over live weights only."""

    kernel = ()


class SparseConv2d(SparseLayer):
    """A convolution with stride 1 and same padding, then ReLU, then max-pooling if ``pool`` is 2."""

    def __init__(self, targets: int, columns: int, size: int, pool: int) -> None:
        super().__init__(targets, columns, relu=True)
        self.size, self.pool = size, pool

    @property
    def kernel(self) -> tuple[int, ...]:
        return (self.size, self.size)
