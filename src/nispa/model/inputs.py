"""From what people have (files, pictures of any size, arrays, features) to what the network reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from nispa.data.readers.images import decode, pixels
from nispa.data.samples import Samples
from nispa.errors import NispaError
from nispa.model.file import Inputs

PIXEL_SCALE, PIXEL_SHIFT = 4 / 255, -2.0
"""Pixels 0 to 255 become -2 to 2, about unit variance for photos. Fixed, because weights that are frozen
keep the scale that they were trained with, whatever pictures come later."""


def pictures(shape: Sequence[int]) -> Inputs:
    """The inputs of a network that looks at pictures ``[channels, height, width]``."""
    channels = shape[0]
    if channels not in (1, 3):
        raise NispaError(f"input {'x'.join(map(str, shape))}: pictures have 1 or 3 channels, not {channels}")
    return Inputs(
        kind="pictures",
        shape=list(shape),
        scale=[PIXEL_SCALE] * channels,
        shift=[PIXEL_SHIFT] * channels,
    )


def features(count: int) -> Inputs:
    """The inputs of a network that reads feature vectors; `standardised` sets the scale."""
    return Inputs(kind="features", shape=[count], scale=[1.0] * count, shift=[0.0] * count)


def standardised(inputs: Inputs, table: Tensor) -> Inputs:
    """Scale and shift that give the first task's features mean 0 and deviation 1."""
    values = table.double().numpy()
    mean, deviation = values.mean(0), values.std(0)
    deviation[deviation < 1e-12 * np.maximum(1, np.abs(mean))] = 1.0
    return inputs.model_copy(
        update={"scale": (1 / deviation).tolist(), "shift": (-mean / deviation).tolist()}
    )


def samples(inputs: Inputs, values: Tensor, labels: Tensor) -> Samples:
    """Samples that carry the file's scaling."""
    return Samples(values, labels, _float(inputs.scale), _float(inputs.shift))


def _float(numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32)


def convert(inputs: Inputs, given: Any, what: str = "input") -> Tensor:
    """What the network reads, ``[N, …]``, from one thing or a list of things.

    Pictures: paths, Pillow images, uint8 or 0-to-1 arrays ``[H, W]``, ``[H, W, C]``, ``[C, H, W]`` or
    with a leading N. Features: arrays ``[F]`` or ``[N, F]``.
    """
    if inputs.kind == "features":
        return _table(inputs, given, what)
    things = _things(given)
    if not things:
        raise NispaError(f"{what}: nothing in it; give at least one picture")
    return torch.from_numpy(np.stack([_picture(inputs, x, f"{what} {i}") for i, x in enumerate(things)]))


def _table(inputs: Inputs, given: Any, what: str) -> Tensor:
    try:
        if isinstance(given, (list, tuple)) and given and isinstance(given[0], Tensor):
            given = torch.stack(list(given))
        values = given if isinstance(given, Tensor) else torch.from_numpy(np.asarray(given, np.float32))
        values = values.detach().cpu().to(torch.float32)
    except (TypeError, ValueError, OverflowError):
        raise NispaError(
            f"{what}: no numbers; this model reads {inputs.shape[0]} features a sample"
        ) from None
    values = values[None] if values.dim() == 1 else values.flatten(1)
    if values.dim() != 2 or values.shape[1] != inputs.shape[0]:
        raise NispaError(
            f"{what}: {list(values.shape)}, but this model reads {inputs.shape[0]} features a sample"
        )
    bad = (~torch.isfinite(values)).any(1).nonzero()
    if len(bad):
        raise NispaError(f"{what}: sample {int(bad[0])} holds NaN or infinity; clean or drop it")
    return values.contiguous()


def _things(given: Any) -> list[Any]:
    if isinstance(given, (str, Path, Image.Image, bytes)):
        return [given]
    if isinstance(given, (np.ndarray, Tensor)):
        return list(given) if given.ndim == 4 else [given]
    return list(given)


def _picture(inputs: Inputs, thing: Any, what: str) -> np.ndarray:
    channels, height, width = inputs.shape
    if isinstance(thing, bytes):
        return decode(thing, what, (height, width), channels)
    if isinstance(thing, (str, Path)):
        path = Path(thing).expanduser()
        if not path.is_file():
            raise NispaError(f"{path}: {'not a file' if path.exists() else 'no such file'}; give a picture")
        return decode(path, str(path), (height, width), channels)
    image = thing if isinstance(thing, Image.Image) else _image(thing, what)
    try:
        return pixels(image, (height, width), channels)
    except (OSError, ValueError) as error:
        raise NispaError(f"{what}: not a readable picture ({error})") from None


def _image(thing: Any, what: str) -> Image.Image:
    """An array as a Pillow image."""
    try:
        array = thing.detach().cpu().numpy() if isinstance(thing, Tensor) else np.asarray(thing)
    except (TypeError, ValueError):
        raise NispaError(f"{what}: {type(thing).__name__} is no picture; give a path or an array") from None
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3)) or not array.size:
        raise NispaError(f"{what}: shape {array.shape}; want [H, W], [H, W, C] or [C, H, W]")
    if array.dtype != np.uint8:
        array = np.asarray(array, np.float64) if array.dtype.kind in "uifb" else np.zeros(0)
        if not array.size or not np.isfinite(array).all():
            raise NispaError(f"{what}: holds NaN, infinity or no numbers; want pixels")
        low, high = float(array.min()), float(array.max())
        if low < 0 or high > 255:
            raise NispaError(f"{what}: pixels from {low:g} to {high:g}; want 0 to 255, or 0 to 1")
        array = np.rint(array * 255 if high <= 1 else array).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(array))
