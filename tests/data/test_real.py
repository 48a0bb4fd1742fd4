"""The real data sets, where NISPA_DATA names a folder that has them: `pytest -m slow tests/data`."""

import os

import pytest
import torch

from nispa.data import catalog
from nispa.data.known import DATASETS
from nispa.data.streams import build

ROOTS = os.environ.get("NISPA_DATA", "")
CACHE = os.environ.get("NISPA_CACHE")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _real_folders(_own_folders, monkeypatch):
    if not ROOTS:
        pytest.skip("NISPA_DATA is not set: the real data sets are NOT tested")
    monkeypatch.setenv("NISPA_DATA", ROOTS)
    if CACHE:  # decoding CIFAR once is enough
        monkeypatch.setenv("NISPA_CACHE", CACHE)


def loaded(name):
    if catalog.find(name) is None:
        pytest.skip(f"{name} is not in {ROOTS}: it is NOT tested")
    return catalog.load(name)


@pytest.mark.parametrize("name", DATASETS)
def test_counts_and_classes(name):
    images, wanted = loaded(name), DATASETS[name]
    for part, official in zip((images.train, images.test), wanted.counts, strict=True):
        counts = part.counts(len(wanted.classes))
        assert counts.min() > 0
        assert 0.8 * official < counts.sum() <= official
        if name not in ("mnist", "emnist"):
            assert (counts == official // len(wanted.classes)).all()


# Mean of all training pixels as published for these sets (of 0-255)
@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("mnist", [33.318]),
        ("fashion-mnist", [72.940]),
        ("cifar10", [125.307, 122.950, 113.865]),
        ("cifar100", [129.304, 124.070, 112.434]),
    ],
)
def test_pixels_are_the_published_ones(name, means):
    images = loaded(name).train.images
    assert images.mean((0, 2, 3)).tolist() == pytest.approx(means, abs=2e-3)


def test_emnist_letters_stand_upright():
    """An upright L is heavy at the bottom, a T at the top; transposed neither would be."""
    images = loaded("emnist").train
    mean = images.images[images.labels == 21, 0].mean(0)
    assert mean[14:].sum() > 1.1 * mean[:14].sum()
    letter_t = images.images[images.labels == 29, 0].mean(0)
    assert letter_t[4:9].sum() > 1.2 * letter_t[19:24].sum()


@pytest.mark.parametrize(
    ("name", "tasks", "train"),
    [("ef-mnist", 5, None), ("mnist", 5, 60000), ("cifar10", 5, 50000), ("cifar100", 20, 50000)],
)
def test_streams(name, tasks, train):
    for needed in ("emnist", "fashion-mnist") if name == "ef-mnist" else (name,):
        loaded(needed)
    stream = build(name)
    assert len(stream) == tasks
    if train:
        assert sum(len(t.train) + len(t.validation) for t in stream) == train
    for task in stream:
        assert set(torch.unique(task.test.labels).tolist()) == set(task.classes)
