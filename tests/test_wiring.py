"""Groups, connections and what is said about them."""

import numpy as np
import pytest
from small import network

from nispa.network import cnn, mlp
from nispa.wiring import Connections, Wiring


def by_hand() -> Wiring:
    """2 inputs -> 3 units -> 2 outputs; unit 0 is stable, unit 2 has no output."""
    first = np.array([[1, 1], [0, 1], [1, 0]], dtype=bool)
    second = np.array([[1, 0, 0], [1, 1, 0]], dtype=bool)
    connections = [Connections(first, np.arange(2), 4), Connections(second, np.arange(3), 3)]
    stable = [np.ones(2, dtype=bool), np.array([True, False, False]), np.zeros(2, dtype=bool)]
    return Wiring(connections, stable)


def test_counts() -> None:
    wiring = by_hand()
    assert wiring.groups == [2, 3, 2]
    assert list(wiring.hidden) == [1]
    assert [c.live for c in wiring.connections] == [4, 3]
    assert wiring.connections[0].density == pytest.approx(4 / 6)
    assert wiring.free_connections() == [2, 3]
    assert wiring.connections[1].has_output(3).tolist() == [True, True, False]


def test_a_log_starts_with_nothing_learned() -> None:
    assert [log.tolist() for log in by_hand().became] == [[-1, -1], [-1, -1, -1], [-1, -1]]


def test_stable_bits_are_copied() -> None:
    wiring = by_hand()
    copy = wiring.copy_stable()
    copy[1][:] = True
    assert wiring.stable[1].tolist() == [True, False, False]


def test_a_unit_before_a_linear_layer_owns_its_whole_map() -> None:
    net = cnn((3, 8, 8), (4, 5, 6, 7), (10,), classes=4, density=0.5)  # 8x8 is 2x2 after two poolings
    assert net.wiring.groups == [3, 4, 5, 6, 7, 10, 4]
    assert net.wiring.connections[4].source_of.tolist() == np.repeat(np.arange(7), 4).tolist()
    assert net.wiring.connections[1].source_of.tolist() == [0, 1, 2, 3]


def test_has_output_asks_all_columns_of_a_unit() -> None:
    mask = np.zeros((2, 6), dtype=bool)
    mask[1, 5] = True
    assert Connections(mask, np.arange(6) // 2, 1).has_output(3).tolist() == [False, False, True]


def test_the_summary_tells_the_numbers_in_80_columns() -> None:
    lines = by_hand().summary().splitlines()
    assert lines[0].split() == "layer units stable plastic connections density free".split()
    assert lines[1].split() == ["1", "3", "1", "2", "4", "0.667", "50.0%"]
    assert lines[2].split() == ["output", "2", "0", "2", "3", "0.500", "100.0%"]
    big = mlp(3072, [2000, 2000], classes=100, density=0.9).wiring.summary()
    assert max(map(len, big.splitlines())) <= 80


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_a_new_network_is_plastic_but_for_its_inputs(kind: str) -> None:
    stable = network(kind, 4).wiring.stable
    assert stable[0].all()
    assert not any(bits.any() for bits in stable[1:])
