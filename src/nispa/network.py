"""A chain of sparse layers with ReLU and pooling, and the paper's two architectures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nispa.draws import INIT, OUTPUTS, generator
from nispa.engine import choose
from nispa.errors import NispaError, nearest
from nispa.layers import Floats, SparseConv2d, SparseLayer, SparseLinear
from nispa.wiring import Bits, Connections, Wiring

if TYPE_CHECKING:
    from nispa.data.samples import Batch

INITS = ("fan_in", "fan_out", "width", "live_fan_in", "live_fan_out", "authors")
"""Readings of "variance inversely proportional to each layer's width" (docs/fidelity.md, row 12)."""

Part = tuple[Bits, Floats, Floats]
"""One layer's mask, its weights in row-major order of the mask, and its biases, in unit order."""


@dataclass(frozen=True)
class Shape:
    """What a network looks like, without its weights: enough to build it again."""

    input: tuple[int, ...]
    convolutions: tuple[tuple[int, int, int], ...]
    """(filters, kernel size, pooling) of every convolution."""
    hidden: tuple[int, ...]
    classes: int
    density: float


class Network(nn.Module):
    """Layers, their wiring, and the engine that computes them."""

    def __init__(
        self,
        shape: Shape,
        *,
        seed: int = 0,
        init: str = "fan_in",
        engine: str = "auto",
        parts: Sequence[Part] | None = None,
    ) -> None:
        """A new random network, or one with the given ``parts`` (masks, weights and biases)."""
        super().__init__()
        _check(shape, init)
        self.shape, self.seed, self.init = shape, seed, init
        self.layers = nn.ModuleList(_layers(shape))
        self.engine_choice = engine
        self.engine = choose(engine)
        rng = generator(seed, INIT)
        connections, groups = [], [shape.input[0] if shape.convolutions else math.prod(shape.input)]
        for i, layer in enumerate(self.sparse_layers):
            mask, weights, biases = parts[i] if parts else self._draw(i, rng)
            source_of = np.arange(layer.columns) * groups[-1] // layer.columns
            connections.append(Connections(mask, source_of, self.target_count(i)))
            layer.lay_out(mask, weights, biases, np.zeros(layer.targets, dtype=bool))
            groups.append(layer.targets)
        stable = [np.zeros(n, dtype=bool) for n in groups]
        stable[0][:] = True
        self.wiring = Wiring(connections, stable)

    def fresh(self, seed: int) -> Network:
        """Another random network of the same shape, all plastic."""
        return Network(self.shape, seed=seed, init=self.init, engine=self.engine_choice).to(self.device)

    @property
    def sparse_layers(self) -> list[SparseLayer]:
        return list(self.layers)  # type: ignore[arg-type]

    @property
    def classes(self) -> int:
        return self.sparse_layers[-1].targets

    @property
    def device(self) -> torch.device:
        return self.sparse_layers[0].store.device

    def forward(self, x: Tensor | Batch) -> Tensor:
        return self.engine.logits(self, x)

    def __call__(self, x: Tensor | Batch) -> Tensor:
        """``[N, classes]``: the logits, differentiable in ``parameters()``."""
        return self.forward(x)

    def activations(self, x: Tensor | Batch) -> list[Tensor]:
        """The units' activations after ReLU and pooling, one tensor per hidden layer."""
        return self.engine.activations(self, x)

    def _apply(self, fn: Any, recurse: bool = True) -> Network:
        """Moving a network to a device separates the trainable tails from their stores: tie them again."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for layer in self.sparse_layers:
            layer.tie()
        return self

    def cost(self) -> dict[str, dict[str, int]]:
        """Parameters and floating-point operations of one forward pass, live and if it were dense."""
        side = list(self.shape.input[1:]) if self.shape.convolutions else []
        live = dense = live_flops = dense_flops = 0
        for layer in self.sparse_layers:
            positions = math.prod(side) if isinstance(layer, SparseConv2d) else 1
            area = math.prod(layer.kernel)
            live += layer.live * area + layer.targets
            dense += layer.targets * layer.columns * area + layer.targets
            live_flops += 2 * layer.live * area * positions
            dense_flops += 2 * layer.targets * layer.columns * area * positions
            if isinstance(layer, SparseConv2d):
                side = [n // layer.pool for n in side]
        return {
            "parameters": {"live": live, "dense": dense},
            "flops": {"forward_live": live_flops, "forward_dense": dense_flops},
        }

    def initial_density(self) -> list[float]:
        """Per layer, the density that random pruning left."""
        return [c.target_count / c.mask.size for c in self.wiring.connections]

    def target_count(self, i: int) -> int:
        """How many connections layer i has: round(d·N); a first convolution is dense."""
        layer = self.sparse_layers[i]
        density = 1.0 if i == 0 and self.shape.convolutions else self.shape.density
        return round(density * layer.targets * layer.columns)

    def _draw(self, i: int, rng: np.random.Generator) -> Part:
        """Random pruning, each connection equally likely (appendix "Weight Initialization"), then weights."""
        layer, count = self.sparse_layers[i], self.target_count(i)
        mask = _random_mask(layer.targets, layer.columns, count, rng)
        return mask, self.initial_weights(i, count, rng), self.initial_biases(i, layer.targets, rng)

    def initial_weights(
        self, layer: int, count: int, rng: np.random.Generator, again: bool = False
    ) -> Floats:
        """Kaiming normal weights for ``count`` connections; ``again`` marks a re-initialisation."""
        sigma = math.sqrt(2 / self.fan(layer, again))
        shape = (count, *self.sparse_layers[layer].kernel)
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(sigma)

    def fan(self, layer: int, again: bool = False) -> float:
        """The N_l of the variance 2 / N_l, by the chosen reading."""
        this = self.sparse_layers[layer]
        area = math.prod(this.kernel)
        reading = self.init
        if reading == "authors":
            reading = "fan_out" if again or not self.shape.convolutions else "fan_in"
        if reading == "width":
            return float(this.targets)
        live = self.shape.density if reading.startswith("live_") and not (layer == 0 and area > 1) else 1.0
        return max((this.columns if reading.endswith("fan_in") else this.targets) * area * live, 1.0)

    def initial_biases(self, layer: int, count: int, rng: np.random.Generator, again: bool = False) -> Floats:
        """Zero; the authors' MLP starts from PyTorch's default instead."""
        if self.init != "authors" or self.shape.convolutions or again:
            return np.zeros(count, dtype=np.float32)
        bound = 1 / math.sqrt(self.sparse_layers[layer].columns)
        return rng.uniform(-bound, bound, count).astype(np.float32)

    def lay_out(self, frozen: Sequence[Bits], working: Sequence[Bits] | None = None) -> None:
        """Order every layer's rows anew. Both arguments have one entry per layer (outputs included)."""
        for i, layer in enumerate(self.sparse_layers):
            mask = self.wiring.connections[i].mask
            layer.lay_out(mask, layer.weights(), layer.bias(), frozen[i], working[i] if working else None)

    def rewire(self, i: int, rng: np.random.Generator) -> None:
        """Follow the wiring's mask: dropped weights go, new ones are N(mean, std) of those that stay.

        The layer is laid out with nothing frozen: ``lay_out`` comes after the last layer.
        """
        layer, mask = self.sparse_layers[i], self.wiring.connections[i].mask
        before, weights = np.flatnonzero(layer.mask()), layer.weights()
        kept = weights[mask.ravel()[before]]
        after = np.flatnonzero(mask)
        is_new = ~np.isin(after, before, assume_unique=True)
        values = np.empty((len(after), *layer.kernel), dtype=np.float32)
        values[~is_new] = kept
        values[is_new] = self._like(i, kept, int(is_new.sum()), rng)
        layer.lay_out(mask, values, layer.bias(), np.zeros(layer.targets, dtype=bool))

    def _like(self, i: int, kept: Floats, count: int, rng: np.random.Generator) -> Floats:
        """New weights that look like the layer's existing ones (paper, section "Connection Rewiring")."""
        if kept.size == 0:
            return self.initial_weights(i, count, rng)
        mean, std = kept.mean(dtype=np.float64), kept.std(dtype=np.float64)
        drawn: NDArray[np.float64] = rng.standard_normal((count, *kept.shape[1:]))
        return np.asarray(mean + std * drawn, dtype=np.float32)

    def reinitialize(self, rng: np.random.Generator, keep: Sequence[Bits]) -> None:
        """Fresh weights and biases for every unit but ``keep`` (one entry per layer)."""
        for i, layer in enumerate(self.sparse_layers):
            mask, weights, biases = self.wiring.connections[i].mask, layer.weights(), layer.bias()
            anew = np.repeat(~keep[i], mask.sum(axis=1))
            weights[anew] = self.initial_weights(i, int(anew.sum()), rng, again=True)
            biases[~keep[i]] = self.initial_biases(i, int((~keep[i]).sum()), rng, again=True)
            layer.lay_out(mask, weights, biases, np.zeros(layer.targets, dtype=bool))

    def snapshot(self) -> list[Part]:
        """Masks, weights and biases of all layers, in unit order."""
        return [
            (c.mask.copy(), layer.weights(), layer.bias())
            for c, layer in zip(self.wiring.connections, self.sparse_layers, strict=True)
        ]

    def restore(self, snapshot: Sequence[Part]) -> None:
        """Back to a snapshot, laid out with nothing frozen: ``lay_out`` comes next."""
        for i, (mask, weights, biases) in enumerate(snapshot):
            self.wiring.connections[i].mask = mask.copy()
            self.sparse_layers[i].lay_out(mask, weights, biases, np.zeros(len(biases), dtype=bool))

    def add_outputs(self, count: int) -> None:
        """Append plastic outputs at the layer's density; everything learned stays bit for bit."""
        if count < 1:
            raise NispaError(f"cannot add {count} outputs; want 1 or more")
        layer, connections = self.sparse_layers[-1], self.wiring.connections[-1]
        rng = generator(self.seed, OUTPUTS, layer.targets)
        new = round(self.shape.density * count * layer.columns)
        rows = _random_mask(count, layer.columns, new, rng)
        weights = np.concatenate([layer.weights(), self.initial_weights(-1, new, rng)])
        biases = np.concatenate([layer.bias(), self.initial_biases(-1, count, rng)])
        stable = np.append(self.wiring.stable[-1], np.zeros(count, dtype=bool))
        became = np.append(self.wiring.became[-1], np.full(count, -1, dtype=np.int32))
        connections.mask = np.concatenate([connections.mask, rows])
        connections.target_count += new  # round() of the whole may differ by one from the sum of parts
        frozen_rows = layer.frozen_rows
        frozen = np.zeros(len(stable), dtype=bool)
        frozen[layer.units.cpu().numpy()[:frozen_rows]] = True
        layer.lay_out(connections.mask, weights, biases, frozen)
        self.wiring.stable[-1], self.wiring.became[-1] = stable, became
        self.shape = replace(self.shape, classes=layer.targets)


def _random_mask(targets: int, columns: int, count: int, rng: np.random.Generator) -> Bits:
    size = targets * columns
    mask = np.full(size, count == size)
    if count < size:
        mask[rng.choice(size, count, replace=False, shuffle=False)] = True
    return mask.reshape(targets, columns)


def mlp(
    input_shape: int | Sequence[int],
    hidden: Sequence[int] = (400, 400, 400),
    *,
    classes: int,
    density: float = 0.2,
    seed: int = 0,
    init: str = "fan_in",
    engine: str = "auto",
) -> Network:
    """The paper's multilayer perceptron (EF-MNIST: three hidden layers of 400 units, density .2)."""
    return Network(
        Shape(_sizes(input_shape), (), tuple(hidden), classes, density), seed=seed, init=init, engine=engine
    )


def cnn(
    input_shape: Sequence[int],
    filters: Sequence[int] = (64, 64, 128, 128),
    hidden: Sequence[int] = (1024,),
    *,
    classes: int,
    density: float = 0.1,
    kernel: int = 3,
    pool_after: Sequence[int] = (2, 4),
    seed: int = 0,
    init: str = "fan_in",
    engine: str = "auto",
) -> Network:
    """The paper's CNN: four 3x3 convolutions, max-pooling after the second and fourth, 1024 units."""
    convolutions = tuple((n, kernel, 2 if i in pool_after else 1) for i, n in enumerate(filters, 1))
    return Network(
        Shape(_sizes(input_shape), convolutions, tuple(hidden), classes, density),
        seed=seed,
        init=init,
        engine=engine,
    )


def _sizes(input_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (input_shape,) if isinstance(input_shape, int) else tuple(int(n) for n in input_shape)


def layer_sizes(shape: Shape) -> list[tuple[int, int, tuple[int, ...]]]:
    """(targets, columns, kernel) of every layer, without building any."""
    _check(shape, "fan_in")
    return [(layer.targets, layer.columns, layer.kernel) for layer in _layers(shape)]


def _layers(shape: Shape) -> list[SparseLayer]:
    layers: list[SparseLayer] = []
    if shape.convolutions:
        channels, height, width = shape.input
        for filters, size, pool in shape.convolutions:
            layers.append(SparseConv2d(filters, channels, size, pool))
            channels, height, width = filters, height // pool, width // pool
        columns = channels * height * width
    else:
        columns = math.prod(shape.input)
    for units in shape.hidden:
        layers.append(SparseLinear(units, columns, relu=True))
        columns = units
    return [*layers, SparseLinear(shape.classes, columns, relu=False)]


def _check(shape: Shape, init: str) -> None:
    if not 0 < shape.density <= 1:
        raise NispaError(f"density is {shape.density}; want a number above 0 and at most 1")
    if init not in INITS:
        raise NispaError(f"unknown init {init!r}{nearest(init, INITS)}; choose from {', '.join(INITS)}")
    sizes = (*shape.input, *shape.hidden, shape.classes, *(n for c in shape.convolutions for n in c))
    if not sizes or min(sizes) < 1:
        raise NispaError(
            f"every size of a network must be 1 or more; got input {list(shape.input)}, convolutions"
            f" {[list(c) for c in shape.convolutions]}, hidden {list(shape.hidden)}, {shape.classes} classes"
        )
    if not shape.convolutions:
        return
    if len(shape.input) != 3:
        raise NispaError(f"a CNN reads images [C, H, W]; the input shape is {list(shape.input)}; use mlp()")
    side = min(shape.input[1:])
    for _, size, pool in shape.convolutions:
        if size % 2 == 0:
            raise NispaError(f"convolution kernel is {size}; want an odd size (1, 3, 5)")
        if pool not in (1, 2):
            raise NispaError(f"pooling is {pool}; want 1 (none) or 2")
        side //= pool
    if side < 1:
        raise NispaError(f"images of {shape.input[1]}x{shape.input[2]} are too small for that much pooling")
