"""What the report draws of a run: its course in phases, its units, and a fair sample of its connections.

A picture of half a million lines shows nothing, so of every layer about ``DRAWN`` connections are drawn.
Each pair of units gets a random number u of its own, once; the pair is drawn whenever u < connections *
share. So at every moment each live connection is as likely to be drawn as any other of its layer, one that
stays stays drawn, and the numbers beside the picture count all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nispa.experiment.events import read_events
from nispa.experiment.wiring_log import Frame, read_wiring
from nispa.wiring import Bits

DRAWN = 500
Plain = dict[str, Any]


def course(folder: Path) -> list[Plain]:
    """Per task: its name, validation accuracy after every epoch of every phase, tau of every rewiring."""
    tasks: list[Plain] = []
    for event in read_events(folder):
        kind = event["event"]
        if kind == "begin":
            tasks.append({"name": event["name"], "phases": [], "tau": []})
        elif kind == "epoch" and tasks:
            phases = tasks[-1]["phases"]
            if event["phase"] > len(phases):
                phases.append([])
            phases[-1].append(round(100 * event["validation_accuracy"], 3))
        elif kind == "phase" and tasks:
            tasks[-1]["tau"].append(round(event["tau"], 4))
    return tasks


def picture(folder: Path) -> Plain | None:
    """The units, the drawn connections and the exact counts of every frame; nothing without a wiring log."""
    drawn: list[_Layer] = []
    frames: list[Plain] = []
    last: Frame | None = None
    for frame in read_wiring(folder):
        if not drawn:
            drawn = [_Layer(*layer) for layer in zip(frame.counts, frame.strides, frame.live, strict=True)]
        stable = [became >= 0 for became in frame.became]
        frames.append(
            {
                "kind": frame.kind,
                "task": frame.task,
                "phase": frame.phase,
                "protected": [np.flatnonzero(bits).tolist() for bits in frame.protected[1:]],
                "layers": [
                    layer.take(frame, i, stable[i + 1], frame.protected[i + 1])
                    for i, layer in enumerate(drawn)
                ],
            }
        )
        last = frame
    if last is None:
        return None
    for earlier, later in reversed(list(pairwise(frames))):
        later["protected"] = [
            sorted(set(a) ^ set(b)) for a, b in zip(earlier["protected"], later["protected"], strict=True)
        ]
    return {
        "units": [len(bits) for bits in last.protected],
        "became": [became.tolist() for became in last.became],
        "pairs": [layer.pairs() for layer in drawn],
        "share": [layer.share for layer in drawn],
        "strides": last.strides,
        "frames": frames,
    }


class _Layer:
    """The drawn sample of one layer, followed from frame to frame."""

    def __init__(self, counts: NDArray[Any], stride: int, live: int) -> None:
        self.stride = stride
        sampled = max(int(counts.sum(dtype=np.int64)), 1)
        self.share = min(1.0, DRAWN / sampled)
        self.chance = np.random.default_rng(0).random(counts.shape, dtype=np.float32)
        self.shown: Bits = np.zeros(counts.shape, dtype=bool)
        self.before = np.zeros_like(counts)
        self.numbers: dict[int, int] = {}
        """Pair of units -> its number on the page, in the order of first appearance."""

    def take(self, frame: Frame, i: int, stable: Bits, protected: Bits) -> Plain:
        """What changed in the drawing, and how many connections of each kind there are."""
        counts = frame.counts[i]
        shown = self.chance < counts * np.float32(self.share)
        flips = np.flatnonzero(shown ^ self.shown)
        for pair in flips.tolist():
            self.numbers.setdefault(pair, len(self.numbers))
        into = counts.sum(axis=1, dtype=np.int64) * self.stride
        grown = np.where(counts > self.before, counts - self.before, 0).sum(axis=1, dtype=np.int64)
        plastic = ~(stable | protected)
        found = {
            "flips": [self.numbers[pair] for pair in flips.tolist()],
            "live": frame.live[i],
            "frozen": int(into[stable].sum()),
            "candidate": int(into[protected & ~stable].sum()),
            "plastic": int(into[plastic].sum()),
            "grown": int(grown[plastic].sum()) * self.stride if frame.kind == "phase" else 0,
        }
        self.shown, self.before = shown, counts
        return found

    def pairs(self) -> list[list[int]]:
        """[targets, sources] of every pair that is drawn at some moment."""
        targets, sources = np.divmod(np.fromiter(self.numbers, dtype=np.int64), self.shown.shape[1])
        return [targets.tolist(), (sources * self.stride).tolist()]


def group_names(units: Sequence[int], convolutions: int) -> list[str]:
    """What a reader calls the groups of a network.

    >>> group_names([3, 64, 1024, 10], 1)
    ['input', 'convolution 1', 'hidden 1', 'output']
    """
    hidden = [f"convolution {g}" for g in range(1, convolutions + 1)]
    hidden += [f"hidden {g}" for g in range(1, len(units) - 1 - convolutions)]
    return ["input", *hidden, "output"]
