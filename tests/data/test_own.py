from pathlib import Path

import numpy as np
import pytest
import torch
from data_formats import image_folder, samples

from nispa.data.folders import cache_folder
from nispa.data.streams import build, stream_from_folder, stream_from_npz
from nispa.errors import NispaError

CLASSES = ["class10", "class2", "class1", "class9"]


def described(stream):
    return [(t.name, t.classes, t.class_names, len(t.train), len(t.validation), len(t.test)) for t in stream]


def test_classes_in_natural_order_in_even_tasks(tmp_path):
    image_folder(tmp_path / "set", CLASSES, count=10)
    (tmp_path / "set" / ".hidden").mkdir()
    (tmp_path / "set" / "class1" / "notes.txt").write_text("no image")
    stream = build(str(tmp_path / "set"), tasks=2)
    assert described(stream) == [
        ("class1, class2", (0, 1), ("class1", "class2"), 14, 2, 4),
        ("class9, class10", (2, 3), ("class9", "class10"), 14, 2, 4),
    ]
    assert stream.input_shape == (3, 8, 8)
    assert stream[0].train.inputs.dtype == torch.uint8


def test_named_tasks_number_the_classes_in_their_order(tmp_path):
    image_folder(tmp_path / "set", [*CLASSES, "unused"], count=10)
    stream = stream_from_folder(tmp_path / "set", tasks=[["class10", "class1"], ["class9", "class2"]])
    assert [t.class_names for t in stream] == [("class10", "class1"), ("class9", "class2")]
    assert stream.classes == 4


def test_train_test_and_validation_folders(tmp_path):
    for part, count in (("train", 5), ("Test", 2), ("val", 3)):
        image_folder(tmp_path / "set" / part, ["a", "b"], count)
    assert described(stream_from_folder(tmp_path / "set", tasks=1)) == [
        ("a, b", (0, 1), ("a", "b"), 10, 6, 4)
    ]


@pytest.mark.parametrize("split", [False, True])
def test_a_folder_for_each_task(tmp_path, split):
    for task, classes in (("task2", ["a", "b"]), ("task10", ["a", "c", "d"])):
        root = tmp_path / "set" / task
        image_folder(root / "train" if split else root, classes, 10)
        if split:
            image_folder(root / "test", classes, 2)
    stream = stream_from_folder(tmp_path / "set")
    assert [(t.name, t.classes, t.class_names) for t in stream] == [
        ("task2", (0, 1), ("task2/a", "task2/b")),
        ("task10", (2, 3, 4), ("task10/a", "task10/c", "task10/d")),
    ]


def test_test_images_are_the_same_for_every_seed_and_in_no_other_part(tmp_path):
    image_folder(tmp_path / "set", ["a", "b"], count=20)
    first, second = (stream_from_folder(tmp_path / "set", tasks=1, seed=seed)[0] for seed in (0, 1))
    assert torch.equal(first.test.inputs, second.test.inputs)
    assert not torch.equal(first.validation.inputs, second.validation.inputs)
    rows = torch.cat([p.inputs.flatten(1) for p in (first.train, first.validation, first.test)])
    assert len(torch.unique(rows, dim=0)) == 40
    assert stream_from_folder(tmp_path / "set", tasks=1, test_fraction=0)[0].test is None


def test_size_and_channels(tmp_path):
    image_folder(tmp_path / "set", ["a"], shape=(3, 8, 8))
    image_folder(tmp_path / "set", ["b"], shape=(1, 6, 5), kind="jpg")
    with pytest.raises(NispaError, match="give channels=1 or channels=3"):
        stream_from_folder(tmp_path / "set", tasks=1)
    with pytest.raises(NispaError, match="give size="):
        stream_from_folder(tmp_path / "set", tasks=1, channels=3)
    assert stream_from_folder(tmp_path / "set", tasks=1, channels=1, size=(4, 6)).input_shape == (1, 4, 6)
    assert stream_from_folder(tmp_path / "set", tasks=1, channels=3, size=7).input_shape == (3, 7, 7)


def test_decoded_images_are_cached_until_a_file_changes(tmp_path):
    image_folder(tmp_path / "set", ["a", "b"])
    first = stream_from_folder(tmp_path / "set", tasks=1)
    entries = list((cache_folder() / "decoded").iterdir())
    again = stream_from_folder(tmp_path / "set", tasks=1)
    assert torch.equal(first[0].train.inputs, again[0].train.inputs)
    assert list((cache_folder() / "decoded").iterdir()) == entries
    image_folder(tmp_path / "other", ["a"], seed=9)
    (tmp_path / "other" / "a" / "0.png").replace(tmp_path / "set" / "a" / "0.png")
    stream_from_folder(tmp_path / "set", tasks=1)
    assert len(list((cache_folder() / "decoded").iterdir())) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "2 classes in one folder; say how they form tasks"),
        ({"tasks": 2}, "each task needs two"),
        ({"tasks": [["a", "c"]]}, "no class 'c'"),
        ({"tasks": [["a", "b"], ["a"]]}, "class 'a' is in two tasks"),
        ({"tasks": ["a", "b"]}, "one list of classes per task"),
        ({"tasks": 1, "size": (0, 5)}, "size is"),
        ({"tasks": 1, "channels": 4}, "channels is 4"),
        ({"tasks": 1, "test_fraction": 2}, "test_fraction is 2"),
        ({"tasks": 1, "chanels": 3}, "did you mean 'channels'"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    image_folder(tmp_path / "set", ["a", "b"])
    with pytest.raises(NispaError, match=message):
        build(str(tmp_path / "set"), **options)


def test_wrong_folders(tmp_path):
    def fails(message, **options):
        with pytest.raises(NispaError, match=message) as caught:
            stream_from_folder(tmp_path / "set", tasks=1, **options)
        assert str(tmp_path) in str(caught.value)

    fails("no such folder")
    (tmp_path / "set" / "empty").mkdir(parents=True)
    fails("no images in it")
    image_folder(tmp_path / "set", ["a"])
    fails("empty: no images in it")
    (tmp_path / "set" / "empty" / "x.png").write_bytes(b"no image")
    fails(r"empty.x\.png: not a readable image")
    (tmp_path / "set" / "test" / "other").mkdir(parents=True)


def test_a_test_class_without_training_images(tmp_path):
    image_folder(tmp_path / "set" / "train", ["a", "b"])
    image_folder(tmp_path / "set" / "test", ["a", "c"])
    with pytest.raises(NispaError, match="a class that the training images do not have"):
        stream_from_folder(tmp_path / "set", tasks=1)


def test_npz(tmp_path):
    x, y = samples(40, 4, (8, 8))
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x[:8], y_test=y[:8])
    assert described(build(str(tmp_path / "mine.npz"), tasks=2)) == [
        ("0, 1", (0, 1), ("0", "1"), 18, 2, 4),
        ("2, 3", (2, 3), ("2", "3"), 18, 2, 4),
    ]
    chosen = stream_from_npz(tmp_path / "mine.npz", tasks=[[3, 0], [1, 2]])
    assert [t.class_names for t in chosen] == [("3", "0"), ("1", "2")]
    rows = (torch.cat([chosen[0].train.labels, chosen[0].validation.labels]) == 0).sum()
    assert rows == 10


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tasks", 1.5),
        ("tasks", {}),
        ("tasks", []),
        ("tasks", [[]]),
        ("tasks", None),
        ("tasks", "ab"),
        ("test_fraction", "x"),
        ("test_fraction", 2),
        ("validation_fraction", "x"),
        ("validation_fraction", 0),
        ("augment", {"flip": "x"}),
    ],
)
def test_options_of_any_kind_are_refused_in_one_line(tmp_path: Path, option: str, value: object) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x_train=np.zeros((40, 8, 8), np.uint8), y_train=np.arange(40) % 4)
    given = {"tasks": 2, option: value}
    with pytest.raises(NispaError) as caught:
        stream_from_npz(path, **given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
