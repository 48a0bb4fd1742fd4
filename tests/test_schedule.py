"""tau by phase."""

import math

import pytest

from nispa.errors import NispaError
from nispa.schedule import FLOOR, cosine, linear, schedule


@pytest.mark.parametrize("period", [30, 40])
def test_cosine_is_the_papers_formula(period: int) -> None:
    tau = cosine(period)
    for p in range(period + 1):
        assert tau(p) == pytest.approx((1 + math.cos(p * math.pi / period)) / 2)
    steps = [tau(p) - tau(p + 1) for p in range(period // 2)]
    assert steps == sorted(steps), "the steps increase with every phase"


def test_linear_falls_by_a_twentieth() -> None:
    assert [round(linear()(p), 10) for p in (1, 2, 10, 19)] == [0.95, 0.9, 0.5, 0.05]


@pytest.mark.parametrize(
    ("name", "period", "phases"),
    [("cosine", 30, 26), ("cosine", 40, 35), ("cosine", 1.5, 2), ("linear", 9, 19)],
)
def test_the_floor_comes_before_tau_rises_again(name: str, period: float, phases: int) -> None:
    tau = schedule(name, period)
    assert min(p for p in range(1, 100) if tau(p) <= FLOOR) == phases


@pytest.mark.parametrize("period", [0.5, 1.0, 1.16])
def test_a_schedule_that_starts_at_the_floor_is_refused(period: float) -> None:
    with pytest.raises(NispaError, match="tau_period"):
        schedule("cosine", period)


@pytest.mark.parametrize("period", [0, -3, float("nan")])
def test_a_period_is_a_positive_number(period: float) -> None:
    with pytest.raises(NispaError, match="tau_period is"):
        schedule("cosine", period)


def test_an_unknown_schedule_names_the_nearest() -> None:
    with pytest.raises(NispaError, match="did you mean 'cosine'"):
        schedule("cosin", 30)
