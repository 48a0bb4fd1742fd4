"""What every method has to do: each check builds small learners of it and puts them through one promise.

``check_learner("ewc")`` runs them all; tests run each over every name in ``nispa.methods.METHODS``. A
method registered there is checked without further ado.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nispa.checks.learning import check_same
from nispa.data.augment import Augment
from nispa.data.task import Stream, Task
from nispa.errors import NispaError
from nispa.files import load, save
from nispa.learner import Event, Learner, State
from nispa.network import mlp

TINY: dict[str, Any] = {
    "epochs": 2,
    "phase_epochs": 1,
    "tau_period": 5,
    "accuracy_loss": 100.0,
    "batch_size": 8,
    "patience": 2,
    "shares": 3,
}
"""Hyperparameters that make any method quick; a method is given those that it knows."""


@dataclass
class Subject:
    """A method under test, and how to make small learners of it."""

    cls: type[Learner]

    def learner(self, seed: int = 0, outputs: int = 6) -> Learner:
        known = inspect.signature(self.cls).parameters
        options = {name: value for name, value in TINY.items() if name in known}
        network = mlp((1, 3, 3), [8, 7], classes=outputs, density=0.5, seed=seed)
        return self.cls(network, seed=seed, **options)

    def learned(self, tasks: int = 3, seed: int = 0) -> Learner:
        learner = self.learner(seed)
        for task in _stream().tasks[:tasks]:
            learner.learn(task)
        return learner


def _stream(augment: Augment | None = None) -> Stream:
    """Three tasks of two classes: points with noise around them, as 3x3 images of bytes."""
    rng = np.random.default_rng(7)
    tasks = []
    for t in range(3):
        points = rng.integers(40, 216, (2, 1, 3, 3))
        labels = np.arange(30) % 2
        images = np.clip(points[labels] + rng.integers(-40, 40, (30, 1, 3, 3)), 0, 255).astype(np.uint8)
        halves = [(images[part], labels[part] + 2 * t) for part in (slice(0, 20), slice(20, 30))]
        tasks.append(Task.from_arrays(*halves, name=f"points {t}", augment=augment))
    return Stream("points", tuple(tasks))


def check_learner(method: str | type[Learner]) -> None:
    """Everything that the contract in learner.py promises; raises at the first broken promise."""
    for check in LEARNER_CHECKS.values():
        check(method)


def _subject(method: str | type[Learner]) -> Subject:
    from nispa.methods import method_class

    return Subject(method_class(method) if isinstance(method, str) else method)


def _need(holds: bool, subject: Subject, promise: str) -> None:
    if not holds:
        raise NispaError(f"method {subject.cls.name!r}: {promise}")


def _inputs() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(3).random((11, 1, 3, 3), dtype=np.float32))


def check_repeatable(method: str | type[Learner]) -> None:
    """The seed decides everything, torch's own random state nothing."""
    subject, states = _subject(method), list[State]()
    for seed in (0, 0, 1):
        torch.manual_seed(len(states))
        states.append(subject.learned(2, seed).state())
    check_same(states[0], states[1])
    try:
        check_same(states[0], states[2])
    except NispaError:
        return
    _need(False, subject, "another seed gives the same result")


def check_records(method: str | type[Learner]) -> None:
    """Every task leaves a record and an event; a task's samples are counted; data is not changed."""
    subject = _subject(method)
    learner, events = subject.learner(), list[Event]()
    for number, task in enumerate(_stream()):
        before = task.train.inputs.clone()
        record = learner.learn(task, report=events.append)
        _need(learner.tasks[number] is record, subject, "learn() does not return the record it keeps")
        _need(record.classes == list(task.classes), subject, "the record has other classes")
        _need(record.epochs >= 1 and record.samples >= len(task.train), subject, "samples are not counted")
        _need(record.validation_accuracy is not None, subject, "the record has no validation accuracy")
        _need(bool((task.train.inputs == before).all()), subject, "learn() changed the training data")
    ends = [event["task"] for event in events if event["event"] == "task"]
    _need(ends == [0, 1, 2], subject, f"events of finished tasks are {ends}, want 0, 1, 2")
    _need(any(event["event"] == "epoch" for event in events), subject, "no epoch is reported")
    json.dumps(events)


def check_resumable(method: str | type[Learner]) -> None:
    """Stopped at any checkpoint and taken up by a new learner, it ends in the same bits."""
    subject, whole = _subject(method), _subject(method).learned().state()
    points = 0

    def count() -> None:
        nonlocal points
        points += 1

    learner = subject.learner()
    for task in _stream():
        learner.learn(task, checkpoint=count)
        count()
    check_same(learner.state(), whole)  # taking checkpoints changes nothing
    with tempfile.TemporaryDirectory() as folder:
        for stop in sorted({1, points // 3, points // 2, points - 1, points} - {0}):
            again = subject.learner()
            again.load_state(_stopped_at(subject, stop, Path(folder) / f"{stop}.nispa").state())
            for task in _stream().tasks[len(again.tasks) :]:
                again.learn(task)
            check_same(again.state(), whole)


class _StopError(Exception):
    pass


def _stopped_at(subject: Subject, stop: int, path: Path) -> Learner:
    """What the file written at that checkpoint holds."""
    learner, points = subject.learner(), 0

    def write() -> None:
        nonlocal points
        points += 1
        if points == stop:
            save(learner, path)
            raise _StopError

    try:
        for task in _stream():
            learner.learn(task, checkpoint=write)
            write()
    except _StopError:
        return load(path)
    raise AssertionError(f"checkpoint {stop} did not come")


def check_saved(method: str | type[Learner]) -> None:
    """A file gives back the same learner: hyperparameters, state, and answers to the bit."""
    subject = _subject(method)
    with tempfile.TemporaryDirectory() as folder:
        for tasks in (0, 2):
            learner = subject.learned(tasks)
            path = Path(folder) / f"{tasks}.nispa"
            save(learner, path)
            loaded = load(path)
            _need(type(loaded) is subject.cls, subject, f"the file holds a {type(loaded).__name__}")
            _need(
                loaded.hyperparameters() == learner.hyperparameters(), subject, "a file loses hyperparameters"
            )
            check_same(loaded.state(), learner.state())
            for j in range(tasks):
                same = _bytes(loaded, j) == _bytes(learner, j)
                _need(same, subject, f"a loaded learner answers otherwise for task {j}")


def _answers(learner: Learner, task: int) -> torch.Tensor:
    """What a task's own outputs say."""
    return learner.logits(_inputs(), task)[:, list(learner.record(task).classes)].cpu()


def _bytes(learner: Learner, task: int) -> bytes:
    return _answers(learner, task).numpy().tobytes()


def check_masks(method: str | type[Learner]) -> None:
    """A task's answers are among its own classes, unless the method is class-incremental."""
    subject = _subject(method)
    learner = subject.learned(2)
    for j in range(2):
        logits, classes = learner.logits(_inputs(), j), list(learner.record(j).classes)
        _need(tuple(logits.shape) == (11, 6), subject, f"logits have shape {list(logits.shape)}")
        _need(not logits.requires_grad, subject, "logits() carries gradients")
        _need(bool(torch.isfinite(logits[:, classes]).all()), subject, "a task's own logits are not finite")
        if learner.masking == "true":
            others = [c for c in range(6) if c not in classes]
            hidden = bool((logits[:, others] == -torch.inf).all())
            _need(hidden, subject, "outputs of other tasks are not masked out")
            answered = set(learner.predict(_inputs(), j).tolist())
            _need(answered <= set(classes), subject, "predict() names a class of another task")


def check_old_tasks(method: str | type[Learner]) -> None:
    """A method that promises to forget nothing keeps finished tasks' logits to the bit."""
    subject = _subject(method)
    if subject.cls.forgets:
        return
    learner, answers = subject.learner(), list[bytes]()
    for number, task in enumerate(_stream()):
        learner.learn(task)
        for j, answer in enumerate(answers):
            _need(_bytes(learner, j) == answer, subject, f"task {j} changed while {number} was learned")
        answers.append(_bytes(learner, number))


def check_outputs_can_be_added(method: str | type[Learner]) -> None:
    """When outputs run out an error says how to add some; then everything learned is untouched."""
    subject = _subject(method)
    learner, tasks = subject.learner(outputs=4), _stream().tasks
    for task in tasks[:2]:
        learner.learn(task)
    before = [_answers(learner, j) for j in range(2)]
    _need("add_outputs(2)" in _refusal(subject, learner, tasks[2]), subject, "the error names no remedy")
    learner.network.add_outputs(2)
    # To the rounding of PyTorch's matrix product, which depends on how many outputs there are.
    after = [_answers(learner, j) for j in range(2)]
    same = all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(after, before, strict=True))
    _need(same, subject, "add_outputs changed learned tasks")
    learner.learn(tasks[2])
    _need(tuple(learner.logits(_inputs(), 2).shape) == (11, 6), subject, "the new outputs do not answer")
    if not subject.cls.forgets:
        same = all(torch.equal(_answers(learner, j), answer) for j, answer in enumerate(after))
        _need(same, subject, "learning with new outputs changed old tasks")
    with tempfile.TemporaryDirectory() as folder:
        save(learner, Path(folder) / "more.nispa")
        loaded = load(Path(folder) / "more.nispa")
    check_same(loaded.state(), learner.state())
    for j in range(3):
        _need(_bytes(loaded, j) == _bytes(learner, j), subject, "a file loses added outputs")


def check_errors(method: str | type[Learner]) -> None:
    """What it cannot learn is refused in one line, and leaves the learner as it was."""
    subject = _subject(method)
    learner, stream = subject.learned(1), _stream()
    before = learner.state()
    other = np.random.default_rng(0).random((20, 1, 4, 4)), np.arange(20) % 2 + 2
    far = stream[1].train.inputs, stream[1].train.labels + 50
    for task, words in (
        (stream[0], "was learned"),
        (Task.from_arrays(other, name="large"), "shape"),
        (Task.from_arrays(far, name="far"), "add_outputs"),
    ):
        said = _refusal(subject, learner, task)
        _need(words in said, subject, f"the refusal does not say {words!r}: {said}")
        check_same(learner.state(), before)
    for number in (-1, 1):
        try:
            learner.logits(_inputs(), number)
        except NispaError:
            continue
        _need(False, subject, f"logits() of task {number}, which was not learned, are no error")


def _refusal(subject: Subject, learner: Learner, task: Task) -> str:
    try:
        learner.learn(task)
    except NispaError as error:
        _need("\n" not in str(error), subject, "an error has more than one line")
        return str(error)
    _need(False, subject, f"task {task.name!r} is not refused")
    raise AssertionError


def check_augments(method: str | type[Learner]) -> None:
    """A task's augmentation is used in training, and drawn from the seed."""
    subject, states = _subject(method), list[State]()
    for augment in (Augment(shift=1, flip=True), Augment(shift=1, flip=True), None):
        learner = subject.learner()
        learner.learn(replace(_stream()[0], augment=augment))
        states.append(learner.state())
    check_same(states[0], states[1])
    try:
        check_same(states[0], states[2])
    except NispaError:
        return
    _need(False, subject, "a task's augmentation is not used")


def check_state_is_plain(method: str | type[Learner]) -> None:
    """The state is tensors and JSON, and a copy: learning on does not change it."""
    subject = _subject(method)
    learner = subject.learned(1)
    state = learner.state()
    _need(json.loads(json.dumps(state.data)) == state.data, subject, "state().data is not plain JSON")
    before = {name: tensor.cpu().numpy().tobytes() for name, tensor in state.tensors.items()}
    learner.learn(_stream()[1])
    for name, content in before.items():
        same = state.tensors[name].cpu().numpy().tobytes() == content
        _need(same, subject, f"tensor {name!r} of state() changes when learning goes on")


def check_last(method: str | type[Learner]) -> None:
    """``learn(task, last=True)`` is taken by every method."""
    learner = _subject(method).learned(1)
    record = learner.learn(_stream()[1], last=True)
    _need(record.epochs >= 1, _subject(method), "the last task was not trained")


LEARNER_CHECKS: dict[str, Callable[[str | type[Learner]], None]] = {
    name.removeprefix("check_"): check
    for name, check in list(globals().items())
    if name.startswith("check_") and name not in ("check_learner", "check_same")
}
"""Every check of this module by name; a new one is found by being here."""
