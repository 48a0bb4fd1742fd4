import os

import numpy as np
import pytest
from data_formats import (
    cifar10_files,
    cifar100_files,
    mnist_like,
    samples,
    tar_bytes,
    write_files,
    write_parquet,
)

from nispa.data import catalog
from nispa.data.folders import cache_folder
from nispa.data.known import CIFAR100, DATASETS, EMNIST
from nispa.errors import NispaError


def found(name, root):
    place = catalog.find(name, root)
    return None if place is None else (str(place.path.relative_to(root)), place.layout)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "MNIST", "mnist/raw"])
def test_mnist_folders(tmp_path, folder, compress):
    train, test = mnist_like(tmp_path / folder, compress=compress)
    images = catalog.load("mnist", tmp_path)
    assert np.array_equal(images.train.images[:, 0], train[0])
    assert np.array_equal(images.test.labels, test[1])
    assert images.class_names == tuple("0123456789")
    assert catalog.find("fashion-mnist", tmp_path) is None


@pytest.mark.parametrize("folder", ["fashion-mnist", "FashionMNIST/raw", "fashion_mnist"])
def test_fashion_folders(tmp_path, folder):
    mnist_like(tmp_path / folder)
    assert catalog.find("fashion-mnist", tmp_path) is not None
    assert catalog.find("mnist", tmp_path) is None


@pytest.mark.parametrize("folder", ["emnist", "EMNIST/raw", "gzip", "."])
def test_emnist_is_turned_upright(tmp_path, folder):
    train, _ = mnist_like(tmp_path / folder, count=94, classes=47, prefix="emnist-balanced-")
    images = catalog.load("emnist", tmp_path)
    assert np.array_equal(images.train.images[:, 0], train[0].swapaxes(1, 2))
    assert images.class_names == EMNIST
    assert len(EMNIST) == 47


def test_the_root_may_be_the_data_sets_own_folder(tmp_path):
    mnist_like(tmp_path / "MNIST" / "raw")
    assert catalog.find("mnist", tmp_path / "MNIST").path == tmp_path / "MNIST" / "raw"
    assert catalog.find("mnist", tmp_path / "MNIST" / "raw") is not None
    assert catalog.find("fashion-mnist", tmp_path / "MNIST") is None


@pytest.mark.parametrize("folder", ["cifar-10-batches-{}", "cifar10", "CIFAR10/cifar-10-batches-{}"])
@pytest.mark.parametrize("binary", [False, True])
def test_cifar10_batches(tmp_path, folder, binary):
    files, (x, y) = cifar10_files(binary=binary)
    write_files(tmp_path / folder.format("bin" if binary else "py"), files)
    images = catalog.load("cifar10", tmp_path)
    assert np.array_equal(images.train.images, x)
    assert np.array_equal(images.train.labels, y)
    assert len(images.test) == 20
    assert catalog.find("cifar100", tmp_path) is None


@pytest.mark.parametrize("binary", [False, True])
def test_cifar100_batches(tmp_path, binary):
    write_files(tmp_path / f"cifar-100-{'binary' if binary else 'python'}", cifar100_files(binary))
    images = catalog.load("cifar100", tmp_path)
    assert images.train.labels.max() == 99
    assert images.class_names == CIFAR100
    assert catalog.find("cifar10", tmp_path) is None


@pytest.mark.parametrize("binary", [False, True])
def test_archives_are_read_without_unpacking(tmp_path, binary):
    files, (x, _) = cifar10_files(binary=binary)
    name = f"cifar-10-{'binary' if binary else 'python'}.tar.gz"
    archive = tar_bytes({f"cifar-10-batches/{file}": data for file, data in files.items()})
    (tmp_path / name).write_bytes(archive)
    for _ in range(2):  # read, then from the cache
        assert np.array_equal(catalog.load("cifar10", tmp_path).train.images, x)
    assert [p.name for p in tmp_path.iterdir() if p != cache_folder()] == [name]


@pytest.mark.parametrize(
    "folder",
    ["cifar10", "cifar10/data", "cifar10/plain_text", "datasets--uoft-cs--cifar10/snapshots/0a1b/plain_text"],
)
def test_parquet_snapshots(tmp_path, folder):
    x, y = samples(20, 10, (3, 32, 32))
    write_parquet(tmp_path / folder / "train-00000-of-00001.parquet", x, y)
    write_parquet(tmp_path / folder / "test-00000-of-00001.parquet", x[:10], y[:10])
    images = catalog.load("cifar10", tmp_path)
    assert np.array_equal(images.train.images, x)
    assert isinstance(images.train.images, np.memmap)


def test_npz_by_name(tmp_path):
    x, y = samples(20, 10, (28, 28))
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert np.array_equal(catalog.load("mnist", tmp_path).train.images[:, 0], x)
    np.savez(tmp_path / "cifar10.npz", x_train=x, y_train=y)
    with pytest.raises(NispaError, match=r"cifar10.npz: train images of shape \(1, 28, 28\), but CIFAR-10"):
        catalog.load("cifar10", tmp_path)


def test_an_incomplete_copy_is_passed_over(tmp_path):
    mnist_like(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert catalog.find("mnist", tmp_path) is None
    mnist_like(tmp_path / "MNIST" / "raw")
    assert found("mnist", tmp_path) == (os.path.join("MNIST", "raw"), "idx.gz")


def test_a_missing_batch_is_named(tmp_path):
    files, _ = cifar10_files()
    del files["data_batch_3"]
    write_files(tmp_path / "cifar10", files)
    with pytest.raises(NispaError, match="data_batch_3: cannot be read"):
        catalog.load("cifar10", tmp_path)


def test_roots(tmp_path, monkeypatch):
    assert catalog.roots() == [cache_folder() / "data"]
    monkeypatch.setenv("NISPA_DATA", os.pathsep.join([str(tmp_path / "a"), "", str(tmp_path / "b")]))
    assert catalog.roots() == [tmp_path / "a", tmp_path / "b", cache_folder() / "data"]
    assert catalog.roots(tmp_path) == [tmp_path]
    mnist_like(tmp_path / "b" / "mnist")
    assert catalog.find("mnist").path == tmp_path / "b" / "mnist"
    mnist_like(cache_folder() / "data" / "fashion-mnist")
    assert catalog.find("fashion-mnist") is not None


def test_user_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("NISPA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "nispa"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "nispa"


def test_messages(tmp_path):
    with pytest.raises(NispaError, match=r"unknown data set 'mnits'; did you mean 'mnist'"):
        catalog.load("mnits")
    with pytest.raises(NispaError, match="does not exist"):
        catalog.load("mnist", tmp_path / "nowhere")
    with pytest.raises(NispaError) as caught:
        catalog.load("mnist", tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "`nispa data get mnist`" in str(caught.value)


def test_labels_beyond_the_classes(tmp_path):
    x, y = samples(22, 11, (28, 28))
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y)
    with pytest.raises(NispaError, match="train label 10"):
        catalog.load("mnist", tmp_path)


def test_what_is_known_agrees():
    for dataset in DATASETS.values():
        assert len(set(dataset.classes)) == len(dataset.classes)
        assert all(count % len(dataset.classes) == 0 for count in dataset.counts)
