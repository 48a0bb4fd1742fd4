from collections import Counter

import numpy as np
import pytest
import torch
from data_formats import mnist_like, samples

from nispa.data import streams
from nispa.data.augment import Augment
from nispa.data.known import CIFAR100
from nispa.data.splitting import even_groups
from nispa.data.streams import STREAMS, build, pixel_permutation
from nispa.errors import NispaError


@pytest.fixture
def root(tmp_path):
    """A data root with small copies of every data set."""
    data = tmp_path / "data"
    mnist_like(data / "mnist", 200)
    mnist_like(data / "fashion-mnist", 200)
    mnist_like(data / "emnist", 470, classes=47, prefix="emnist-balanced-")
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        (data / name).mkdir()
        x, y = samples(10 * classes, classes, (3, 32, 32))
        np.savez(data / name / f"{name}.npz", x_train=x, y_train=y, x_test=x[:classes], y_test=y[:classes])
    return data


def classes(stream):
    return [task.classes for task in stream]


def test_ef_mnist(root):
    stream = build("ef-mnist", data=root)
    assert [len(task.classes) for task in stream] == [10, 13, 13, 11, 10]
    assert [c for task in stream for c in task.classes] == list(range(57))
    assert "".join(stream[1].class_names + stream[2].class_names) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert "".join(stream[3].class_names) == "abdefghnqrt"
    assert stream[4].class_names[0] == "T-shirt/top"
    assert stream.input_shape == (1, 28, 28)
    assert sum(len(t.train) + len(t.validation) for t in stream) == 670
    assert all(t.test is not None and len(t.test) for t in stream)


def labelled(part):
    """The label of every image, by its bytes."""
    return {image.tobytes(): int(label) for image, label in zip(part.images, part.labels, strict=True)}


def test_every_image_of_ef_mnist_keeps_its_label(root):
    stream = build("ef-mnist", data=root)
    for source, first, tasks in (("emnist", 0, stream.tasks[:4]), ("fashion-mnist", 47, stream.tasks[4:])):
        whole = streams.catalog.load(source, root)
        train, test = labelled(whole.train), labelled(whole.test)
        for task in tasks:
            for part, known in ((task.train, train), (task.validation, train), (task.test, test)):
                for image, label in zip(part.inputs.numpy(), part.labels.tolist(), strict=True):
                    assert known[image.tobytes()] == label - first


def test_split_streams(root):
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert classes(build("mnist", data=root)) == pairs
    assert classes(build("cifar10", data=root)) == pairs
    assert classes(build("digits")) == pairs
    cifar100 = build("cifar100", data=root)
    assert classes(cifar100) == [tuple(range(5 * t, 5 * t + 5)) for t in range(20)]
    assert [n for t in cifar100 for n in t.class_names] == list(CIFAR100)


def test_every_stream_builds_and_is_the_same_for_the_same_seed(root):
    for name in STREAMS:
        one, two, other = (build(name, data=root, seed=seed) for seed in (5, 5, 6))
        for a, b, c in zip(one, two, other, strict=True):
            assert torch.equal(a.train.inputs, b.train.inputs)
            assert torch.equal(a.validation.labels, b.validation.labels)
            if a.name != "unpermuted" and not a.name.startswith("permutation"):
                assert torch.equal(a.test.inputs, c.test.inputs)
            assert a.train.inputs.dtype == torch.uint8
            assert a.train.inputs.is_contiguous()
            assert set(torch.unique(a.train.labels).tolist()) == set(a.classes)
        assert not all(
            torch.equal(a.validation.inputs, c.validation.inputs) for a, c in zip(one, other, strict=True)
        )


def test_permuted_mnist(root):
    stream = build("permuted-mnist", data=root, tasks=3, fraction=0.5)
    assert classes(stream) == [tuple(range(10 * t, 10 * t + 10)) for t in range(3)]
    first, second = (stream[t].test.inputs.flatten(1) for t in (0, 1))
    moved = torch.from_numpy(pixel_permutation(784, 0.5, 0, 1))
    assert torch.equal(second, first[:, moved])
    assert torch.equal(stream[1].test.labels, stream[0].test.labels + 10)
    assert stream[0].test.labels.tolist() == streams.catalog.load("mnist", root).test.labels.tolist()


def test_the_first_task_is_mnist_itself(root):
    plain = build("permuted-mnist", data=root, tasks=1)[0].test.inputs
    raw = streams.catalog.load("mnist", root).test.images
    assert np.array_equal(plain.numpy(), raw)


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.25, 1.0])
def test_the_asked_share_of_pixels_is_chosen_without_replacement(fraction):
    count = round(fraction * 784)
    moved = []
    for seed in range(200):
        source = pixel_permutation(784, fraction, seed, 2)
        assert sorted(source.tolist()) == list(range(784))
        moved.append(int((source != np.arange(784)).sum()))
    assert max(moved) == count
    # a uniformly random order leaves one position in place on average (standard deviation one)
    assert np.mean(moved) == pytest.approx(max(count - 1, 0), abs=0.3)


def test_every_order_of_the_chosen_pixels_is_as_likely():
    found = Counter(tuple(pixel_permutation(3, 1.0, seed, 1).tolist()) for seed in range(1200))
    assert len(found) == 6
    assert all(140 < count < 260 for count in found.values())  # 200 expected, sigma 13


def test_permutations_differ_between_tasks_and_seeds():
    one = pixel_permutation(784, 1.0, 0, 1)
    assert not np.array_equal(one, pixel_permutation(784, 1.0, 0, 2))
    assert not np.array_equal(one, pixel_permutation(784, 1.0, 1, 1))


def test_subset_is_a_stratified_share_of_the_training_data(root):
    whole, half = build("mnist", data=root), build("mnist", data=root, subset=0.5)
    for a, b in zip(whole, half, strict=True):
        assert len(b.train) + len(b.validation) == (len(a.train) + len(a.validation)) / 2
        assert torch.equal(a.test.inputs, b.test.inputs)
    assert sum(len(t.train) + len(t.validation) for t in build("mnist", data=root, subset=1e-9)) == 20


def test_normalise(root):
    stream = build("cifar10", data=root, normalise=True)
    x = torch.cat([p.batch(torch.arange(len(p))).tensor() for t in stream for p in (t.train, t.validation)])
    assert torch.allclose(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(x.std((0, 2, 3)), torch.ones(3), atol=1e-3)
    given = build("cifar10", data=root, normalise=[[0.5, 0.5, 0.5], [0.25, 0.25, 0.25]])[0].test
    x = given.batch(torch.arange(2)).tensor()
    assert torch.allclose(x, (given.inputs[:2] / 255 - 0.5) / 0.25, atol=1e-5)
    plain = build("cifar10", data=root)[0].test
    assert torch.equal(plain.batch(torch.arange(2)).tensor(), plain.inputs[:2] * np.float32(1 / 255))


def test_augment_comes_with_the_task(root):
    assert build("digits")[0].augment is None
    assert build("digits", augment={"shift": 0})[0].augment is None
    assert build("digits", augment={"shift": 1, "flip": True})[0].augment == Augment(1, True)
    assert build("digits", augment=Augment(crop=0.9))[4].augment == Augment(crop=0.9)


def test_validation_fraction():
    assert len(build("digits", validation_fraction=0.5)[0].validation) == 144


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cifra10", {}, "unknown stream 'cifra10'; did you mean 'cifar10'"),
        ("no/such/folder", {}, "no such folder"),
        ("none.npz", {"tasks": 2}, "none.npz"),
        ("digits", {"subst": 0.5}, "unknown option 'subst'; did you mean 'subset'"),
        ("digits", {"tasks": 3}, "unknown option 'tasks'"),
        ("digits", {"subset": 0}, "subset is 0"),
        ("digits", {"subset": "all"}, "subset is 'all'"),
        ("digits", {"normalise": [[0.5], [0]]}, "positive deviations"),
        ("digits", {"normalise": [[0.5, 0.5], [1, 1]]}, "a pair of 1 means"),
        ("digits", {"augment": {"shfit": 1}}, "did you mean 'shift'"),
        ("digits", {"augment": 3}, "augment is 3"),
        ("digits", {"validation_fraction": 1}, "validation_fraction is 1"),
        ("permuted-mnist", {"tasks": 0}, "tasks is 0"),
        ("permuted-mnist", {"fraction": 2}, "fraction is 2"),
        ("mnist", {}, "`nispa data get mnist`"),
    ],
)
def test_messages(name, options, message):
    with pytest.raises(NispaError, match=message) as caught:
        build(name, **options)
    assert "\n" not in str(caught.value)


def test_no_test_images_for_ef_mnist(root):
    for path in (root / "fashion-mnist").iterdir():
        path.unlink()
    x, y = samples(20, 10, (28, 28))
    np.savez(root / "fashion-mnist" / "fashion-mnist.npz", x_train=x, y_train=y)
    with pytest.raises(NispaError, match="needs the test images"):
        build("ef-mnist", data=root)


def test_even_groups():
    assert even_groups(7, 3) == [(0, 1, 2), (3, 4), (5, 6)]
    with pytest.raises(NispaError, match="give 1 to 3"):
        even_groups(7, 4)
