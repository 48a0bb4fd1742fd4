"""What is known of the data sets that have a name: classes in the order of their numbers, sizes, folders."""

from __future__ import annotations

import string
from dataclasses import dataclass

DIGITS = tuple(string.digits)
# The 11 lower-case letters that look unlike their upper case; the others are merged with it.
EMNIST = (*string.digits, *string.ascii_uppercase, *"abdefghnqrt")
FASHION = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
_CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100 = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
    can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
    lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
    pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
    seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table
    tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman
    worm"""
CIFAR10 = tuple(_CIFAR10.split())
CIFAR100 = tuple(_CIFAR100.split())


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set before it is read."""

    name: str
    title: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    counts: tuple[int, int]
    folders: tuple[str, ...]
    prefix: str = ""


def _hub(*owners: str) -> tuple[str, ...]:
    """Where Hugging Face's tools put a snapshot: their cache, and a plain copy of the repository."""
    cache = tuple(
        f"{base}datasets--{o.replace('/', '--')}/snapshots/*" for o in owners for base in ("", "hub/")
    )
    return cache + owners


_ALL = (
    DataSet(
        "mnist",
        "MNIST",
        DIGITS,
        (1, 28, 28),
        (60000, 10000),
        ("mnist", "mnist/raw", "MNIST/raw", "MNIST", *_hub("ylecun/mnist", "mnist")),
    ),
    DataSet(
        "emnist",
        "EMNIST balanced",
        EMNIST,
        (1, 28, 28),
        (112800, 18800),
        ("emnist", "emnist/raw", "EMNIST/raw", "EMNIST", "emnist/gzip", "EMNIST/gzip", "gzip"),
        prefix="emnist-balanced-",
    ),
    DataSet(
        "fashion-mnist",
        "Fashion-MNIST",
        FASHION,
        (1, 28, 28),
        (60000, 10000),
        (
            *("fashion-mnist", "fashion-mnist/raw", "FashionMNIST/raw", "FashionMNIST", "fashion_mnist"),
            *("fashionmnist", *_hub("zalando-datasets/fashion_mnist", "fashion_mnist")),
        ),
    ),
    DataSet(
        "cifar10",
        "CIFAR-10",
        CIFAR10,
        (3, 32, 32),
        (50000, 10000),
        ("cifar10", "cifar-10", "CIFAR10", "CIFAR-10", *_hub("uoft-cs/cifar10", "cifar10")),
    ),
    DataSet(
        "cifar100",
        "CIFAR-100",
        CIFAR100,
        (3, 32, 32),
        (50000, 10000),
        ("cifar100", "cifar-100", "CIFAR100", "CIFAR-100", *_hub("uoft-cs/cifar100", "cifar100")),
    ),
)
DATASETS = {dataset.name: dataset for dataset in _ALL}
