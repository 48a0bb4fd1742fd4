"""Learning one more task into a model file, so that it may be killed at any moment.

While it goes on, a second file, NAME.learning, holds the state after the last phase; the model file itself
is replaced once, at the end, after the old tasks were compared. The second file says of which model file it
is a continuation (by hash), so one that is left over can do no harm.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nispa import files
from nispa.algorithm import NISPA
from nispa.capacity import part_for
from nispa.data.samples import Samples
from nispa.data.task import Task, split
from nispa.errors import NispaError
from nispa.learner import Report, warn
from nispa.model import settings as defaults
from nispa.model.content import Known, build_learner, contents
from nispa.model.file import Taught, to_bytes, write
from nispa.model.guess import Guess, sums
from nispa.model.inputs import samples, standardised
from nispa.model.proof import compare, digest, fingerprint, made_here
from nispa.model.settings import Settings
from nispa.model.sources import Material
from nispa.training import accuracy, mask_logits

CHANCE_DEVIATIONS = 2.0


@dataclass(frozen=True)
class Lesson:
    """A task, ready to be learned, with what was decided about it."""

    task: Task
    plain_train: Samples
    """Without repeats of rare classes."""
    plain_validation: Samples
    settings: Settings
    repeats: dict[int, int]


def learning_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.learning")


def prepare(known: Known, given: Material, minutes: float | None, augment: bool, report: Report) -> Lesson:
    """Outputs, validation split, balance, augmentation, hyperparameters: everything that needs no thought."""
    outputs = _free_outputs(known, given)
    classes = dict(enumerate(outputs))
    if not known.tasks and known.inputs.kind == "features":
        known.inputs = standardised(known.inputs, given.train[0])

    def part(pair: tuple[torch.Tensor, torch.Tensor]) -> Samples:
        return samples(known.inputs, pair[0], torch.tensor([classes[int(c)] for c in pair[1]]))

    train = part(given.train)
    _enough(given, train, outputs)
    if given.validation is not None:
        validation = part(given.validation)
    else:
        share = defaults.validation_share(len(train))
        train, validation = split(train, share, known.seed + len(known.tasks), given.name)
    even, repeats = defaults.balanced(train)
    even_validation, _ = defaults.balanced(validation)
    task = Task.from_arrays(
        even,
        part(given.test) if given.test is not None else None,
        even_validation,
        name=given.name,
        classes=outputs,
        class_names=given.classes,
        augment=defaults.changes(known.inputs.shape, augment),
    )
    chosen = defaults.choose(known.network, len(even), len(validation))
    if minutes is not None:
        seconds = defaults.seconds_per_epoch(known.network, task, chosen)
        chosen = defaults.fit_into(chosen, minutes, seconds)
    rare = [known_name for c, known_name in enumerate(given.classes) if repeats[outputs[c]] > 1]
    if rare:
        report({"event": "note", "text": f"few samples of {', '.join(rare)}: they are shown more often"})
    return Lesson(task, train, validation, chosen, repeats)


def _free_outputs(known: Known, given: Material) -> list[int]:
    if len(given.classes) < 2:
        raise NispaError(f"{given.name}: one class ({given.classes[0]!r}); give two or more to tell apart")
    free = np.flatnonzero(~known.network.wiring.stable[-1])
    return [int(c) for c in free[: len(given.classes)]]


def _enough(given: Material, train: Samples, outputs: list[int]) -> None:
    counts = np.bincount(train.labels.numpy(), minlength=max(outputs) + 1)
    for name, output in zip(given.classes, outputs, strict=True):
        if counts[output] < 2 and given.validation is None:
            raise NispaError(
                f"{given.name}: class {name!r} has {counts[output]} sample; give two at least"
                " (ten and more for an answer worth having)"
            )


def learn(
    path: Path,
    known: Known,
    given: Material,
    *,
    minutes: float | None,
    augment: bool,
    restart: bool,
    undo: bytes,
    report: Report,
) -> Known:
    """Teach ``known`` the task, resuming what was interrupted, and replace the file.

    The caller has the lock; ``undo`` is the file that `nispa undo` is to bring back.
    """
    started = time.monotonic()
    base = hashlib.sha256(plain_bytes(known)).hexdigest()
    lesson = prepare(known, given, minutes, augment, report)
    job = {"name": given.name, "data": given.fingerprint(), "base": base}
    aside = learning_file(path)
    resumed = None if restart else _resume(aside, job, report)
    settings = resumed.settings if resumed else lesson.settings
    learner = build_learner(contents(known), {**known.learner.hyperparameters(), **settings})
    spent = 0.0
    if resumed:
        learner.load_state(resumed.state)
        spent = resumed.seconds
    limit = float("inf") if minutes is None else 60 * minutes - spent
    share = defaults.fair_share(len(given.classes), learner.network.classes)
    ending = defaults.Ending(
        learner,
        learner.schedule,
        share,
        lambda: time.monotonic() - started > limit,
        **(resumed.ending if resumed else {}),
    )
    learner.schedule = ending

    def checkpoint() -> None:
        seconds = spent + time.monotonic() - started
        files.save(learner, aside, job=job, settings=settings, seconds=seconds, ending=ending.state())

    report(
        {
            "event": "begin",
            "task": len(learner.tasks),
            "tasks": len(learner.tasks) + 1,
            "name": given.name,
            "settings": settings,
            "samples": len(lesson.plain_train),
            "validation": len(lesson.plain_validation),
        }
    )
    old = {i: fingerprint(known.part(i), known.probes) for i in known.alive()}
    try:
        learner.learn(lesson.task, report=report, checkpoint=checkpoint)
    except NispaError:  # such as weights that became infinite: going on would end there again
        aside.unlink(missing_ok=True)
        raise
    result = _finish(known, learner, lesson, settings, old)
    _warn(result, lesson, report)
    result.undo = undo
    write_known(path, result)
    aside.unlink(missing_ok=True)
    return result


def write_known(path: Path, known: Known) -> None:
    found = contents(known)
    write(path, found)
    known.origin = found.origin


def plain_bytes(known: Known) -> bytes:
    """The file without its undo: what the next change's undo brings back."""
    found = contents(known)
    found.undo = None
    return to_bytes(found)


@dataclass(frozen=True)
class _Resumed:
    state: Any
    settings: Settings
    seconds: float
    ending: dict[str, Any]


def _resume(aside: Path, job: dict[str, str], report: Report) -> _Resumed | None:
    """What an interrupted learning left, if it is of this very model, task and data."""
    if not aside.exists():
        return None
    try:
        state, metadata = files.read(aside)
        left, settings = metadata["extra"]["job"], dict(metadata["extra"]["settings"])
        seconds, phase = float(metadata["extra"]["seconds"]), int(state.data["progress"]["phase"])
        same_model, same = left["base"] == job["base"], left == job
        name, ending = str(left["name"]), dict(metadata["extra"]["ending"])
    except (NispaError, KeyError, TypeError, ValueError):
        warn(f"{aside} is not readable; learning starts over", report)
        return None
    if not same_model:
        return None  # of a model file that has changed since
    if not same:
        raise NispaError(
            f"learning {name!r} was interrupted; go on with it (same data, same name),"
            " or give it up with --restart"
        )
    report({"event": "note", "text": f"going on where learning {name!r} was interrupted, phase {phase}"})
    return _Resumed(state, settings, seconds, ending)


def _finish(
    known: Known, learner: NISPA, lesson: Lesson, settings: Settings, old: dict[int, torch.Tensor]
) -> Known:
    """Compare the old tasks, bit for bit, and keep what the new one is known by."""
    network, number = learner.network, len(known.tasks)
    for i in known.alive():
        name = known.learner.tasks[i].name
        now = fingerprint(part_for(network, known.outputs(i)), known.probes)
        alike, difference = compare(old[i], now, exact=True)
        if not alike or digest(network, i) != known.tasks[i].digest:
            raise NispaError(
                f"task {name!r} would not be what it was (logits differ by {difference:.2g});"
                " the file is left as it was; please report this"
            )
    outputs = list(lesson.task.classes)
    gram, own = sums(known.features, lesson.plain_train, outputs)
    gram += known.gram
    guess = Guess(known.features, gram, {**{i: known.sums[i] for i in known.alive()}, number: own})
    taught = Taught(
        learned=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        samples=len(lesson.plain_train),
        validation=len(lesson.plain_validation),
        accuracy=_accuracy(learner, lesson.plain_validation, number),
        settings=dict(settings),
        digest=digest(network, number),
        made=made_here(network),
        found=_found(guess, lesson.plain_validation, number),
    )
    return Known(
        learner,
        known.seed,
        known.inputs,
        [*known.tasks, taught],
        known.probes,
        [*known.logits, fingerprint(part_for(network, outputs), known.probes)],
        gram,
        [*known.sums, own],
        change=f"learned {lesson.task.name}",
    )


def _accuracy(learner: NISPA, validation: Samples, number: int) -> float:
    classes = learner.tasks[number].classes
    return accuracy(lambda batch: mask_logits(learner.network(batch), classes, "true"), validation)


def _found(guess: Guess, validation: Samples, number: int) -> float:
    told = [n for batch in validation.batches(512) for n in guess(batch.tensor())]
    return told.count(number) / len(told)


def _warn(known: Known, lesson: Lesson, report: Report) -> None:
    """Say so where a number means little."""
    reached, classes = known.tasks[-1].accuracy, len(lesson.task.classes)
    count, chance = len(lesson.plain_validation), 1 / classes
    deviation = (chance * (1 - chance) / count) ** 0.5
    if reached <= chance + CHANCE_DEVIATIONS * deviation:
        text = (
            f"{lesson.task.name!r} is no better than guessing ({reached:.0%} of {count} right,"
            f" chance is {chance:.0%}); give more or clearer samples, and take it back with `nispa undo`"
        )
        warn(text, report)
    elif count < 40:
        text = (
            f"{lesson.task.name!r} was judged by {count} validation samples: one is {1 / count:.1%},"
            " so take its accuracy as a rough guess"
        )
        warn(text, report)
