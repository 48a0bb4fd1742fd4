"""Small tasks and models for the tests of model files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nispa
from nispa.model import Model

FEATURES = 12
QUICK = 0.012
"""Minutes: a few epochs a phase."""


def blobs(task: int, classes: int = 2, each: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes around points of their own; far apart, so that a small network learns them."""
    rng = np.random.default_rng([seed, task])
    centres = np.random.default_rng(task).standard_normal((classes, FEATURES)) * 3
    labels = np.repeat(np.arange(classes), each)
    return (centres[labels] + rng.standard_normal((len(labels), FEATURES))).astype(np.float32), labels


def small(path: Path, classes: int = 8, units: int = 24) -> Model:
    network = nispa.mlp(FEATURES, [units, units], classes=classes, density=0.4, engine="reference")
    return nispa.new(path, like=network)


def taught(path: Path, tasks: int = 2, **options: int) -> Model:
    model = small(path, **options)
    for task in range(tasks):
        model.learn(blobs(task), name=f"task{task}", minutes=QUICK)
    return model
