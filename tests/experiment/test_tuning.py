"""nispa tune: trials side by side, kill -9 and going on, the recipe that comes out of it."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nispa.errors import NispaError
from nispa.experiment import recipe
from nispa.experiment.folder import Config
from nispa.experiment.recipe import parse, validate
from nispa.experiment.run import build
from nispa.experiment.spaces import SPACES
from nispa.experiment.toml import as_toml
from nispa.experiment.tuning import BEST, STUDY, TRIALS, Tuning, open_study, prepare, tune
from nispa.methods import METHODS

SMALL = ["network.hidden=[12]", "epochs=1", "samples=10", 'stream.options={"subset":0.2}']


def tuning(trials: int, method: str = "ewc", seed: int = 0) -> Tuning:
    overrides = [*SMALL[:1], SMALL[3], "phase_epochs=5"] if method == "nispa" else SMALL
    return Tuning(Config(recipe.find("digits", method, overrides), seed, "reference"), trials)


def states(folder: Path) -> list[str]:
    return [trial.state.name for trial in open_study(folder).get_trials(deepcopy=False)]


def quiet(trials: Any) -> None:
    pass


def test_two_workers_share_the_trials_and_the_best_becomes_a_recipe(tmp_path: Path) -> None:
    folder = tmp_path / "tune"
    prepare(folder, tuning(5))
    best = tune(folder, 2, 2, quiet)
    assert len(states(folder)) == 5
    rows = list(csv.DictReader((folder / TRIALS).read_text().splitlines()))
    accuracies = [float(row["validation_accuracy"]) for row in rows if row["state"] == "complete"]
    assert best.value == max(accuracies)
    found = validate(parse(folder / BEST), "best")
    assert found.method["strength"] == best.params["strength"]
    assert found.network.hidden == [12]
    assert f"trial {best.number}" in found.note
    # The best recipe gives the accuracy that the search says it gave: on validation data, of every task.
    stream, learner = build(Config(found, 0, "reference"))
    for task in stream:
        learner.learn(task)
    again = sum(learner.accuracy(task.validation, j) for j, task in enumerate(stream)) / len(stream)
    assert again == pytest.approx(best.value, abs=1e-9)


def test_one_worker_is_repeatable_even_in_pieces(tmp_path: Path) -> None:
    """The search draws from its seed and its history."""
    for name, pieces in (("whole", (3,)), ("pieces", (1, 3))):
        for trials in pieces:
            prepare(tmp_path / name, tuning(trials))
            tune(tmp_path / name, 1, 1, quiet)
    prepare(tmp_path / "whole", tuning(3))
    tune(tmp_path / "whole", 1, 1, quiet)  # complete: nothing happens
    assert len(states(tmp_path / "whole")) == 3
    assert (tmp_path / "whole" / TRIALS).read_text() == (tmp_path / "pieces" / TRIALS).read_text()


def test_killed_in_the_middle_it_goes_on_and_loses_no_trial(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "nispa", "tune", "ewc", "digits", "--trials", "4", "--jobs", "2"]
    command += ["--engine", "reference", "--threads", "2", "--out", str(folder)]
    command += [part for setting in SMALL for part in ("--set", setting)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (folder / STUDY).exists() and (folder / ".count").exists() and "COMPLETE" in states(folder):
            break
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = states(folder).count("COMPLETE")
    assert done >= 1
    time.sleep(0.5)  # the workers notice that their parent is gone
    second = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert second.returncode == 0, second.stderr
    assert "best: trial" in second.stdout
    assert max(len(line) for line in second.stdout.splitlines() if str(folder) not in line) <= 80
    ended = states(folder)
    assert ended.count("COMPLETE") + ended.count("PRUNED") == 4
    assert "RUNNING" not in ended
    assert (folder / BEST).exists()


def test_the_first_trial_is_the_recipes_own(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    prepare(folder, tuning(1, "nispa"))
    best = tune(folder, 1, 1, quiet)
    own = recipe.find("digits", "nispa").method
    assert {name: best.params[name] for name in ("lr", "batch_size", "tau_period")} == {
        name: own[name] for name in ("lr", "batch_size", "tau_period")
    }


def test_another_search_in_the_folder_is_refused(tmp_path: Path) -> None:
    prepare(tmp_path / "one", tuning(2))
    with pytest.raises(NispaError, match="another search"):
        prepare(tmp_path / "one", tuning(2, seed=1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.txt").write_text("mine")
    with pytest.raises(NispaError, match="not empty"):
        prepare(tmp_path / "mine", tuning(2))


def test_a_storage_that_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path / "url", tuning(1))
    for url in ("nonsense", "postgresql://nobody@127.0.0.1:1/none", "mysql+nodriver://x/y"):
        monkeypatch.setenv("NISPA_STORAGE", url)
        with pytest.raises(NispaError, match="storage") as error:
            open_study(tmp_path / "url")
        assert "\n" not in str(error.value)


def test_every_space_belongs_to_a_method_and_holds_valid_values() -> None:
    from optuna.trial import FixedTrial

    assert set(SPACES) <= set(METHODS)
    for method, space in SPACES.items():
        base = recipe.find("digits", method)
        assert all(name in base.method for name in space if "." not in name), method
        for end in ("low", "high"):
            values = {n: getattr(w, end) if hasattr(w, end) else w.values[0] for n, w in space.items()}  # type: ignore[union-attr]
            chosen = {n: w.suggest(FixedTrial(values), n) for n, w in space.items()}
            assert chosen == values


@pytest.mark.parametrize("stream", ["ef-mnist", "cifar10", "cifar100"])
def test_spaces_hold_the_published_values(stream: str) -> None:
    for method in ("nispa", "ewc", "si", "mas", "clnp", "stl", "stl-iso"):
        plain = recipe.find(stream, method).model_dump()
        for name, where in SPACES[method].items():
            value = plain["network"][name.split(".")[1]] if "." in name else plain["method"][name]
            assert value in where, (method, name, value)


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_is_the_same_after_being_written(name: str, tmp_path: Path) -> None:
    found = recipe.find(name, None)
    (tmp_path / "again.toml").write_text(as_toml(found))
    assert validate(parse(tmp_path / "again.toml"), "again") == found


@pytest.mark.slow
def test_postgresql_holds_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server in a folder of its own."""
    found = shutil.which("pg_ctl") or next(iter(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")), None)
    pytest.importorskip("psycopg2", reason="no PostgreSQL driver here: the test of --storage is not run")
    if found is None:
        pytest.skip("no PostgreSQL server here: the test of --storage is not run")
    programs = Path(found).resolve().parent
    root = tmp_path / "pg"
    root.mkdir()
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if user:
        for folder in (root, *tmp_path.parents[:2], tmp_path):
            os.chmod(folder, 0o777)

    def run(*command: str) -> None:
        subprocess.run([*user, *command], check=True, stdout=subprocess.DEVNULL, timeout=60)

    run(str(programs / "initdb"), "-D", str(root / "data"), "-U", "nispa", "-A", "trust")
    options = f"-p 54329 -c listen_addresses=127.0.0.1 -k {root}"
    server = [str(programs / "pg_ctl"), "-D", str(root / "data")]
    run(*server, "-o", options, "-l", str(root / "log"), "-w", "start")
    try:
        monkeypatch.setenv("NISPA_STORAGE", "postgresql+psycopg2://nispa@127.0.0.1:54329/postgres")
        folder = tmp_path / "tune"
        prepare(folder, tuning(4))
        best = tune(folder, 2, 2, quiet)
        assert best.value is not None
        assert not (folder / STUDY).exists()
        assert len(states(folder)) == 4
        assert "54329" not in (folder / "tune.json").read_text()
    finally:
        run(*server, "-m", "immediate", "stop")
