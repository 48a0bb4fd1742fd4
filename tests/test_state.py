"""Learned state as plain tensors."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import network

from nispa.errors import NispaError
from nispa.state import (
    build_network,
    network_data,
    network_tensors,
    pack_bits,
    pack_groups,
    take,
    unpack_bits,
    unpack_groups,
)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(0, 99))
def test_bits_come_back(shape: list[int], seed: int) -> None:
    bits = np.random.default_rng(seed).random(shape) < 0.5
    packed = pack_bits(bits)
    assert packed.numel() == -(-bits.size // 8)
    assert np.array_equal(unpack_bits(packed, shape, "bits"), bits)


def test_bits_of_another_size_are_damage() -> None:
    with pytest.raises(NispaError, match="m does not fit a 3x3 bit array"):
        unpack_bits(torch.zeros(3, dtype=torch.uint8), (3, 3), "m")
    with pytest.raises(NispaError, match="damaged"):
        unpack_bits(torch.zeros(2), (3, 3), "m")


def test_groups_come_back() -> None:
    groups = [np.array([True, False, True]), np.zeros(9, dtype=bool)]
    found = unpack_groups(pack_groups(groups, "s."), [3, 9], "s.")
    assert all(np.array_equal(a, b) for a, b in zip(groups, found, strict=True))


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({}, "'a' is missing"),
        ({"a": torch.zeros(3)}, r"float32 \[3\], expected float32 \[2\]"),
        ({"a": torch.zeros(2, dtype=torch.float64)}, "float64"),
        ({"a": torch.tensor([0.0, float("inf")])}, "NaN or infinity"),
    ],
)
def test_take_checks(tensors: dict[str, torch.Tensor], words: str) -> None:
    with pytest.raises(NispaError, match=words):
        take(tensors, "a", (2,))


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_a_network_comes_back_with_its_stable_bits_and_log(kind: str) -> None:
    net = network(kind, 4, 0.4, seed=5, init="fan_out")
    net.wiring.stable[1][::2] = True
    net.wiring.became[1][::2] = 3
    built = build_network(network_tensors(net), network_data(net))
    assert (built.shape, built.seed, built.init) == (net.shape, net.seed, net.init)
    for one, other in zip(net.snapshot(), built.snapshot(), strict=True):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
    for name in ("stable", "became"):
        for a, b in zip(getattr(net.wiring, name), getattr(built.wiring, name), strict=True):
            assert np.array_equal(a, b)
    counts = [[c.target_count for c in n.wiring.connections] for n in (net, built)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": None}, "not readable"),
        ({"shape": {}}, "not readable"),
        ({"target_counts": [1]}, "target counts"),
        ({"target_counts": [10**9, 1, 1]}, "target counts"),
        ({"seed": "x"}, "not readable"),
        ({"init": "fan"}, "unknown init"),
        ({"engine": "gpu"}, "unknown engine"),
    ],
)
def test_a_description_that_does_not_fit(change: dict[str, Any], words: str) -> None:
    net = network("mlp", 4)
    with pytest.raises(NispaError, match=words):
        build_network(network_tensors(net), {**network_data(net), **change})
