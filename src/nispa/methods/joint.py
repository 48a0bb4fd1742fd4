"""Joint: all tasks at once, the upper bound of methods that learn them one after the other in one network.

The runner shows the stream (``foresee``); the first ``learn`` then trains on the samples of all tasks, and
later ones find their task learned. Without a stream it can only learn what it has been given: every
``learn`` trains anew on all tasks so far, whose samples it keeps (they are in its files, too).

The loss of every sample is the cross-entropy over its own task's outputs; with ``masking = "none"`` the
same class is the class-incremental bound, over all outputs.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=1)
    >>> learner = nispa.methods.method_class("joint")(net, epochs=2)
    >>> learner.foresee(stream)
    >>> [learner.learn(task).samples for task in stream]     # 1295 training samples, two epochs
    [2590, 0, 0, 0, 0]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nispa.data.samples import Batch, Samples
from nispa.data.task import Stream, Task
from nispa.draws import AUGMENT, BATCHES, generator
from nispa.errors import NispaError
from nispa.learner import Bound, Report, State, TaskRecord, silent
from nispa.methods.common import load_plain_state, note, plain_state, require
from nispa.network import Network
from nispa.training import Optimization, accuracy, augmentation, fit


class AllAtOnce(Bound):
    """``masking`` says over which outputs a sample's softmax runs: its task's ("true") or all ("none")."""

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        patience: int | None = 3,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(network, seed)
        self.lr, self.batch_size, self.epochs, self.patience = lr, batch_size, epochs, patience
        self.optimizer, self.momentum, self.weight_decay = optimizer, momentum, weight_decay
        self.how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        require(epochs >= 1, "epochs", epochs, "1 or more")
        require(patience is None or patience >= 1, "patience", patience, "1 epoch or more, or none")
        self.foreseen: tuple[Task, ...] = ()
        self.given: list[Task] = []
        """The tasks so far, where no stream was foreseen."""

    def foresee(self, stream: Stream) -> None:
        self.foreseen = stream.tasks

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        self.admit(task)
        started, number = time.monotonic(), len(self.tasks)
        record = TaskRecord(task.name, list(task.classes), list(task.class_names), phases=1)
        if not self.foreseen:
            self.given.append(task)
            if number:
                self.network = self.network.fresh(self.network.seed).to(self.network.device)
            self._train(self.given, record, report)
        else:
            if number >= len(self.foreseen) or self.foreseen[number].classes != task.classes:
                raise NispaError(
                    f"{self.name}: task {task.name!r} is not task {number} of the stream that it foresaw;"
                    " learn that stream's tasks, in its order"
                )
            if number == 0:
                self._train(self.foreseen, record, report)
        record.validation_accuracy = accuracy(
            lambda batch: self.mask(self.network(batch), [task.classes], task.validation.labels[batch.rows]),
            task.validation,
        )
        record.seconds = time.monotonic() - started
        note(self, record, report)
        return record

    def _train(self, tasks: Sequence[Task], record: TaskRecord, report: Report) -> None:
        number, groups = len(self.tasks), [task.classes for task in tasks]
        train, held = together([t.train for t in tasks]), together([t.validation for t in tasks])

        def answers(batch: Batch) -> Tensor:
            return self.mask(self.network(batch), groups, held.labels[batch.rows])

        history = fit(
            self.network,
            train,
            lambda logits, labels: F.cross_entropy(
                self.mask(logits, groups, labels), labels.to(logits.device)
            ),
            self.how,
            epochs=self.epochs,
            draws=lambda epoch: generator(self.seed, BATCHES, number, 1, epoch),
            validate=lambda: accuracy(answers, held),
            patience=self.patience,
            augment=augmentation(tasks[-1], lambda epoch: generator(self.seed, AUGMENT, number, 1, epoch)),
            on_epoch=lambda epoch, a: report(
                {"event": "epoch", "task": number, "phase": 1, "epoch": epoch, "validation_accuracy": a}
            ),
        )
        record.epochs, record.samples = len(history.accuracies), history.samples

    def mask(self, logits: Tensor, groups: Sequence[Sequence[int]], labels: Tensor) -> Tensor:
        """Outputs of other tasks than the label's are minus infinity (unless ``masking`` is "none")."""
        if self.masking == "none":
            return logits
        task_of = torch.full((logits.shape[1],), -1)
        for i, classes in enumerate(groups):
            task_of[list(classes)] = i
        other = task_of[labels][:, None] != task_of[None]
        return logits.masked_fill(other.to(logits.device), -torch.inf)

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        return self.network(x)

    def state(self) -> State:
        state = plain_state(self, given=len(self.given))
        for i, task in enumerate(self.given):
            for part, samples in (("train", task.train), ("validation", task.validation)):
                for field in FIELDS:
                    if (tensor := getattr(samples, field)) is not None:
                        state.tensors[f"given{i}.{part}.{field}"] = tensor.clone()
        return state

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)

        def part(i: int, name: str) -> Samples:
            return Samples(*(state.tensors.get(f"given{i}.{name}.{field}") for field in FIELDS))  # type: ignore[arg-type]

        self.given = [
            Task(record.name, tuple(record.classes), part(i, "train"), part(i, "validation"))
            for i, record in enumerate(self.tasks[: int(state.data["given"])])
        ]


FIELDS = ("inputs", "labels", "scale", "shift")


def together(parts: Sequence[Samples]) -> Samples:
    """The samples of several tasks as one set; they are of one data set, so they are scaled alike."""
    first = parts[0]
    for part in parts[1:]:
        for one, other in ((first.scale, part.scale), (first.shift, part.shift)):
            if (one is None) != (other is None) or (one is not None and not torch.equal(one, other)):  # type: ignore[arg-type]
                raise NispaError("the tasks' inputs are scaled differently; scale them alike")
    inputs, labels = torch.cat([p.inputs for p in parts]), torch.cat([p.labels for p in parts])
    return replace(first, inputs=inputs, labels=labels)


class Joint(AllAtOnce):
    """All tasks at once, each with its own outputs: the task-incremental upper bound.

    patience  early stopping: so many epochs without a better validation accuracy end the training
    """

    name: ClassVar[str] = "joint"
    masking: str = "true"
