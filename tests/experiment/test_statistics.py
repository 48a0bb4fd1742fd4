"""The t interval against tabulated quantiles and against numbers worked out by hand."""

import pytest

from nispa.experiment.statistics import spread, t_quantile, t_within


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    # any table of Student's distribution, two-sided 95 %
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (30, 2.042)],
)
def test_quantiles_are_the_tabulated_ones(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=5e-4)
    assert t_within(t_quantile(freedom), freedom) == pytest.approx(0.95)


def test_many_runs_approach_the_normal_distribution() -> None:
    assert t_quantile(1000) == pytest.approx(1.962, abs=5e-4)
    assert t_quantile(4, level=0.99) == pytest.approx(4.604, abs=5e-4)


def test_spread_by_hand() -> None:
    found = spread([91.0, 92.0, 93.0])
    assert found.mean == 92
    assert found.std == 1
    assert found.half == pytest.approx(4.3027 / 3**0.5, abs=1e-3)
    assert found.interval == pytest.approx((92 - 2.4841, 92 + 2.4841), abs=1e-3)


def test_one_run_has_no_spread() -> None:
    found = spread([91.5])
    assert (found.mean, found.std, found.half, found.interval) == (91.5, None, None, None)
    assert spread([5.0, 5.0, 5.0]).half == 0
