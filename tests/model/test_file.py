"""Model files from strangers: whatever is in them, one clear line, no crash, no hang, no hoard of memory."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.material import blobs
from nispa import NispaError
from nispa.model import Model
from nispa.model.file import checksum, parse, read, to_bytes


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes flipped, cut off, taken out, put in, swapped or repeated."""
    bad, where = bytearray(data), int(rng.integers(len(data)))
    if rng.random() < 0.5:
        where = int(rng.integers(min(len(data), 6000)))  # the header is where it hurts
    length = int(rng.integers(1, 64))
    match int(rng.integers(6)):
        case 0:
            bad[where] ^= 1 << int(rng.integers(8))
        case 1:
            del bad[where:]
        case 2:
            del bad[where : where + length]
        case 3:
            bad[where:where] = rng.bytes(length)
        case 4:
            bad[where : where + length] = rng.bytes(length)
        case _:
            bad[where : where + length] = b"9" * length
    return bytes(bad)


def test_a_thousand_mutated_files_give_one_line(two_tasks: Path, tmp_path: Path) -> None:
    data, path, refused = two_tasks.read_bytes(), tmp_path / "bad.nispa", 0
    for seed in range(1000):
        bad = mutated(data, np.random.default_rng(seed))
        if bad == data:
            continue
        path.write_bytes(bad)
        with pytest.raises(NispaError) as caught:
            Model.open(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
        refused += 1
    assert refused > 990


def forged(path: Path, change: Any) -> bytes:
    """The file with its description changed, and a checksum that fits."""
    found = read(path)
    described = found.description.model_dump()
    change(described, found.tensors)
    data = to_bytes(found)
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    from safetensors.torch import load

    tensors, text = load(data), json.dumps(described)
    header["__metadata__"]["nispa"] = json.dumps([checksum(text, tensors), text])
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded + data[8 + struct.unpack("<Q", data[:8])[0] :]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything in nested JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    return [path, *(found for key, inner in items for found in leaves(inner, (*path, key)))]


WEIRD = [None, -1, 0, 1, 2**31, 2**70, 1e300, -0.5, float("nan"), "", "x" * 50, [], [1], {}, {"a": 1}, True]


def test_descriptions_that_lie_are_refused_or_harmless(two_tasks: Path, tmp_path: Path) -> None:
    """With a checksum that fits, so that only the checks behind it can refuse."""
    described = read(two_tasks).description.model_dump()
    places = [place for place in leaves(described) if place]
    rng, opened = np.random.default_rng(0), 0
    for _ in range(150):
        place = places[int(rng.integers(len(places)))]
        weird = WEIRD[int(rng.integers(len(WEIRD)))]

        def change(value: Any, tensors: Any, place: Any = place, weird: Any = weird) -> None:
            for key in place[:-1]:
                value = value[key]
            value[place[-1]] = weird

        path = tmp_path / "forged.nispa"
        path.write_bytes(forged(two_tasks, change))
        try:
            model = Model.open(path)
        except NispaError:
            continue
        opened += 1
        model.predict(blobs(0)[0][:2])
        model.verify()
    assert opened > 5  # names, dates and notes may be anything


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("hidden", [1 << 25, 1 << 25]),
        ("hidden", [1] * 100_000),
        ("hidden", [24, 1 << 40]),
        ("input", [1 << 40]),
        ("classes", 1 << 40),
        ("convolutions", [[1 << 30, 3, 1]]),
        ("convolutions", [[4, 1_000_001, 1]]),
    ],
)
def test_a_file_that_asks_for_much_memory_gets_none(
    two_tasks: Path, tmp_path: Path, entry: str, value: Any
) -> None:
    import tracemalloc

    def change(described: Any, tensors: Any) -> None:
        described["state"]["network"]["shape"][entry] = value

    data = forged(two_tasks, change)
    tracemalloc.start()
    with pytest.raises(NispaError):
        parse(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(data) * 4 + (64 << 20)


def test_a_changed_file_is_refused_but_can_be_inspected(two_tasks: Path, tmp_path: Path) -> None:
    data = bytearray(two_tasks.read_bytes())
    found = read(two_tasks)
    weights = found.tensors["net.2.weights"].numpy().tobytes()[:64]
    data[data.index(weights)] ^= 1  # the lowest bit of an output's weight
    path = tmp_path / "bit.nispa"
    path.write_bytes(data)
    with pytest.raises(NispaError, match="checksum does not fit"):
        Model.open(path)
    kept = {f.task: f.kept for f in Model.open(path, whole=False).verify()}
    assert kept == {"task0": False, "task1": True}


def test_foreign_files(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save

    for content, words in (
        (b"", "0 bytes"),
        (b"hello, this is text", "header"),
        (save({"a": torch.zeros(2)}), "not a model file"),
        (struct.pack("<Q", 1 << 62) + b"{}", "header tells"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "no JSON"),
    ):
        path = tmp_path / "foreign.nispa"
        path.write_bytes(content)
        with pytest.raises(NispaError, match=words):
            Model.open(path)
    with pytest.raises(NispaError, match="is not a file"):
        Model.open(tmp_path)
