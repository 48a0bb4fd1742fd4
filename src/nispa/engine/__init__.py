"""How a sparse network computes: one signature, several implementations.

``reference`` is plain PyTorch on any device and defines what is correct; ``native`` computes live
connections only, on the CPU. ``choose`` is the one place that decides.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nispa.engine.reference import Reference
from nispa.errors import NispaError, nearest

if TYPE_CHECKING:
    from nispa.data.samples import Batch
    from nispa.network import Network

ENGINES = ("auto", "reference", "native")


class Optimizer(Protocol):
    """What training asks of an optimizer."""

    def step(self) -> None: ...
    def zero_grad(self) -> None: ...


class Engine(Protocol):
    """What a network asks of an engine. ``x`` is a float tensor or a batch still to be gathered."""

    name: str

    def logits(self, network: Network, x: Tensor | Batch) -> Tensor:
        """``[N, classes]``, differentiable in the network's parameters.

        Idle outputs (layers.py) may hold anything finite: only a loss on working outputs is defined.
        """
        ...

    def activations(self, network: Network, x: Tensor | Batch) -> list[Tensor]:
        """Per hidden layer, after ReLU and pooling: ``[N, units]`` or ``[N, units, H, W]``; all rows."""
        ...

    def activation_sums(
        self, network: Network, batches: Iterable[Tensor | Batch]
    ) -> list[NDArray[np.float64]]:
        """Per hidden layer, the total activation of every unit over all samples (paper, eq. 1)."""
        ...

    def optimizer(
        self, network: Network, name: str, *, lr: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> Optimizer:
        """A fresh optimizer ("adam" or "sgd") for the network's trainable values and biases."""
        ...


def choose(name: str) -> Engine:
    """The engine with that name; ``auto`` is the fastest that runs here."""
    if name not in ENGINES:
        raise NispaError(f"unknown engine {name!r}{nearest(name, ENGINES)}; choose from {', '.join(ENGINES)}")
    if name == "reference":
        return Reference()
    native = _native_engine()
    if native is not None:
        return native
    if name == "native":
        raise NispaError(
            "engine 'native' is not built here; install a C++ compiler and install nispa again,"
            " or take --engine reference"
        )
    _say_once()
    return Reference()


def _native_engine() -> Engine | None:
    try:
        from nispa.engine.native import Native
    except ImportError:
        return None
    return Native()


@cache
def _say_once() -> None:
    warnings.warn(
        "the native engine is not built (no C++ compiler at install time?);"
        " running the reference engine, which is several times slower",
        UserWarning,
        stacklevel=4,
    )
