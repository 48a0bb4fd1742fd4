"""What a model can be asked: what a picture is, how often it is right, what it has learned."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from nispa.errors import NispaError
from nispa.model.content import Known
from nispa.model.sources import Material

BATCH = 64


@dataclass(frozen=True)
class Answer:
    """What one task says about one input."""

    task: str
    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True)
class Prediction:
    """What the model says about one input: the task's answer, or every task's with the likeliest first."""

    task: str
    label: str
    probability: float
    answers: list[Answer]


@dataclass(frozen=True)
class Evaluation:
    """How a task does on samples with known classes."""

    task: str
    samples: int
    accuracy: float
    by_class: dict[str, tuple[int, int]]
    """class -> (right, all)"""
    task_found: float
    """Share of the samples for which the likeliest task is this one."""


@dataclass(frozen=True)
class TaskInfo:
    """What is known about a learned task."""

    name: str
    classes: list[str]
    accuracy: float
    """On the validation samples, when learned."""
    samples: int
    validation: int
    found: float
    """Share of these for which the likeliest task was this one, when learned."""
    learned: str
    units: list[int]
    """That became stable with it, per hidden layer."""
    phases: int
    epochs: int
    seconds: float
    notes: list[str] = field(default_factory=list)


def learned(inside: Known) -> list[TaskInfo]:
    """The learned tasks in their order, without those that were given up."""
    wiring, found = inside.network.wiring, []
    for i in inside.alive():
        record, taught = inside.learner.tasks[i], inside.tasks[i]
        found.append(
            TaskInfo(
                record.name,
                list(record.class_names),
                taught.accuracy,
                taught.samples,
                taught.validation,
                taught.found,
                taught.learned,
                [int((wiring.became[g] == i).sum()) for g in wiring.hidden],
                record.phases,
                record.epochs,
                record.seconds,
                list(taught.notes),
            )
        )
    return found


def predict(inside: Known, values: Tensor, task: str | None) -> list[Prediction]:
    """What each sample is: by one task, or by every task with the likeliest first."""
    numbers = inside.alive() if task is None else [inside.number(task)]
    found: list[Prediction] = []
    for part in torch.split(values, BATCH):
        shares = {n: _shares(inside, part, n) for n in numbers}
        first = _likeliest(inside, part) if task is None else [numbers[0]] * len(part)
        for row in range(len(part)):
            answers = [_answer(inside, n, shares[n][row]) for n in numbers]
            answers.sort(key=lambda a, n=first[row]: a.task != inside.learner.tasks[n].name)  # type: ignore[misc]
            best = answers[0]
            found.append(Prediction(best.task, best.label, best.probability, answers))
    return found


def evaluate(inside: Known, number: int, given: Material) -> Evaluation:
    """How often a task is right on samples with known classes (their test part, if they have one)."""
    task, names = inside.learner.tasks[number].name, inside.learner.tasks[number].class_names
    values, labels = given.test if given.test is not None else given.train
    unknown = [name for name in given.classes if name not in names]
    if unknown:
        raise NispaError(f"class {unknown[0]!r} is none of task {task!r} ({', '.join(names)})")
    predicted: list[int] = []
    right_task = 0
    for part in torch.split(values, BATCH):
        predicted += _shares(inside, part, number).argmax(1).tolist()
        right_task += _likeliest(inside, part).count(number)
    by_class = dict.fromkeys(given.classes, (0, 0))
    for guess, label in zip(predicted, labels.tolist(), strict=True):
        name = given.classes[label]
        right, count = by_class[name]
        by_class[name] = (right + (names[guess] == name), count + 1)
    total = len(predicted)
    return Evaluation(task, total, sum(r for r, _ in by_class.values()) / total, by_class, right_task / total)


def _shares(inside: Known, part: Tensor, number: int) -> Tensor:
    """A task's softmax over its classes."""
    with torch.no_grad():
        return inside.part(number)(inside.batch(part)).detach().cpu().softmax(1)


def _likeliest(inside: Known, part: Tensor) -> list[int]:
    return inside.guess(inside.batch(part).tensor())


def _answer(inside: Known, number: int, shares: Tensor) -> Answer:
    record = inside.learner.tasks[number]
    best = int(shares.argmax())
    named = dict(zip(record.class_names, shares.tolist(), strict=True))
    return Answer(record.name, record.class_names[best], float(shares[best]), named)
