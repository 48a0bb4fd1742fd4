"""The network of a new model: one of the paper's by name, or the shape of a plain chain of torch layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from nispa.errors import NispaError, nearest
from nispa.model.file import Inputs
from nispa.model.inputs import features, pictures
from nispa.network import Network, cnn, mlp


@dataclass(frozen=True)
class Like:
    """A network by name. ``filters`` empty: a multilayer perceptron."""

    line: str
    filters: tuple[int, ...]
    hidden: tuple[int, ...]
    density: float


LIKE = {
    "cnn": Like("the paper's CNN: 64 64 128 128 filters, 1024 units", (64, 64, 128, 128), (1024,), 0.1),
    "cnn-small": Like("32 32 64 64 filters, 256 units: quicker to teach", (32, 32, 64, 64), (256,), 0.2),
    "mlp": Like("the paper's MLP: three layers of 400 units", (), (400, 400, 400), 0.2),
    "mlp-large": Like("three layers of 2000 units", (), (2000, 2000, 2000), 0.1),
}
LATER = "NISPA's rules are for plain chains, where a unit's inputs alone decide what it does"


def start(
    like: str | Network | nn.Module,
    input: str | int | Sequence[int] | None,
    classes: int,
    density: float | None,
    seed: int,
) -> tuple[Network, Inputs]:
    """A fresh network and what it reads."""
    if isinstance(like, Network):
        return like, _inputs(like.shape.input)
    if input is None:
        raise NispaError(
            "input is missing; give the size of what it reads, like 3x32x32 (or 12 for features)"
        )
    shape = _shape(input)
    if isinstance(like, nn.Module):
        network = like_chain(like, shape, classes, 0.1 if density is None else density, seed)
        return network, _inputs(network.shape.input)
    if like not in LIKE:
        known = ", ".join(LIKE)
        if re.search(r"res|dense|efficient|mobile|bn|batch", like.lower()):
            raise NispaError(
                f"like {like!r}: networks with BatchNorm or residual sums cannot be taught yet;"
                f" choose from {known}"
            )
        raise NispaError(f"unknown network {like!r}{nearest(like, LIKE)}; choose from {known}")
    chosen = LIKE[like]
    share = chosen.density if density is None else density
    if chosen.filters:
        if len(shape) != 3:
            raise NispaError(
                f"input {_text(shape)}: {like} looks at pictures, CxHxW like 3x32x32; or take mlp"
            )
        return cnn(shape, chosen.filters, chosen.hidden, classes=classes, density=share, seed=seed), _inputs(
            shape
        )
    return mlp(shape, chosen.hidden, classes=classes, density=share, seed=seed), _inputs(shape)


def _inputs(shape: tuple[int, ...]) -> Inputs:
    if len(shape) == 3:
        return pictures(shape)
    if len(shape) == 1:
        return features(shape[0])
    raise NispaError(f"input {_text(shape)}: want CxHxW for pictures or one number for features")


def _shape(input: str | int | Sequence[int]) -> tuple[int, ...]:
    parts: Sequence[Any] = [input] if isinstance(input, int) else input
    if isinstance(input, str):
        parts = re.split(r"[x×,]", input.strip().lower())
    try:
        shape = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        raise NispaError(
            f"input {input!r} is no size; want CxHxW like 3x32x32, or a number of features"
        ) from None
    if len(shape) not in (1, 3) or not all(0 < n <= 1 << 20 for n in shape):
        raise NispaError(f"input {_text(shape)} is no size; want CxHxW like 3x32x32, or a number of features")
    return shape


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def like_chain(module: nn.Module, input: tuple[int, ...], classes: int, density: float, seed: int) -> Network:
    """A fresh sparse network of the shape of an ``nn.Sequential``; its weights are not taken over.

    Conv2d (stride 1, same padding, odd kernel), ReLU, MaxPool2d(2), Flatten, Dropout, Linear. The last
    Linear is the outputs' and gives way to ``classes`` of them.
    """
    if not isinstance(module, nn.Sequential):
        raise NispaError(f"{type(module).__name__} is no nn.Sequential (residual sums?); {LATER}")
    convolutions: list[tuple[int, int, int]] = []
    linear: list[int] = []
    for layer in _flat(module):
        if isinstance(layer, nn.Conv2d) and not linear:
            convolutions.append((layer.out_channels, _kernel(layer), 1))
        elif isinstance(layer, nn.MaxPool2d) and convolutions and convolutions[-1][2] == 1:
            if layer.kernel_size not in (2, (2, 2)) or layer.stride not in (2, (2, 2)):
                raise NispaError(f"{layer}: only MaxPool2d(2) is understood")
            convolutions[-1] = (*convolutions[-1][:2], 2)
        elif isinstance(layer, nn.Linear):
            linear.append(layer.out_features)
        elif not isinstance(layer, (nn.ReLU, nn.Flatten, nn.Dropout, nn.Identity)):
            raise NispaError(f"{type(layer).__name__} cannot be taught yet; {LATER}")
    if not linear:
        raise NispaError("the chain has no Linear layer for the outputs")
    from nispa.network import Shape

    shape = Shape(input, tuple(convolutions), tuple(linear[:-1]), classes, density)
    return Network(shape, seed=seed)


def _flat(module: nn.Sequential) -> list[nn.Module]:
    found: list[nn.Module] = []
    for layer in module:
        found += _flat(layer) if isinstance(layer, nn.Sequential) else [layer]
    return found


def _kernel(layer: nn.Conv2d) -> int:
    size = int(layer.kernel_size[0])
    same = layer.padding in ("same", (size // 2, size // 2))
    plain = layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    if not (same and plain and size % 2 and layer.kernel_size[1] == size):
        raise NispaError(
            f"{layer}: only odd kernels with stride 1, same padding and one group are understood"
        )
    return size
