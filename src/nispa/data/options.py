"""The options that every stream understands, and how they change a data set before it is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from torch import Tensor

from nispa.data.augment import Augment, channel_scaling, scaling
from nispa.data.readers import Part
from nispa.draws import SPLIT, generator
from nispa.errors import NispaError, nearest

Normalise = bool | tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Options:
    """``subset``: a stratified share of the training data, for quick runs. ``normalise``: True subtracts
    each channel's mean over the stream's training images and divides by its standard deviation, a pair
    (means, deviations) in units of 0-1 does it with these. ``augment``: see `nispa.data.augment`.
    """

    subset: float = 1.0
    normalise: Any = False
    augment: Augment | Mapping[str, Any] | None = None
    validation_fraction: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.subset, (int, float)) or not 0 < self.subset <= 1:
            raise NispaError(f"subset is {self.subset!r}; want a share of the training data in (0, 1]")
        check_share(self.validation_fraction, "validation_fraction", least=True)
        object.__setattr__(self, "augment", _augment(self.augment))

    def shrink(self, part: Part, seed: int) -> Part:
        """The chosen share of every class, two samples at least, in the order of the file."""
        if self.subset == 1:
            return part
        # epoch 1: an address of its own, apart from the validation split's
        return part.take(stratified(part.labels, self.subset, generator(seed, SPLIT, epoch=1), least=2))

    def for_task(self, train: Part) -> dict[str, Any]:
        """Keyword arguments of `Task.from_arrays`."""
        scale, shift = self._scaling(train)
        return {
            "scale": scale,
            "shift": shift,
            "augment": self.augment,
            "validation_fraction": self.validation_fraction,
        }

    def _scaling(self, train: Part) -> tuple[Tensor | None, Tensor | None]:
        if self.normalise is False:
            return None, None
        if self.normalise is True:
            return channel_scaling(train.images)
        channels = train.images.shape[1]
        try:
            mean, deviation = (np.asarray(v, np.float64).reshape(channels) for v in self.normalise)
        except (TypeError, ValueError):
            raise NispaError(
                f"normalise is {self.normalise!r}; want true, or a pair of {channels} means and"
                f" {channels} deviations"
            ) from None
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all() and (deviation > 0).all()):
            raise NispaError(f"normalise is {self.normalise!r}; want finite means and positive deviations")
        unit = 255.0 if train.images.dtype == np.uint8 else 1.0
        return scaling(mean * unit, deviation * unit)


COMMON = tuple(field.name for field in fields(Options))


def check_share(value: Any, name: str, least: bool = False) -> None:
    """A share below 1; 0 means none, where that is possible."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0 <= value < 1):
        raise NispaError(f"{name} is {value!r}; want a number between 0 and 1")
    if least and value == 0:
        raise NispaError(f"{name} is {value!r}; want more than 0: learning is steered by validation")


def _augment(value: Augment | Mapping[str, Any] | None) -> Augment | None:
    if value is None or isinstance(value, Augment):
        return value if value != Augment() else None
    if not isinstance(value, Mapping):
        raise NispaError(f"augment is {value!r}; want shift, flip and crop")
    check_names(value, [field.name for field in fields(Augment)], "augment")
    return _augment(Augment(**value))


def check_names(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise NispaError(
                f"{what}: unknown option {name!r}{nearest(name, known)}; known: {', '.join(known)}"
            )


def stratified(labels: np.ndarray, share: float, rng: np.random.Generator, least: int) -> np.ndarray:
    """Sorted rows: this share of every class, drawn at random, ``least`` of each if there are so many."""
    chosen = [np.zeros(0, np.int64)]
    for c in np.unique(labels):
        members = np.flatnonzero(labels == c)
        chosen.append(rng.permutation(members)[: max(least, round(share * len(members)))])
    return np.sort(np.concatenate(chosen))
