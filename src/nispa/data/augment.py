"""Augmentation of uint8 batches: random shifts, mirror images and crops. Off in the paper's recipes.

Every epoch has a generator of its own, at the address (seed, AUGMENT, task, phase, epoch), and
``training.fit`` passes that epoch's training batches through ``Task.augment`` one after the other.
Validation, test and the selection of units never see an augmented batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nispa.data.samples import Batch
from nispa.errors import NispaError


@dataclass(frozen=True)
class Augment:
    """What is drawn anew for every image of every batch.

    ``shift``: up to so many pixels in each direction, zeros move in. ``flip``: left and right change
    places with probability 1/2. ``crop``: a window with a random share of the sides, between ``crop``
    and 1, stretched to the full size (nearest pixel).

    >>> batch = Batch(torch.arange(48, dtype=torch.uint8).view(2, 1, 4, 6), torch.tensor([1]))
    >>> out = Augment(flip=True, shift=1)(batch, np.random.default_rng(0))
    >>> out.data.shape, out.data.dtype, out.rows
    (torch.Size([1, 1, 4, 6]), torch.uint8, tensor([0]))
    """

    shift: int = 0
    flip: bool = False
    crop: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.shift, bool) or not isinstance(self.shift, int) or self.shift < 0:
            raise NispaError(f"augment: shift is {self.shift!r}; want pixels, 0 or more")
        if not isinstance(self.flip, bool):
            raise NispaError(f"augment: flip is {self.flip!r}; want true or false")
        if not isinstance(self.crop, (int, float)) or not 0 < self.crop <= 1:
            raise NispaError(f"augment: crop is {self.crop!r}; want a share of the sides in (0, 1]")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """The same rows, changed; the numbers drawn depend on the generator and the batch's length only."""
        if batch.data.dim() != 4:
            raise NispaError("augment: the inputs are features, not images [N, C, H, W]; leave it off")
        count, (height, width) = len(batch), batch.data.shape[2:]
        if self.shift >= min(height, width):
            raise NispaError(f"augment: shift {self.shift} moves a {height} x {width} image out of sight")
        share = rng.uniform(self.crop, 1, count)
        y, outside_y = self._source(height, share, rng.random(count), rng)
        x, outside_x = self._source(width, share, rng.random(count), rng)
        mirrored = rng.random(count) < (0.5 if self.flip else 0)
        x[mirrored], outside_x[mirrored] = x[mirrored, ::-1], outside_x[mirrored, ::-1]

        images = batch.data[batch.rows]
        pick_y = torch.from_numpy(y)[:, None, :, None].expand(-1, images.shape[1], -1, width)
        pick_x = torch.from_numpy(x)[:, None, None, :].expand(-1, images.shape[1], height, -1)
        images = images.gather(2, pick_y).gather(3, pick_x)
        outside = torch.from_numpy(outside_y[:, :, None] | outside_x[:, None, :])[:, None]
        images.masked_fill_(outside, 0)
        return Batch(images, torch.arange(count), batch.scale, batch.shift)

    def _source(
        self, length: int, share: np.ndarray, place: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """For every image and position along one axis, the position it comes from; and which lie outside."""
        moved = rng.integers(-self.shift, self.shift + 1, len(share))
        positions = np.arange(length)[None] - moved[:, None]
        outside = (positions < 0) | (positions >= length)
        window = share[:, None] * length
        source = np.floor(place[:, None] * (length - window) + (positions + 0.5) * window / length)
        return np.clip(source.astype(np.int64), 0, length - 1), outside


def channel_scaling(images: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """(scale, shift) that give every channel mean 0 and standard deviation 1 over these images."""
    # in blocks: a float copy of a whole data set would take eight times its memory
    count = total = squares = np.zeros(images.shape[1])
    for start in range(0, len(images), 1000):
        block = np.moveaxis(images[start : start + 1000].astype(np.float64), 1, 0).reshape(
            images.shape[1], -1
        )
        count, total, squares = count + block.shape[1], total + block.sum(1), squares + (block**2).sum(1)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    deviation[deviation == 0] = 1.0
    return scaling(mean, deviation)


def scaling(mean: np.ndarray, deviation: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """(scale, shift) for (x - mean) / deviation."""
    return (
        torch.tensor(1 / deviation, dtype=torch.float32),
        torch.tensor(-mean / deviation, dtype=torch.float32),
    )
