"""Sets that do not fit into memory: kept in files, with the same content; a full disk is one line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from data_formats import image_folder
from torch import Tensor

from nispa.data import large
from nispa.data.streams import stream_from_folder


def in_a_file(tensor: Tensor) -> bool:
    """Does the memory of this tensor belong to a file that is mapped?"""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, path = line.split(maxsplit=5) if len(line.split(maxsplit=5)) == 6 else (line.split()[0], "")
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= tensor.data_ptr() < high:
            return path.endswith("(deleted)")
    return False


def test_a_large_folder_is_mapped_from_the_first_byte_to_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_folder(tmp_path / "photos", {"a": 12, "b": 12, "c": 12, "d": 12})
    monkeypatch.setenv("NISPA_CACHE", str(tmp_path / "one"))
    plain = stream_from_folder(tmp_path / "photos", tasks=2)
    assert not in_a_file(plain[0].train.inputs)
    monkeypatch.setenv("NISPA_CACHE", str(tmp_path / "two"))
    monkeypatch.setattr(large, "LARGE", 100)
    monkeypatch.setattr(large, "BLOCK", 1000)
    mapped = stream_from_folder(tmp_path / "photos", tasks=2)
    for one, other in zip(plain, mapped, strict=True):
        assert in_a_file(other.train.inputs)
        for part in ("train", "validation", "test"):
            expected, found = getattr(one, part), getattr(other, part)
            assert bool((expected.inputs == found.inputs).all())
            assert bool((expected.labels == found.labels).all())
        batch = other.train.batch(found.labels[:0] + 0)
        assert batch.tensor().shape[1:] == other.train.inputs.shape[1:]
    assert not any(p.is_file() and p.parent == tmp_path / "two" for p in (tmp_path / "two").iterdir())


def test_take_and_concatenate_are_numpys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NISPA_CACHE", str(tmp_path))
    rng = np.random.default_rng(0)
    array, rows = rng.integers(0, 255, (50, 3, 4), dtype=np.uint8), rng.integers(0, 50, 70)
    for limit in (1 << 30, 10):
        monkeypatch.setattr(large, "LARGE", limit)
        monkeypatch.setattr(large, "BLOCK", 100)
        assert np.array_equal(large.take(array, rows), array[rows])
        assert np.array_equal(large.concatenate([array, array[:3]]), np.concatenate([array, array[:3]]))


def test_no_room_is_one_line(tmp_path: Path) -> None:
    """A limit on file size stands for a full disk."""
    code = (
        "from nispa.data import large; large.LARGE = 10\n"
        "from nispa.errors import NispaError\n"
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: large.empty((100_000,), 'u1')\n"
        "except NispaError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],  # -B: no compiled file is cut by the limit
        capture_output=True,
        text=True,
        env={"NISPA_CACHE": str(tmp_path), "PATH": "/usr/bin"},
    )
    assert "no room for 100,000 bytes" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []
