import numpy as np
import pytest
import torch

from nispa.data.augment import Augment, channel_scaling
from nispa.data.samples import Batch, Samples
from nispa.errors import NispaError

IMAGES = torch.randint(0, 256, (50, 3, 9, 7), dtype=torch.uint8)
BATCH = Batch(IMAGES, torch.arange(0, 50, 2), torch.ones(3) / 255, torch.zeros(3))


def run(seed=0, **options):
    return Augment(**options)(BATCH, np.random.default_rng(seed))


def test_nothing_asked_nothing_changed():
    out = run()
    assert torch.equal(out.data, IMAGES[::2])
    assert torch.equal(out.tensor(), BATCH.tensor())
    assert out.scale is BATCH.scale


def test_flip_mirrors_about_half_of_the_images_whole():
    out, before = run(flip=True).data, IMAGES[::2]
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(out, before, strict=True)]
    kept = [torch.equal(a, b) for a, b in zip(out, before, strict=True)]
    assert all(m != k for m, k in zip(mirrored, kept, strict=True))
    assert 5 < sum(mirrored) < 20


def test_shift_moves_zeros_in():
    out = run(shift=2).data
    found = set()
    for image, before in zip(out, IMAGES[::2], strict=True):
        padded = torch.nn.functional.pad(before, (2, 2, 2, 2))
        moves = [
            (y, x) for y in range(5) for x in range(5) if torch.equal(image, padded[:, y : y + 9, x : x + 7])
        ]
        assert len(moves) == 1
        found.update(moves)
    assert len(found) > 8


def test_crop_takes_pixels_from_inside_a_window():
    ramp = torch.arange(16, dtype=torch.uint8).view(1, 1, 1, 16).expand(64, 1, 16, 16).contiguous()
    out = Augment(crop=0.5)(Batch(ramp, torch.arange(64)), np.random.default_rng(0)).data[:, 0, 0].int()
    assert (out.diff(dim=1) >= 0).all()
    width = out[:, -1] - out[:, 0]
    assert width.min() >= 7
    assert width.min() < 10
    assert width.max() <= 15


def test_same_generator_same_batch_and_the_source_is_untouched():
    before = IMAGES.clone()
    one, two, other = (run(seed, shift=1, flip=True, crop=0.7).data for seed in (3, 3, 4))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(IMAGES, before)


@pytest.mark.parametrize(
    "options", [{"shift": -1}, {"shift": 1.5}, {"crop": 0}, {"crop": 1.1}, {"shift": True}]
)
def test_wrong_options(options):
    with pytest.raises(NispaError, match="augment: "):
        Augment(**options)


def test_features_and_far_shifts_are_refused():
    with pytest.raises(NispaError, match="not images"):
        Augment(flip=True)(Batch(torch.zeros(4, 5), torch.arange(4)), np.random.default_rng(0))
    with pytest.raises(NispaError, match="out of sight"):
        run(shift=7)


def test_channel_scaling_gives_mean_zero_and_deviation_one():
    images = np.random.default_rng(0).integers(0, 256, (2500, 3, 4, 4), dtype=np.uint8)
    images[:, 2] = 7
    scale, shift = channel_scaling(images)
    x = Samples(torch.from_numpy(images), torch.zeros(2500), scale, shift).batch(torch.arange(2500)).tensor()
    assert torch.allclose(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(x.std((0, 2, 3), correction=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-4)
