"""Samples in memory, and batches of them that are gathered only when an engine reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nispa.data import large
from nispa.errors import NispaError


@dataclass(frozen=True)
class Batch:
    """Some rows of a data set; value = x * scale + shift per channel (uint8: x / 255 by default)."""

    data: Tensor
    rows: Tensor
    scale: Tensor | None = None
    shift: Tensor | None = None

    def __len__(self) -> int:
        return self.rows.numel()

    def tensor(self, device: torch.device | str = "cpu") -> Tensor:
        """The batch as float32, gathered and scaled: what the reference engine reads."""
        x = self.data[self.rows].to(device, torch.float32)
        shape = (1, -1) + (1,) * (x.dim() - 2)
        if self.scale is not None:
            x = x * self.scale.to(device).view(shape)
        elif self.data.dtype == torch.uint8:
            x = x * float(np.float32(1 / 255))
        return x if self.shift is None else x + self.shift.to(device).view(shape)


@dataclass(frozen=True)
class Samples:
    """Inputs (uint8 or float32, ``[N, C, H, W]`` or ``[N, F]``) with class numbers ``[N]``."""

    inputs: Tensor
    labels: Tensor
    scale: Tensor | None = None
    shift: Tensor | None = None

    def __len__(self) -> int:
        return self.labels.numel()

    def batch(self, rows: Tensor) -> Batch:
        return Batch(self.inputs, rows, self.scale, self.shift)

    def batches(self, size: int) -> Iterator[Batch]:
        """All samples in order."""
        for rows in torch.split(torch.arange(len(self)), size):
            yield self.batch(rows)

    def take(self, rows: Tensor) -> Samples:
        picked = torch.from_numpy(large.take(self.inputs.numpy(), rows.numpy()))
        return Samples(picked, self.labels[rows], self.scale, self.shift)

    @classmethod
    def of(cls, source: Any, what: str = "samples", **scaling: Tensor | None) -> Samples:
        """Check and convert: Samples, an (inputs, labels) pair of arrays, or a map-style Dataset."""
        if isinstance(source, Samples):
            return source
        if not isinstance(source, (tuple, list)) and hasattr(source, "__getitem__"):
            source = _collect(source, what)
        if not (isinstance(source, (tuple, list)) and len(source) == 2):
            raise NispaError(f"{what}: want (inputs, labels) or a Dataset, got {type(source).__name__}")
        inputs, labels = _inputs(source[0], what), _labels(source[1], what)
        if len(inputs) != len(labels):
            raise NispaError(f"{what}: {len(inputs)} inputs but {len(labels)} labels; give one each")
        return cls(inputs, labels, **scaling)


def _collect(dataset: Any, what: str) -> tuple[Any, Any]:
    """Read a map-style torch Dataset once, item by item; afterwards no epoch touches it again."""
    if len(dataset) == 0:
        raise NispaError(f"{what}: the Dataset is empty; give at least one sample of each class")
    pairs = [dataset[i] for i in range(len(dataset))]
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise NispaError(f"{what}: the Dataset's items must be (input, label) pairs")
    try:
        inputs = np.stack([np.asarray(x) for x, _ in pairs])
    except ValueError:
        shapes = sorted({str(np.asarray(x).shape) for x, _ in pairs})[:3]
        raise NispaError(f"{what}: inputs differ in shape ({', '.join(shapes)}); resize them") from None
    return inputs, np.asarray([int(y) for _, y in pairs])


def _tensor(values: Any, what: str) -> Tensor:
    try:
        return values.detach().cpu() if isinstance(values, Tensor) else torch.as_tensor(np.array(values))
    except (TypeError, ValueError) as error:
        raise NispaError(f"{what}: not an array of numbers ({error})".replace("\n", " ")) from None


def _inputs(values: Any, what: str) -> Tensor:
    x = _tensor(values, f"{what}: inputs")
    if x.dim() == 3:  # [N, H, W]: grey images
        x = x.unsqueeze(1)
    if x.dim() not in (2, 4):
        raise NispaError(
            f"{what}: inputs have shape {list(x.shape)}; want [N, features], [N, H, W] or [N, C, H, W]"
        )
    if x.is_complex():
        raise NispaError(f"{what}: inputs are {x.dtype}; want real numbers")
    if x.dtype != torch.uint8:
        x = x.float()
        bad = (~torch.isfinite(x)).flatten(1).any(1).nonzero()
        if len(bad):
            raise NispaError(
                f"{what}: input {int(bad[0])} holds NaN or infinity"
                f" ({len(bad)} of {len(x)} do); clean or drop them"
            )
    return x.contiguous()


def _labels(values: Any, what: str) -> Tensor:
    y = _tensor(values, f"{what}: labels")
    if y.dim() != 1:
        raise NispaError(f"{what}: labels have shape {list(y.shape)}; want one class number a sample")
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise NispaError(f"{what}: labels are {y.dtype}; want integer class numbers")
    y = y.to(torch.int64)
    if len(y) and int(y.min()) < 0:
        raise NispaError(f"{what}: label {int(y.min())} is negative; class numbers start at 0")
    return y.contiguous()
