"""The engine that does live work only, on the CPU: C++ kernels (csrc/) behind the signature of engines.

A *plan* is a network as the kernels see it: its index, its parts of rows, its geometry. It is made when
a network is first computed and again after every re-layout; weights are shared, never copied. What the
kernels cannot do goes to the reference engine, said once per network with the layer's name.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nispa.engine import _native
from nispa.engine.reference import Reference
from nispa.layers import SparseConv2d

if TYPE_CHECKING:
    from nispa.data.samples import Batch
    from nispa.engine import Optimizer
    from nispa.network import Network

KERNELS = (1, 3, 5)
_ONE, _ZERO = np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.float32)
_BYTE = np.full(1, 1 / 255, dtype=np.float32)


@dataclass
class Input:
    """Samples as the kernels read them: rows of a data set, or a tensor whole."""

    data: Tensor
    rows: Tensor | None
    scale: Any
    shift: Any

    @property
    def count(self) -> int:
        return len(self.data) if self.rows is None else len(self.rows)

    @classmethod
    def of(cls, x: Tensor | Batch) -> Input:
        if isinstance(x, Tensor):
            return cls(x.detach().to(torch.float32).contiguous(), None, _ONE, _ZERO)
        scale: Any = x.scale
        if scale is None:
            scale = _BYTE if x.data.dtype == torch.uint8 else _ONE
        return cls(x.data, x.rows, scale, _ZERO if x.shift is None else x.shift)


@dataclass
class Native:
    name: str = "native"
    _plans: WeakKeyDictionary[Network, tuple[tuple[int, ...], Any]] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _reference: Reference = field(default_factory=Reference, repr=False)

    def plan(self, network: Network) -> Any:
        """The network's plan, made anew if a layer was laid out since; None if it cannot run natively."""
        versions = tuple(layer.version for layer in network.sparse_layers)
        known = self._plans.get(network)
        if known is not None and known[0] == versions:
            return known[1]
        reason = what_it_cannot_do(network)
        if reason is None:
            made = _make_plan(network)
        else:
            made = None
            if known is None:
                warnings.warn(f"{reason}; it runs on the reference engine", UserWarning, stacklevel=4)
        self._plans[network] = (versions, made)
        return made

    def logits(self, network: Network, x: Tensor | Batch) -> Tensor:
        plan = self._plan_for(network, x)
        if plan is None:
            return self._reference.logits(network, x)
        parameters = [p for layer in network.sparse_layers for p in (layer.values, layer.biases)]
        if torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
            chain: Any = _Chain
            logits: Tensor = chain.apply(plan, Input.of(x), network.classes, *parameters)
            return logits
        samples = Input.of(x)
        logits = torch.empty((samples.count, network.classes))
        _forward(plan, samples, logits)
        return logits

    def activations(self, network: Network, x: Tensor | Batch) -> list[Tensor]:
        plan = self._plan_for(network, x)
        if plan is None:
            return self._reference.activations(network, x)
        samples = Input.of(x)
        logits = torch.empty((samples.count, network.classes))
        tape = _forward(plan, samples, logits, idle=True, keep=True)
        found = []
        side = list(network.shape.input[1:])
        for i, layer in enumerate(network.sparse_layers[:-1]):
            side = [n // layer.pool for n in side] if isinstance(layer, SparseConv2d) else []
            maps = torch.empty((samples.count, layer.targets, *side))
            plan.copy_out(tape, i, maps)
            found.append(maps)
        return found

    def activation_sums(
        self, network: Network, batches: Iterable[Tensor | Batch]
    ) -> list[NDArray[np.float64]]:
        plan = self.plan(network)
        if plan is None:
            return self._reference.activation_sums(network, batches)
        sums = [np.zeros(layer.targets) for layer in network.sparse_layers[:-1]]
        _native.set_threads(torch.get_num_threads())
        for batch in batches:
            samples = Input.of(batch)
            plan.sums(samples.data, samples.rows, samples.scale, samples.shift, sums)
        return sums

    def optimizer(
        self, network: Network, name: str, *, lr: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> Optimizer:
        if self.plan(network) is None:
            return self._reference.optimizer(
                network, name, lr=lr, momentum=momentum, weight_decay=weight_decay
            )
        return LiveOptimizer(network, name, lr, momentum, weight_decay)

    def _plan_for(self, network: Network, x: Tensor | Batch) -> Any:
        if isinstance(x, Tensor) and x.requires_grad:
            return None  # a gradient for the input itself
        return self.plan(network)


def what_it_cannot_do(network: Network) -> str | None:
    """Why the kernels cannot run a network, or None if they can."""
    if network.device.type != "cpu":
        return f"the native engine computes on the CPU and the network is on {network.device}"
    for i, layer in enumerate(network.sparse_layers, 1):
        if isinstance(layer, SparseConv2d) and layer.size not in KERNELS:
            return f"layer {i} has {layer.size}x{layer.size} kernels, the native engine does 1x1, 3x3 and 5x5"
    return None


def _make_plan(network: Network) -> Any:
    layers = []
    for layer in network.sparse_layers:
        convolution = isinstance(layer, SparseConv2d)
        layers.append(
            {
                "conv": convolution,
                "targets": layer.targets,
                "columns": layer.columns,
                "kernel": layer.size if isinstance(layer, SparseConv2d) else 1,
                "pool": layer.pool if isinstance(layer, SparseConv2d) else 1,
                "relu": layer.relu,
                "units": layer.units,
                "starts": layer.starts,
                "index": layer.index,
                "frozen": layer.frozen_rows,
                "working": layer.working_rows,
                "weights": layer.store.detach(),
                "biases": layer.bias_store.detach(),
            }
        )
    shape = network.shape.input
    size = shape if network.shape.convolutions else (int(np.prod(shape)), 1, 1)
    return _native.Plan(layers, *size)


def _forward(plan: Any, x: Input, logits: Tensor, *, idle: bool = False, keep: bool = False) -> Any:
    _native.set_threads(torch.get_num_threads())
    return plan.forward(x.data, x.rows, x.scale, x.shift, idle, keep, logits)


class _Chain(torch.autograd.Function):
    """Logits of a whole chain; its backward pass gives the gradients of all trainable tails at once."""

    @staticmethod
    def forward(ctx: Any, plan: Any, x: Input, classes: int, *parameters: Tensor) -> Tensor:
        logits = torch.empty((x.count, classes))
        ctx.tape = _forward(plan, x, logits, keep=True)
        ctx.plan = plan
        ctx.save_for_backward(*parameters)
        return logits

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        # Zeros: linear layers add to them, and the rows of idle units are not computed.
        gradients = [torch.zeros_like(p) for p in ctx.saved_tensors]
        _native.set_threads(torch.get_num_threads())
        ctx.plan.backward(ctx.tape, gradient.contiguous(), gradients[0::2], gradients[1::2])
        return (None, None, None, *gradients)


class LiveOptimizer:
    """Adam or SGD, computed as PyTorch does, on what training moves: idle rows only under weight decay."""

    def __init__(self, network: Network, name: str, lr: float, momentum: float, weight_decay: float) -> None:
        self.parameters: list[torch.nn.Parameter] = []
        counts = []
        for layer in network.sparse_layers:
            rows = layer.working_rows if weight_decay == 0 else layer.targets
            first, last = int(layer.starts[layer.frozen_rows]), int(layer.starts[rows])
            self.parameters += [layer.values, layer.biases]
            counts += [(last - first) * int(np.prod(layer.kernel)), rows - layer.frozen_rows]
        values = [p.detach() for p in self.parameters]
        self._state = _native.Optimizer(name == "adam", values, counts, lr, momentum, weight_decay)

    def step(self) -> None:
        _native.set_threads(torch.get_num_threads())
        self._state.step([p.grad for p in self.parameters])

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None
