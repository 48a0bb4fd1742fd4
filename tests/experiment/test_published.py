"""The published numbers are whole, in percent, and found by stream and method."""

import pytest

from nispa.data.streams import STREAMS
from nispa.experiment.published import authors_runs, averages, table


def test_the_paper_gives_these_averages() -> None:
    (found,) = averages("ef-mnist", "nispa")
    assert (found.mean, found.std, str(found)) == (91.6, 0.2, "91.6 ± 0.2")
    assert averages("cifar100", "ewc")[0].mean == 70.96
    assert averages("mnist", "nispa-replay", 100)[0].mean == 90
    assert averages("cifar10", "nispa") == []  # only a figure
    assert averages("digits", "nispa") == []
    assert averages("mnist", "nispa-replay", 17) == []


def test_authors_runs_agree_with_the_means_they_report() -> None:
    recorded, *ours = authors_runs("ef-mnist", "nispa")
    assert recorded.mean == pytest.approx(91.72, abs=0.01)
    assert [run.mean for run in ours] == pytest.approx([91.88, 91.68, 91.60], abs=0.01)
    assert authors_runs("cifar10", "nispa")[0].mean == pytest.approx(91.28, abs=0.01)
    assert authors_runs("mnist", "nispa-replay", 100)[0].mean == pytest.approx(88.9, abs=0.05)
    assert authors_runs("mnist", "nispa-replay") == []


def test_every_table_is_whole() -> None:
    data = table()
    for part in ("task-incremental", "deviation", "ablation", "parameters"):
        assert set(data[part]) <= set(STREAMS)
    methods = set(data["class-incremental"]["10"]["mnist"])
    assert len(methods) == 11
    for memory in ("10", "50", "100"):
        for stream in ("mnist", "ef-mnist", "cifar10"):
            numbers = data["class-incremental"][memory][stream]
            assert set(numbers) == methods
            assert all(0 < mean <= 100 and 0 < std < 20 for mean, std in numbers.values())
