"""nispa paper: grids, what is shared and resumed, what figures say of themselves; on real data if slow."""

import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from nispa.cli.paper import paper
from nispa.errors import NispaError
from nispa.experiment import recipe
from nispa.experiment.folder import Config
from nispa.experiment.many import planned, run_all
from nispa.experiment.paper import (
    EXPERIMENTS,
    ablation,
    activation,
    baselines,
    density,
    experiment,
    growth,
    page,
    parameters,
    schedule,
)
from nispa.experiment.paper.grid import SEEDS, Asked, Experiment, Found, Grid, lay_out, look, run_name
from nispa.experiment.paper.show import need_matplotlib, remark

TINY = ["network.hidden=[10,10]", "phase_epochs=1", "tau_period=5", "accuracy_loss=30"]


@pytest.fixture(autouse=True)
def matplotlib() -> None:
    need_matplotlib()


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", ["full", "quick"])
def test_every_grid_is_made_of_valid_runs_of_its_own(name: str, scale: Any) -> None:
    grid = experiment(name).runs(Asked(scale))
    configs = [config for runs in grid.values() for config in runs]
    assert all(len({run_name(config) for config in runs}) == len(runs) for runs in grid.values())
    if scale == "quick":
        assert all(0 < config.recipe.stream.options["subset"] < 1 for config in configs)
        assert experiment(name).smaller or not configs
    else:
        assert not any("subset" in config.recipe.stream.options for config in configs)
        assert {config.seed for config in configs} in (set(SEEDS), set())


def test_experiments_share_the_runs_that_are_the_same() -> None:
    asked = Asked("full", seeds=(0,))
    names = [
        {run_name(c) for configs in experiment(name).runs(asked).values() for c in configs}
        for name in ("stl", "baselines", "density", "ablation", "sensitivity")
    ]
    own = run_name(asked.config("ef-mnist", None, 0))
    assert all(own in runs for runs in names)


def test_the_paper_is_what_full_scale_runs() -> None:
    found = growth.runs(Asked("full", seeds=(0,)))
    assert set(found) == {(p, g) for p in ("10", "100") for g in ("novel", "random", "transfer")}
    (config,) = found["10", "transfer"]
    assert config.recipe.network.hidden == [2000, 2000]
    assert config.recipe.stream.options == {"tasks": 5, "fraction": 0.1}
    both = ablation.runs(Asked("full", seeds=(0,)))["cifar100", "NR+Lin"][0].recipe.method
    assert (both["reinitialize"], both["tau_schedule"]) == (False, "linear")
    streams = {stream for stream, _ in baselines.runs(Asked("full"))}
    assert streams == {"ef-mnist", "cifar10", "cifar100"}


def test_parameter_ratios_are_counted_on_the_networks() -> None:
    """4.96, 9.97, 9.97, beside the paper's 4.94, 9.94, 9.97; the first by hand."""
    assert [round(parameters.ratio(s), 2) for s in parameters.STREAMS] == [4.96, 9.97, 9.97]
    weights = 784 * 400 + 400 * 400 + 400 * 400 + 400 * 57
    biases = 3 * 400 + 57
    assert parameters.ratio("ef-mnist") == pytest.approx((weights + biases) / (0.2 * weights + biases))
    live = parameters.network("ef-mnist", "nispa").cost()["flops"]["forward_live"]
    assert live == pytest.approx(2 * 0.2 * weights, rel=1e-4)


def test_skewness_by_hand() -> None:
    import numpy as np

    assert activation.skewness(np.array([1.0, 2.0, 3.0])) == 0
    assert activation.skewness(np.array([0.0, 0.0, 3.0])) == pytest.approx(2**-0.5)
    assert activation.skewness(np.ones(4)) == 0


def grid_of(seeds: tuple[int, ...]) -> Grid:
    """A small experiment that needs no data: density on the embedded digits."""
    return {
        ("ef-mnist", d): [
            Config(recipe.find("digits", None, [*TINY, f"network.density={d}"]), seed, "reference")
            for seed in seeds
        ]
        for d in (0.2, 0.5)
    }


def test_runs_are_kept_more_seeds_are_added_and_gaps_are_named(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, "density", grid_of((0,)))
    assert all(run.parent.resolve() == (tmp_path / "runs").resolve() for run in planned(folder))
    run_all(folder, 2, 2, lambda runs: None, 0.05)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/results.json")}
    assert len(before) == 2

    more = grid_of((0, 19))
    lay_out(tmp_path, "density", more)
    found = look(tmp_path, more)
    assert found.missing == ["ef-mnist 0.2 seed 19", "ef-mnist 0.5 seed 19"]
    text = remark(Asked("quick"), found, "little data")
    assert "INCOMPLETE, 2 runs are missing: ef-mnist 0.2 seed 19" in text
    assert "QUICK SCALE" in text
    made = density.draw(Asked("quick"), found, folder)
    assert "INCOMPLETE" in (folder / "density.md").read_text()

    run_all(folder, 2, 2, lambda runs: None, 0.05)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())
    found = look(tmp_path, more)
    assert found.missing == []
    assert len(found.averages(("ef-mnist", 0.2))) == 2
    made = density.draw(Asked("full"), found, folder)
    assert {path.name for path in made} == {"density.png", "density.md", "density.csv"}
    with Image.open(folder / "density.png") as image:
        assert image.width > 400
    rows = list(csv.reader((folder / "density.csv").read_text().splitlines()))
    assert [row[1] for row in rows] == ["density", "0.2", "0.5"]
    assert "INCOMPLETE" not in (folder / "density.md").read_text()


def test_nothing_complete_is_nothing_to_draw(tmp_path: Path) -> None:
    lay_out(tmp_path, "density", grid_of((0,)))
    with pytest.raises(NispaError, match="nothing to draw"):
        look(tmp_path, grid_of((0,)))


def test_schedule_needs_no_runs(tmp_path: Path) -> None:
    made = schedule.draw(Asked(), Found(), tmp_path)
    assert len(made) == 3
    assert "| cosine, k = 30 | 0.997 |" in (tmp_path / "schedule.md").read_text()


def test_the_page_has_what_was_drawn_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NispaError, match="nothing was drawn"):
        paper(out=tmp_path / "out", page=tmp_path / "page")
    assert paper("schedule", out=tmp_path / "out") == 0
    grid = grid_of((0,))
    folder = lay_out(tmp_path / "out", "density", grid)
    run_all(folder, 1, 1, lambda runs: None, 0.05)
    more = grid_of((0, 19))
    found = look(tmp_path / "out", more)
    made = density.draw(Asked("full"), found, folder)
    page.note(folder, made, "nispa paper density", found)
    assert paper(out=tmp_path / "out", page=tmp_path / "page") == 0
    text = (tmp_path / "page" / "README.md").read_text()
    assert text.count("## ") == 2
    assert "nispa paper schedule" in text
    assert "**Incomplete**: 2 runs are missing (ef-mnist 0.2 seed 19" in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / "page" / target).is_file()
    assert str(tmp_path) not in text


def nispa(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nispa", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200)


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("densty", {}, "did you mean 'density'"),
        ("density", {"streams": "mnist"}, "'mnist'"),
        ("baselines", {"methods": "er"}, "'er'"),
        ("density", {"seeds": "x"}, "'x'"),
        ("density", {"jobs": 0}, "--jobs"),
        ("density", {"draw_only": True}, "nothing to draw"),
    ],
)
def test_what_cannot_be_run_is_one_clear_line(
    name: str, options: dict[str, Any], word: str, tmp_path: Path
) -> None:
    with pytest.raises(NispaError, match=word) as error:
        paper(name, out=tmp_path / "out", **options)
    assert "\n" not in str(error.value)


def test_the_command_lists_its_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert paper() == 0
    said = capsys.readouterr().out
    assert all(name in said for name in EXPERIMENTS)
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_scale_ends_within_minutes(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """On real data; the runs of one experiment are found by the next."""
    if not os.environ.get("NISPA_DATA"):
        pytest.skip(f"NISPA_DATA is not set: `nispa paper {name} --scale quick` is NOT tested")
    out = tmp_path_factory.getbasetemp() / "paper"
    started = time.monotonic()
    done = nispa("paper", name, "--scale", "quick", "--jobs", 2, "--threads", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 600  # five minutes on two free cores
    assert "INCOMPLETE" not in done.stdout
    assert list((out / name).glob("*.png"))
    for path in (out / name).glob("*.md"):
        assert "missing" not in path.read_text()
        if experiment(name).smaller and path.stem != "parameters":
            assert "QUICK SCALE" in path.read_text()


def test_an_experiment_is_its_runs_and_its_drawing() -> None:
    for name in EXPERIMENTS:
        assert isinstance(experiment(name), Experiment)
