"""Learned state as plain tensors: what goes into files, and what comes out of them, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nispa.errors import NispaError
from nispa.network import Network, Part, Shape, layer_sizes
from nispa.wiring import Bits

Tensors = dict[str, Tensor]


def pack_bits(bits: Bits) -> Tensor:
    return torch.from_numpy(np.packbits(bits))


def unpack_bits(packed: Tensor, shape: Sequence[int], what: str) -> Bits:
    size = math.prod(shape)
    if packed.dtype != torch.uint8 or packed.numel() != -(-size // 8):
        raise NispaError(f"{what} does not fit a {'x'.join(map(str, shape))} bit array; the file is damaged")
    return np.unpackbits(packed.numpy(), count=size).astype(bool).reshape(shape)


def pack_parts(parts: Sequence[Part], prefix: str) -> Tensors:
    """Masks as bits, weights and biases in unit order."""
    tensors: Tensors = {}
    for i, (mask, weights, biases) in enumerate(parts):
        tensors[f"{prefix}{i}.mask"] = pack_bits(mask)
        tensors[f"{prefix}{i}.weights"] = torch.from_numpy(weights)
        tensors[f"{prefix}{i}.biases"] = torch.from_numpy(biases)
    return tensors


def unpack_parts(tensors: Mapping[str, Tensor], shape: Shape, prefix: str) -> list[Part]:
    """The reverse; every size is checked against the shape before anything is allocated."""
    parts: list[Part] = []
    for i, (targets, columns, kernel) in enumerate(layer_sizes(shape)):
        name = f"{prefix}{i}"
        mask = unpack_bits(take(tensors, f"{name}.mask"), (targets, columns), f"{name}.mask")
        count = int(np.count_nonzero(mask))
        weights = take(tensors, f"{name}.weights", (count, *kernel))
        biases = take(tensors, f"{name}.biases", (targets,))
        parts.append((mask, weights.numpy().copy(), biases.numpy().copy()))
    return parts


def pack_groups(bits: Sequence[Bits], prefix: str) -> Tensors:
    return {f"{prefix}{g}": pack_bits(group) for g, group in enumerate(bits)}


def unpack_groups(tensors: Mapping[str, Tensor], sizes: Sequence[int], prefix: str) -> list[Bits]:
    return [unpack_bits(take(tensors, f"{prefix}{g}"), (n,), f"{prefix}{g}") for g, n in enumerate(sizes)]


def take(tensors: Mapping[str, Tensor], name: str, shape: Sequence[int] | None = None) -> Tensor:
    """A tensor that must be there, of that shape, finite."""
    if name not in tensors:
        raise NispaError(f"tensor {name!r} is missing; the file is damaged or not a NISPA file")
    tensor = tensors[name]
    if shape is not None:
        if tuple(tensor.shape) != tuple(shape) or tensor.dtype != torch.float32:
            raise NispaError(
                f"tensor {name!r} is {tensor.dtype} {list(tensor.shape)}, expected float32 {list(shape)};"
                " the file is damaged"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise NispaError(f"tensor {name!r} holds NaN or infinity; the file is damaged")
    return tensor


def network_tensors(network: Network, prefix: str = "net.") -> Tensors:
    """A network with its stable bits and the log of when they were set."""
    wiring = network.wiring
    return {
        **pack_parts(network.snapshot(), prefix),
        **pack_groups(wiring.stable, f"{prefix}stable."),
        **{f"{prefix}became.{g}": torch.from_numpy(log.copy()) for g, log in enumerate(wiring.became)},
    }


def network_data(network: Network) -> dict[str, Any]:
    """The JSON beside the tensors."""
    shape = network.shape
    return {
        "shape": {
            "input": list(shape.input),
            "convolutions": [list(convolution) for convolution in shape.convolutions],
            "hidden": list(shape.hidden),
            "classes": shape.classes,
            "density": shape.density,
        },
        "seed": network.seed,
        "init": network.init,
        "engine": network.engine_choice,
        "target_counts": [c.target_count for c in network.wiring.connections],
    }


def build_network(tensors: Mapping[str, Tensor], data: Mapping[str, Any], prefix: str = "net.") -> Network:
    """A network from its tensors and JSON; rows are laid out with nothing frozen."""
    try:
        raw = dict(data["shape"])
        shape = Shape(
            input=tuple(int(n) for n in raw["input"]),
            convolutions=tuple((int(a), int(b), int(c)) for a, b, c in raw["convolutions"]),
            hidden=tuple(int(n) for n in raw["hidden"]),
            classes=int(raw["classes"]),
            density=float(raw["density"]),
        )
        counts = [int(n) for n in data["target_counts"]]
        seed, init, engine = int(data["seed"]), str(data["init"]), str(data["engine"])
    except (KeyError, TypeError, ValueError) as error:
        raise NispaError(
            f"the network's description is not readable ({error}); the file is damaged"
        ) from None
    parts = unpack_parts(tensors, shape, prefix)
    network = Network(shape, seed=seed, init=init, engine=engine, parts=parts)
    wiring = network.wiring
    wiring.stable = unpack_groups(tensors, wiring.groups, f"{prefix}stable.")
    for g, units in enumerate(wiring.groups):
        log = take(tensors, f"{prefix}became.{g}")
        if log.dtype != torch.int32 or tuple(log.shape) != (units,):
            raise NispaError(f"tensor '{prefix}became.{g}' has a wrong shape; the file is damaged")
        wiring.became[g] = log.numpy().copy()
    sizes = [connections.mask.size for connections in wiring.connections]
    if len(counts) != len(sizes) or not all(0 <= n <= size for n, size in zip(counts, sizes, strict=True)):
        raise NispaError("the network's target counts do not match its layers; the file is damaged")
    if not wiring.stable[0].all():
        raise NispaError(f"tensor '{prefix}stable.0' has a plastic input; the file is damaged")
    for connections, count in zip(wiring.connections, counts, strict=True):
        connections.target_count = count
    return network
