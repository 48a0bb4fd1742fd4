"""The numbers of a run, from matrices worked out by hand."""

import pytest

from nispa.data.streams import digits
from nispa.experiment.results import Results


def filled(rows: list[list[float | None]]) -> Results:
    results = Results(digits())
    results.accuracy = rows
    return results


def test_metrics_by_hand() -> None:
    results = filled([[0.9, None, None], [0.7, 0.8, None], [0.8, 0.6, 0.5]])
    assert results.average_accuracy == pytest.approx((0.8 + 0.6 + 0.5) / 3)
    assert results.forgetting == pytest.approx(((0.9 - 0.8) + (0.8 - 0.6)) / 2)
    assert results.backward_transfer == pytest.approx(((0.8 - 0.9) + (0.6 - 0.8)) / 2)
    assert results.learned == [0.9, 0.8, 0.5]
    results.chance, results.ahead = [0.5, 0.4, 0.3], [None, 0.5, 0.6]
    assert results.forward_transfer == pytest.approx((0.1 + 0.3) / 2)


def test_one_task_has_nothing_to_forget() -> None:
    results = filled([[0.9]])
    assert results.forgetting == 0
    assert results.backward_transfer == 0
