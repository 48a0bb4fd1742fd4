import os

import numpy as np
from data_formats import samples

from nispa.data.cache import cached
from nispa.data.folders import cache_folder
from nispa.data.readers import ImageSet, Part

X, Y = samples(6, 3, (1, 4, 4))


def setup(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"source")
    calls = []

    def build():
        calls.append(1)
        return ImageSet(Part(X, Y), Part(X[:2], Y[:2]), class_names=("a", "b", "c"))

    def get(options=None):
        return cached("things", [source], options, build)

    return source, calls, get


def test_second_time_memory_mapped(tmp_path):
    _, calls, get = setup(tmp_path)
    for _ in range(3):
        images = get()
        assert np.array_equal(images.train.images, X)
        assert np.array_equal(images.test.labels, Y[:2])
        assert images.class_names == ("a", "b", "c")
        assert isinstance(images.train.images, np.memmap)
    assert len(calls) == 1
    assert not images.train.images.flags.writeable


def test_built_anew_for_other_options_or_a_changed_source(tmp_path):
    source, calls, get = setup(tmp_path)
    get(1), get(2)
    assert len(calls) == 2
    os.utime(source, ns=(1, 1))
    get(1)
    assert len(calls) == 3


def test_a_damaged_entry_is_built_anew(tmp_path):
    _, calls, get = setup(tmp_path)
    for i, (name, content) in enumerate(
        [
            ("train-images.npy", b"\x93NUMPY"),
            ("about.json", b"{"),
            ("test-labels.npy", b""),
            ("about.json", b"[]"),
        ]
    ):
        get()
        (entry,) = (cache_folder() / "decoded").iterdir()
        (entry / name).write_bytes(content)
        assert np.array_equal(get().train.images, X)
        assert len(calls) == i + 2


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    _, calls, get = setup(tmp_path)
    monkeypatch.setenv("NISPA_CACHE", str(tmp_path / "source"))  # a file
    assert np.array_equal(get().train.images, X)
    get()
    assert len(calls) == 2


def test_nothing_half_written_is_left(tmp_path):
    _, _, get = setup(tmp_path)
    get()
    assert len(list((cache_folder() / "decoded").iterdir())) == 1
