"""The class-incremental tables: which runs they need, and ours beside the paper's."""

from pathlib import Path

import pytest

from nispa.cli import app
from nispa.errors import NispaError
from nispa.experiment.paper.cil import DENSE, EXPERIMENT, PAPER, STREAMS, rows
from nispa.experiment.paper.grid import Asked, Found


def test_the_full_grid_is_the_papers_table_and_what_goes_beyond_it() -> None:
    grid = EXPERIMENT.runs(Asked(dense=True))
    for stream in STREAMS:
        for method in (*PAPER, *DENSE):
            for buffer in (10, 50, 100):
                configs = grid[stream, method, 0 if method.startswith("ni-") or method == "ni" else buffer]
                assert [config.seed for config in configs] == [0, 19, 42, 2022, 31415]
                for config in configs:
                    assert config.recipe.label == method
                    assert config.recipe.hyperparameters.get("per_class", buffer) == buffer
    # what has no memory is run once for all of its sizes
    assert len([key for key in grid if isinstance(key, tuple) and key[1] == "nispa-free"]) == len(STREAMS)


def test_all_sparse_rows_have_as_many_weights() -> None:
    grid = EXPERIMENT.runs(Asked(buffers=(50,)))
    for stream in STREAMS:
        found = [grid[stream, method, 0 if method == "ni" else 50][0].recipe.network for method in PAPER]
        assert len({network.model_dump_json() for network in found}) == 1


def test_quick_and_chosen_parts() -> None:
    assert {key[0] for key in EXPERIMENT.runs(Asked("quick")) if isinstance(key, tuple)} == {"mnist"}
    grid = EXPERIMENT.runs(Asked(methods=("er",), streams=("cifar10",), buffers=(7,), seeds=(3,)))
    assert list(grid) == [("cifar10", "er", 7)]
    with pytest.raises(NispaError, match="no method 'er-d'"):
        EXPERIMENT.runs(Asked(methods=("er-d",)))


def test_ours_stand_beside_the_papers() -> None:
    found = Found({("mnist", "er", 10): [{"average_accuracy": 0.61}, {"average_accuracy": 0.63}]})
    lines = rows(found, ["mnist"], 10, ["er", "nispa-free"])
    assert lines[1] == ["ER", "62.0 ± 1.4", "60.0 ± 4.2"]
    assert lines[2] == ["NISPA-Free", "missing", ""]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["density", "--dense"], "belong to the experiment 'cil'"), (["cil", "--buffer", "ten"], "'ten'")],
)
def test_wrong_options_are_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(NispaError, match=words):
        app(["paper", *arguments, "--out", str(tmp_path)], exit_on_error=False, result_action="return_value")
