"""Hyperparameters that need no thought: from the data's size and shape, and from the minutes there are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nispa.algorithm import NISPA
from nispa.data.augment import Augment
from nispa.data.samples import Samples
from nispa.data.task import Task
from nispa.draws import AUGMENT, BATCHES, generator
from nispa.errors import NispaError
from nispa.network import Network
from nispa.schedule import FLOOR, Schedule
from nispa.training import Optimization, augmentation, fit, task_loss

STEPS = 200
"""Gradient steps that a phase should have at least."""
LONGEST_PHASE = 30
"""Epochs; a handful of pictures does not get better with more."""
PERIOD = 30
"""k of the cosine, the paper's."""
PHASES = 0.86
"""Phases until the floor, as a share of k: arccos(2 * .05 - 1) / pi."""
TESTED_AFTER = 5
"""Phases before a_f has a say: with few validation samples early phases look worse by chance."""
FEWEST = 3
"""Phases that a budget leaves: two make a first revert possible, the third is the first to be tested."""
HASTE = 0.6
"""By which tau falls from phase to phase once time is up."""
LARGEST_REPEAT = 20
LEAST_SHARE, LARGEST_SHARE = 0.1, 0.25
PATIENCE = 5
"""Phases without a better accuracy, after which a task that takes its fair share is done."""

Settings = dict[str, int | float | str | bool]


def choose(network: Network, samples: int, validation: int) -> Settings:
    """Defaults for a task of so many training and validation samples."""
    convolutional = bool(network.shape.convolutions)
    batch = int(min(128, max(16, 2 ** round(math.log2(max(samples, 1) / 25)))))
    epochs = math.ceil(STEPS * batch / max(samples, 1))
    return {
        "lr": 0.002 if convolutional else 0.003,
        "batch_size": batch,
        "phase_epochs": min(LONGEST_PHASE, max(5, epochs)),
        "min_phases": TESTED_AFTER,
        "accuracy_loss": least_loss(validation),
        "tau_period": float(PERIOD),
    }


def least_loss(validation: int) -> float:
    """a_f in points: two validation samples' worth, at least 1.5."""
    return max(1.5, round(202 / max(validation, 1), 2))


def validation_share(samples: int) -> float:
    """A tenth as in the paper; more of a small set, where a tenth could tell nothing."""
    return 0.1 if samples >= 2000 else 0.15 if samples >= 500 else 0.2


def changes(shape: list[int], wanted: bool) -> Augment | None:
    """Small shifts and crops of pictures, mirror images of colour ones (mirrored writing is no writing)."""
    if len(shape) != 3 or not wanted or min(shape[1:]) < 8:
        return None
    return Augment(shift=max(1, min(shape[1:]) // 16), flip=shape[0] == 3, crop=0.85)


def balanced(samples: Samples) -> tuple[Samples, dict[int, int]]:
    """Rare classes repeated a whole number of times, until none is under about 2/3 of the largest.

    Then training, the choice of candidates and validation all weigh classes alike.
    """
    labels = samples.labels.numpy()
    counts = np.bincount(labels)
    repeats = {
        int(c): min(LARGEST_REPEAT, max(1, int(counts.max() / counts[c] + 0.5))) for c in np.unique(labels)
    }
    if set(repeats.values()) == {1}:
        return samples, repeats
    rows = np.repeat(np.arange(len(labels)), [repeats[int(c)] for c in labels])
    return samples.take(torch.from_numpy(rows)), repeats


def seconds_per_epoch(network: Network, task: Task, settings: Settings) -> float:
    """How long an epoch takes here: a few steps on a copy that is thrown away."""
    copy = network.fresh(0)
    how = Optimization(float(settings["lr"]), int(settings["batch_size"]))
    few = task.train.take(_first(len(task.train), 6 * how.batch_size))

    def run() -> float:
        started = time.monotonic()
        fit(
            copy,
            few,
            task_loss(task.classes, "true"),
            how,
            epochs=1,
            draws=lambda epoch: generator(0, BATCHES, 0, 1, epoch),
            augment=augmentation(task, lambda epoch: generator(0, AUGMENT, 0, 1, epoch)),
        )
        return time.monotonic() - started

    run()
    return run() * len(task.train) / len(few)


def _first(total: int, count: int) -> Tensor:
    return torch.linspace(0, total - 1, min(total, count)).long()


def fit_into(settings: Settings, minutes: float, epoch_seconds: float) -> Settings:
    """Fewer epochs a phase and a steeper tau, so that the floor is reached in about that time."""
    if not 0 < minutes < 100_000:
        raise NispaError(f"minutes is {minutes}; want a number above 0")
    epochs = 0.9 * minutes * 60 / max(epoch_seconds, 1e-6)
    usual = int(settings["phase_epochs"])
    if epochs >= usual * PERIOD * PHASES:
        return settings
    phase = max(1, min(usual, round(math.sqrt(epochs / 3))))
    period = max(FEWEST + 1, min(PERIOD, int(epochs / phase / PHASES)))
    return {**settings, "phase_epochs": phase, "tau_period": float(period)}


def fair_share(classes: int, outputs: int) -> float:
    """The share of the free units that a task may take before it is made to do with fewer.

    Twice its share of the outputs, for later tasks reuse more than they take; within bounds.
    """
    return min(max(2 * classes / outputs, LEAST_SHARE), LARGEST_SHARE)


@dataclass
class Ending:
    """The learner's schedule, cut short: at the floor NISPA keeps the phase just trained, and ends.

    When the task makes do with its fair share of the free units, tau falls no further, for that would leave
    room that nobody asked for and cost accuracy that few validation samples cannot see; the task ends when
    the best accuracy has not risen for some phases, or time is up. If time is up before that, tau falls
    fast: to end at once would leave the task with most of the network.
    """

    learner: NISPA
    schedule: Schedule
    share: float
    over: Callable[[], bool]
    told: list[float] = field(default_factory=list)
    """tau of the phases so far."""
    best: float = 0.0
    risen: int = 1
    """The last phase with a new best accuracy."""

    def state(self) -> dict[str, Any]:
        """What a resumed learning must know."""
        return {"told": self.told, "best": self.best, "risen": self.risen}

    def modest(self) -> bool:
        """The task takes no more than its share of the free units, on the average of the layers."""
        now, wiring = self.learner.progress, self.learner.wiring
        assert now is not None
        shares = []
        for g in wiring.hidden:
            free = ~wiring.stable[g]
            shares.append(float((now.protected[g] & free).sum()) / max(int(free.sum()), 1))
        return bool(np.mean(shares) <= self.share)

    def __call__(self, phase: int) -> float:
        now = self.learner.progress
        if phase <= len(self.told) or now is None:
            return self.told[phase - 1] if 1 <= phase <= len(self.told) else self.schedule(phase)
        if now.best > self.best:
            self.best, self.risen = now.best, phase
        before, tau = self.told[-1] if self.told else 1.0, self.schedule(phase)
        if phase >= FEWEST and self.modest():
            done = self.over() or phase - self.risen >= PATIENCE or tau <= FLOOR
            tau = 0.0 if done else before
        elif phase >= FEWEST and self.over():
            tau = HASTE * before
        self.told.append(tau if tau <= FLOOR else min(before, tau))
        return self.told[-1]
