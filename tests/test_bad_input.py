"""Bad input: one clear line through the public names and through the command, and nothing lost."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nispa
from nispa import NispaError, Stream, Task

RNG = np.random.default_rng(0)
X, Y = RNG.random((20, 9), dtype=np.float32), np.arange(20) % 2
BAD = X.copy()
BAD[3, 1] = np.nan
INFINITE = X.copy()
INFINITE[5] = np.inf


def task(first: int = 0, **options: Any) -> Task:
    return Task.from_arrays((X, Y + first), name=f"from {first}", **options)


def learner(outputs: int = 4) -> nispa.NISPA:
    net = nispa.mlp(9, [8], classes=outputs, density=0.5)
    return nispa.NISPA(net, phase_epochs=1, accuracy_loss=60, tau_period=4)


def learn(*tasks: Task) -> None:
    one = learner()
    for task in tasks:
        one.learn(task)


class Items:
    """A map-style Dataset."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


CASES: list[tuple[str, Callable[[], Any]]] = [
    # names
    ("did you mean 'stl'", lambda: nispa.methods.method_class("stll")),
    ("did you mean 'digits'", lambda: nispa.streams.build("digit")),
    ("unknown option 'subst'; did you mean 'subset'", lambda: nispa.streams.build("digits", subst=0.1)),
    # networks
    ("density is 0; want a number above 0", lambda: nispa.mlp(9, [8], classes=4, density=0)),
    ("density is 1.01", lambda: nispa.mlp(9, [8], classes=4, density=1.01)),
    ("density is -0.2", lambda: nispa.cnn((3, 8, 8), classes=4, density=-0.2)),
    # tasks
    ("has no training samples", lambda: Task.from_arrays((X[:0], Y[:0]))),
    ("has one class (0)", lambda: Task.from_arrays((X, Y * 0))),
    ("no training sample of class 7", lambda: task(classes=[0, 1, 7])),
    ("class 1 is none of the task's classes", lambda: task(classes=[0, 2])),
    ("input 3 holds NaN or infinity (1 of 20 do)", lambda: Task.from_arrays((BAD, Y))),
    ("input 5 holds NaN or infinity", lambda: Task.from_arrays((INFINITE, Y))),
    ("labels are torch.float64; want integer", lambda: Task.from_arrays((X, Y.astype(float)))),
    ("labels are torch.bool", lambda: Task.from_arrays((X, Y == 1))),
    ("labels have shape [20, 2]", lambda: Task.from_arrays((X, np.eye(2, dtype=int)[Y]))),
    ("20 inputs but 19 labels", lambda: Task.from_arrays((X, Y[:19]))),
    ("label -1 is negative", lambda: Task.from_arrays((X, Y - 1))),
    ("inputs have shape [20]", lambda: Task.from_arrays((X[:, 0], Y))),
    ("want real numbers", lambda: Task.from_arrays((X.astype(complex), Y))),
    ("want (inputs, labels)", lambda: Task.from_arrays(7)),
    ("test: inputs of shape [8], but [9]", lambda: Task.from_arrays((X, Y), (X[:, :8], Y))),
    ("validation: no samples", lambda: Task.from_arrays((X, Y), validation=(X[:0], Y[:0]))),
    ("validation_fraction is 1.5", lambda: task(validation_fraction=1.5)),
    ("the Dataset is empty", lambda: Task.from_arrays(Items())),
    ("inputs differ in shape", lambda: Task.from_arrays(Items((X[0], 0), (X[0, :4], 1)))),
    ("must be (input, label) pairs", lambda: Task.from_arrays(Items(1, 2))),
    # streams
    ("has no tasks", lambda: Stream("mine", ())),
    ("class 0 is in task 'from 0' and in 'from 0'", lambda: Stream("mine", (task(), task()))),
    (
        "has inputs of shape [8], the first task [9]",
        lambda: Stream("mine", (task(), Task.from_arrays((X[:, :8], Y + 2)))),
    ),
    # learning
    ("class 0 was learned in task 'from 0'", lambda: learn(task(), task())),
    ("add some first: network.add_outputs(2)", lambda: learn(task(), task(4))),
    ("has inputs of shape [8], the network reads [9]", lambda: learn(Task.from_arrays((X[:, :8], Y)))),
    ("there is no task 0: 0 learned so far", lambda: learner().logits(torch.zeros(1, 9), 0)),
    ("task 'from 0' has no test samples", lambda: nispa.Results(Stream("mine", (task(),)))),
    ("cannot add -1 outputs", lambda: learner().network.add_outputs(-1)),
    ("seed is -1", lambda: nispa.mlp(9, [8], classes=4, seed=-1)),
    # files
    ("nowhere.nispa does not exist", lambda: nispa.load("nowhere.nispa")),
    ("cannot write /nowhere/a.nispa", lambda: nispa.save(learner(), "/nowhere/a.nispa")),
]


@pytest.mark.parametrize(("words", "call"), CASES, ids=[words for words, _ in CASES])
def test_bad_input_is_one_line(words: str, call: Callable[[], Any]) -> None:
    with pytest.raises(NispaError) as found:
        call()
    assert words in str(found.value)
    assert "\n" not in str(found.value)


def test_a_refused_task_leaves_the_learner_able_to_learn_the_right_one() -> None:
    one = learner()
    one.learn(task())
    for wrong in (task(), task(4)):
        with pytest.raises(NispaError):
            one.learn(wrong)
    one.network.add_outputs(2)
    one.learn(task(4))
    assert [record.classes for record in one.tasks] == [[0, 1], [4, 5]]


SMALL = [
    part
    for setting in "network.hidden=[12] phase_epochs=1 tau_period=4 accuracy_loss=30".split()
    for part in ("--set", setting)
]


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "nispa", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, **options)


def one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode not in (0, None)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    assert command("run", "digits", "--out", out, *SMALL).returncode == 0
    return out


def test_a_folder_that_holds_another_run_is_left_alone(finished: Path, tmp_path: Path) -> None:
    out = finished
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    one_line(command("run", "digits", "--seed", 5, "--out", out, *SMALL), "holds another run", str(out))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    one_line(command("run", "digits", "--out", tmp_path / "mine"), "not empty")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_no_space_left(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk; afterwards the run goes on."""
    out = tmp_path / "out"
    full = command(
        "run", "digits", "--out", out, *SMALL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # no compiled file is left cut by the limit
    )  # fmt: skip
    one_line(full, "cannot write", "space")
    assert not list(out.glob("*.tmp"))
    assert command("resume", out).returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    one_line(command("run", "digits", "--out", tmp_path / "out", *SMALL), "cannot create folder")


def test_no_permission_as_anyone(tmp_path: Path) -> None:
    """Also for root: a file stands where the folder should be."""
    (tmp_path / "file").write_text("mine")
    one_line(command("run", "digits", "--out", tmp_path / "file" / "out", *SMALL), "cannot create folder")
    one_line(command("run", "digits", "--out", tmp_path / "file", *SMALL), str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run", "--stream requires an argument; see nispa run --help"),
        ("run digits extra", "Unused Tokens: ['extra']"),
        ("run digits --threads x", "'x' is not a whole number"),
        ("run digits --jobs 1.5", "'1.5' is not a whole number"),
        ("new m.nispa --input 4 --classes 2.5", "'2.5' is not a whole number"),
        ("run digits --threads 100000", "--threads is 100000; want 1 to 256"),
        ("run digits --engine natve", 'Did you mean "native"'),
        ("run digits --method=", "unknown method ''"),
        ("run digits --set name=ewc", "choose a method with --method ewc"),
        ("run digits --set lr=-1", "lr is -1.0; want a number above 0"),
        ("run digits --set network.hidden=[0]", "hidden [0]"),
        ("run digits --set network.hidden=[99999999]", "not enough memory"),
        ("run file", "file is a file of another kind"),
        ("run mnist --data file", "file' is not a folder"),
        ("resume file", "file holds no run"),
        ("resume nowhere --jobs 0", "--jobs is 0; want 1 to 256"),
        ("compare file", "file is not a results file of a run (Expecting value"),
        ("compare config.json", "'config' is missing"),
        ("nonsense", 'Unknown command "nonsense"'),
        ("data get mnst", "did you mean 'mnist'"),
        ("new m.nispa --like mlp --input", "--input requires an argument; see nispa new --help"),
    ],
)
def test_wrong_words_on_the_command_line(line: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "config.json").write_text("{}")
    limit = 16 << 30  # the memory of a machine, wherever this runs
    done = command(
        *line.split(), cwd=tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    )
    one_line(done, words)
    assert done.returncode == (1 if "memory" in words else 2)


def test_a_run_that_never_began_does_not_stand_in_the_way(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one_line(command("run", "digits", "--set", "lr=-1", "--out", out, *SMALL), "lr is -1.0")
    assert command("run", "digits", "--out", out, *SMALL).returncode == 0


def test_a_folder_is_no_place_for_a_file(finished: Path, tmp_path: Path) -> None:
    done = command("compare", finished, "--json", tmp_path)
    one_line(done, f"cannot write {tmp_path}: Is a directory; choose another place")


def test_waiting_threads_do_not_spin_for_long() -> None:
    code = "import nispa, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    clean = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    for more, spins in (
        ({}, "20000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, "None"),
    ):
        line = [sys.executable, "-c", code]
        done = subprocess.run(line, env=clean | more, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == spins


def test_a_broken_recipe_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for text, words in (
        ("[stream\n", "not valid TOML"),
        ('[stream]\nname = "digits"\n[network]\ndensty = 0.2\n', "did you mean 'density'"),
        ('[stream]\nname = "digits"\n[method]\nname = "nipsa"\n', "did you mean 'nispa'"),
        ('[stream]\nname = "digits"\n[method]\nname = "nispa"\nlr = "fast"\n', "lr"),
    ):
        path.write_text(text)
        one_line(command("run", path, "--out", tmp_path / "out"), words)


def test_own_arrays_that_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=BAD, y_train=Y, x_test=X, y_test=Y)
    done = command("run", path, "--out", tmp_path / "out", *SMALL)
    one_line(done, "mine.npz")
    path.write_bytes(b"PK\x03\x04 nothing")
    one_line(command("run", path, "--out", tmp_path / "out2", *SMALL), "mine.npz")


@pytest.mark.parametrize("name", ["config.json", "results.json", "checkpoint.nispa"])
def test_a_damaged_run_folder(name: str, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    if name == "checkpoint.nispa":
        (out / "results.json").unlink()
        (out / "checkpoint.previous.nispa").write_bytes(b"x")
    (out / name).write_bytes((out / name).read_bytes()[:100])
    done = command("resume", out)
    if name == "checkpoint.nispa":  # both are gone: it starts anew, and says so
        assert done.returncode == 0
        assert done.stdout.count("going back") == 2
    else:
        one_line(done, name)


def test_help_is_fast() -> None:
    """Under 0.3 s. Measured is the processor's time: other work may go on beside the tests."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert command("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(4)) < 0.3
