"""What the methods beside NISPA share: one call of ``fit`` per task, and their state as plain data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from nispa.data.task import Task
from nispa.draws import AUGMENT, BATCHES, generator
from nispa.errors import NispaError
from nispa.learner import Learner, Report, State, TaskRecord, records
from nispa.network import Network
from nispa.state import build_network, network_data, network_tensors
from nispa.training import Beside, History, Loss, Optimization, accuracy, augmentation, fit, mask_logits


def train_task(
    learner: Learner,
    network: Network,
    task: Task,
    loss: Loss,
    how: Optimization,
    *,
    epochs: int,
    report: Report,
    patience: int | None = None,
    keep: str = "best",
    beside: Beside | None = None,
    adjust: Callable[[], None] | None = None,
    after_step: Callable[[], None] | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
    after: Callable[[TaskRecord, History], None] | None = None,
) -> TaskRecord:
    """Train on one task, with early stopping on validation, and note it in ``learner.tasks``.

    ``beside`` adds a term to every step's loss, ``adjust`` may change the gradients between backward and
    step, ``after_step`` and ``on_epoch`` see the new weights. ``after`` does what the method has to do at
    the task's end (measure importance, prune); its time counts, and it may complete the record.
    """
    started, number = time.monotonic(), len(learner.tasks)

    def validate() -> float:
        return accuracy(
            lambda batch: mask_logits(network(batch), task.classes, learner.masking), task.validation
        )

    def epoch_done(epoch: int, a: float) -> None:
        report({"event": "epoch", "task": number, "phase": 1, "epoch": epoch, "validation_accuracy": a})
        if on_epoch is not None:
            on_epoch(epoch, a)

    history = fit(
        network,
        task.train,
        loss,
        how,
        epochs=epochs,
        draws=lambda epoch: generator(learner.seed, BATCHES, number, 1, epoch),
        validate=validate,
        keep=keep,
        patience=patience,
        beside=beside,
        adjust=adjust,
        after_step=after_step,
        augment=augmentation(task, lambda epoch: generator(learner.seed, AUGMENT, number, 1, epoch)),
        on_epoch=epoch_done,
    )
    record = TaskRecord(
        task.name,
        list(task.classes),
        list(task.class_names),
        phases=1,
        epochs=len(history.accuracies),
        samples=history.samples,
        validation_accuracy=history.accuracy,
    )
    if after is not None:
        after(record, history)
    record.seconds = time.monotonic() - started
    note(learner, record, report)
    return record


def note(learner: Learner, record: TaskRecord, report: Report) -> None:
    """The task is learned: it counts from here on."""
    report({"event": "task", "task": len(learner.tasks), **vars(record)})
    learner.tasks.append(record)


def require(ok: bool, name: str, value: object, want: str) -> None:
    """Refuse a hyperparameter in one line."""
    if not ok:
        raise NispaError(f"{name} is {value}; want {want}")


def plain_state(learner: Learner, **data: Any) -> State:
    """The network and the tasks; a method adds its own tensors and JSON."""
    tasks = [asdict(record) for record in learner.tasks]
    return State(
        network_tensors(learner.network), {"network": network_data(learner.network), "tasks": tasks, **data}
    )


def load_plain_state(learner: Learner, state: State) -> None:
    network = build_network(state.tensors, state.data["network"]).to(learner.network.device)
    learner.tasks = records(state.data["tasks"], network.classes)
    learner.network = network
