"""The verbs of the paper on wirings small enough to follow by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nispa.rewiring import degrade, drop, grow, inputs_from, repair, select_candidates
from nispa.wiring import Bits, Connections, Wiring


def bits(*ones: int, of: int) -> Bits:
    found = np.zeros(of, dtype=bool)
    found[list(ones)] = True
    return found


def chosen(activation: list[float], stable: Bits, tau: float, selection: str = "paper") -> list[int]:
    return np.flatnonzero(select_candidates(np.array(activation), stable, tau, selection)).tolist()


NONE = bits(of=4)


@pytest.mark.parametrize(
    ("tau", "expected"), [(0.5, [0]), (0.51, [0, 2]), (0.9, [0, 2]), (0.95, [0, 1, 2]), (1.0, [0, 1, 2])]
)
def test_the_most_active_are_taken_one_by_one_until_tau(tau: float, expected: list[int]) -> None:
    assert chosen([5, 1, 4, 0], NONE, tau) == expected


def test_stable_units_are_credited_first() -> None:
    assert chosen([5, 1, 4, 0], bits(1, of=4), 0.6) == [0]  # 1 + 5 reach 6 of 10
    assert chosen([5, 1, 4, 0], bits(0, of=4), 0.5) == []  # S alone: S_c stays empty
    assert chosen([5, 1, 4, 0], bits(0, 1, 2, 3, of=4), 1.0) == []


def test_ties_go_by_index_and_silence_chooses_nobody() -> None:
    assert chosen([2, 2, 2, 2], NONE, 0.5) == [0, 1]
    assert chosen([0, 0, 0, 0], NONE, 1.0) == []


def test_the_authors_rank_stable_units_too() -> None:
    """They take 5 + 4 of 10 whoever is stable: more than the paper does."""
    assert chosen([5, 1, 4, 0], bits(1, of=4), 0.6, "all-units") == [0, 2]
    assert chosen([5, 1, 4, 0], bits(0, of=4), 0.6, "all-units") == [2]


def test_tau_of_one_is_reached_whatever_the_rounding() -> None:
    activation = np.random.default_rng(0).random(1000).tolist()
    assert len(chosen(activation, bits(of=1000), 1.0)) == 1000


def chain(masks: list[list[list[int]]], stable: list[Bits], targets: list[int] | None = None) -> Wiring:
    arrays: list[NDArray[np.bool_]] = [np.array(mask, dtype=bool) for mask in masks]
    counts = targets or [int(mask.sum()) for mask in arrays]
    connections = [
        Connections(mask, np.arange(mask.shape[1]) * len(group) // mask.shape[1], count)
        for mask, group, count in zip(arrays, stable, counts, strict=False)
    ]
    return Wiring(connections, stable)


def test_degrading_goes_from_layer_to_layer() -> None:
    """Candidate 1 of group 1 has no input; so candidate 0 of group 2, fed by it alone, goes with it."""
    wiring = chain(
        [[[1], [0]], [[0, 1], [1, 0]], [[1, 1]]],
        [bits(0, of=1), bits(of=2), bits(of=2), bits(of=1)],
    )
    protected = [bits(0, of=1), bits(0, 1, of=2), bits(0, 1, of=2), bits(0, of=1)]
    left = degrade(wiring, protected)
    assert [np.flatnonzero(group).tolist() for group in left] == [[0], [0], [1], [0]]
    assert protected[1].all(), "the argument is left alone"


def test_stable_units_and_outputs_are_never_degraded() -> None:
    wiring = chain([[[0]], [[0]]], [bits(0, of=1), bits(0, of=1), bits(of=1)])
    left = degrade(wiring, [bits(0, of=1), bits(0, of=1), bits(0, of=1)])
    assert all(group.all() for group in left)


def test_drop_takes_exactly_plastic_to_protected() -> None:
    wiring = chain([[[1, 1], [1, 1]], [[1, 1], [1, 1]]], [bits(0, 1, of=2), bits(of=2), bits(of=2)])
    protected = [bits(0, 1, of=2), bits(0, of=2), bits(1, of=2)]
    assert drop(wiring, protected) == 1
    assert wiring.connections[0].mask.all(), "inputs are stable: their connections stay"
    assert wiring.connections[1].mask.tolist() == [[True, True], [True, False]]


def test_drop_asks_the_unit_that_owns_the_column() -> None:
    wiring = chain([[[1], [1]], [[1, 1, 1, 1]]], [bits(0, of=1), bits(of=2), bits(of=1)])
    assert drop(wiring, [bits(0, of=1), bits(1, of=2), bits(0, of=1)]) == 2
    assert wiring.connections[1].mask.tolist() == [[False, False, True, True]]


def test_inputs_from() -> None:
    connections = Connections(np.array([[1, 0, 0, 0], [0, 0, 0, 1]], dtype=bool), np.array([0, 0, 1, 1]), 2)
    assert inputs_from(connections, bits(0, of=2)).tolist() == [True, False]


def dead_pair(budget: int) -> Wiring:
    """Both units of group 1 own two columns and have no output; output 1 is plastic."""
    return chain(
        [[[1], [1]], [[0] * 4, [0] * 4]],
        [bits(0, of=1), bits(of=2), bits(0, of=2)],
        [2, budget],
    )


@pytest.mark.parametrize("budget", [0, 1, 2, 5])
def test_repair_gives_every_dead_unit_one_output_while_the_budget_lasts(budget: int) -> None:
    wiring = dead_pair(budget)
    protected = [bits(0, of=1), bits(of=2), bits(0, of=2)]
    assert repair(wiring, 2, protected, np.random.default_rng(0)) == min(budget, 2)
    mask = wiring.connections[1].mask
    assert not mask[0].any(), "only into plastic units"
    assert mask[1].reshape(2, 2).sum(axis=1).max(initial=0) <= 1
    assert mask.sum() == min(budget, 2)


def test_repair_leaves_alone_who_is_not_a_dead_plastic_hidden_unit() -> None:
    rng = np.random.default_rng(0)
    assert repair(dead_pair(5), 2, [bits(0, of=1), bits(0, 1, of=2), bits(0, of=2)], rng) == 0
    assert repair(dead_pair(5), 2, [bits(0, of=1), bits(of=2), bits(0, 1, of=2)], rng) == 0
    wiring = chain([[[0, 0]], [[1]]], [bits(0, 1, of=2), bits(of=1), bits(of=1)], [2, 1])
    assert repair(wiring, 1, wiring.stable, rng) == 0, "an input without output is no dead unit"


def test_repair_takes_any_column_and_any_target() -> None:
    seen = set()
    for seed in range(60):
        wiring = chain([[[1], [1]], [[0] * 4] * 3], [bits(0, of=1), bits(of=2), bits(of=3)], [2, 9])
        repair(wiring, 2, wiring.stable, np.random.default_rng(seed))
        seen |= {(int(t), int(c)) for t, c in zip(*np.nonzero(wiring.connections[1].mask), strict=True)}
    assert len(seen) == 12


def half(target: int) -> tuple[Wiring, list[Bits]]:
    """4 sources (0, 1 protected), 3 targets (0 protected); nothing is live."""
    wiring = chain([[[1]] * 4, [[0] * 4] * 3], [bits(0, of=1), bits(of=4), bits(of=3)], [4, target])
    return wiring, [bits(0, of=1), bits(0, 1, of=4), bits(0, of=3)]


@pytest.mark.parametrize("growth", ["random", "novel", "transfer"])
@pytest.mark.parametrize("target", range(12))
def test_growth_fills_up_to_the_target_or_to_the_last_slot(target: int, growth: str) -> None:
    wiring, protected = half(target)
    missing = grow(wiring, 2, protected, np.random.default_rng(target), growth)
    mask = wiring.connections[1].mask
    assert mask.sum() == min(target, 8)
    assert missing == max(target - 8, 0)
    assert not mask[0].any()
    type_1 = int(mask[:, 2:].sum())
    if growth == "novel":
        assert type_1 == min(target, 4)
    if growth == "transfer":
        assert type_1 == min(max(target - 4, 0), 4)


def test_growth_looks_for_no_type_and_prefers_no_slot() -> None:
    count = np.zeros((3, 4))
    for seed in range(800):
        wiring, protected = half(2)
        grow(wiring, 2, protected, np.random.default_rng(seed))
        count += wiring.connections[1].mask
    assert count[0].sum() == 0
    assert count[1:].min() > 150  # 200 expected, 12 standard deviation
    assert count[1:].max() < 250


def test_growth_without_plastic_targets_or_need() -> None:
    wiring, protected = half(3)
    protected[2][:] = True
    assert grow(wiring, 2, protected, np.random.default_rng(0)) == 3
    wiring, protected = half(0)
    assert grow(wiring, 2, protected, np.random.default_rng(0)) == 0
    assert not wiring.connections[1].mask.any()
