"""The contract of every continual-learning method: learn(task), logits(x, task), state, load_state.

A learner is built from a network and typed keyword hyperparameters. What it has learned is plain data:
tensors and JSON, kept apart from the hyperparameters, so that a checkpoint runs no code.
"""

from __future__ import annotations

import inspect
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from nispa.data.samples import Batch, Samples
from nispa.data.task import Stream, Task
from nispa.errors import NispaError
from nispa.network import Network
from nispa.training import accuracy, mask_logits

Event = dict[str, Any]
"""One line of a run's log: {"event": "epoch" | "phase" | "task", …}, plain JSON."""
Report = Callable[[Event], None]
T = TypeVar("T")


def silent(event: Event) -> None:
    """The default report: nobody listens."""


def warn(text: str, report: Report) -> None:
    """Tell a listener, or Python's warnings if nobody listens."""
    if report is silent:
        warnings.warn(text, UserWarning, stacklevel=4)
    else:
        report({"event": "warning", "text": text})


@dataclass
class TaskRecord:
    """What is known of a task that was learned: a log for people and for results.json."""

    name: str
    classes: list[int]
    class_names: list[str] = field(default_factory=list)
    phases: int = 0
    epochs: int = 0
    samples: int = 0
    final_tau: float | None = None
    stable_units: list[int] | None = None
    new_stable_units: list[int] | None = None
    plastic_units: list[int] | None = None
    free_connections: list[int] | None = None
    validation_accuracy: float | None = None
    seconds: float = 0.0


def plain_as(kind: type[T], plain: Any, what: str) -> T:
    """JSON of a file as a typed value; what does not fit is an error of one line."""
    try:
        return TypeAdapter(kind).validate_json(json.dumps(plain), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in (what, *first["loc"]))
        raise NispaError(f"{where} is not readable ({first['msg']}); the file is damaged") from None


def records(plain: Any, outputs: int) -> list[TaskRecord]:
    """The learned tasks of a file, checked against the network that learned them."""
    found = plain_as(list[TaskRecord], plain, "tasks")
    classes = [c for record in found for c in record.classes]
    if len(set(classes)) < len(classes) or not all(0 <= c < outputs for c in classes):
        raise NispaError(f"the tasks' classes do not fit a network of {outputs} outputs; the file is damaged")
    return found


@dataclass
class State:
    """Everything that a learner has learned, and where it stands."""

    tensors: dict[str, Tensor]
    data: dict[str, Any]


class Learner(ABC):
    """What every method offers; methods add hyperparameters as keyword arguments of ``__init__``."""

    name: ClassVar[str]
    forgets: ClassVar[bool] = True
    """False is a promise: what a finished task's outputs answer never changes again, to the bit."""
    network: Network
    masking: str = "true"
    seed: int = 0

    def __init__(self, network: Network, seed: int) -> None:
        self.network, self.seed = network, seed
        self.tasks: list[TaskRecord] = []

    @abstractmethod
    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        """Learn one more task. ``checkpoint`` is called wherever the state may be saved."""

    @abstractmethod
    def state(self) -> State:
        """Learned state as plain data."""

    @abstractmethod
    def load_state(self, state: State) -> None:
        """Take up a state of ``state()``; a learner of the same hyperparameters goes on from there."""

    @abstractmethod
    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        """``[N, outputs]``: the method's raw answers for a task, before other tasks' are masked out."""

    def logits(self, x: Tensor | Batch, task: int) -> Tensor:
        """Answers for a learned task: outputs of other tasks are minus infinity."""
        classes = self.record(task).classes
        if isinstance(x, Tensor):
            self._readable(x)
        with torch.no_grad():
            return mask_logits(self.answer(x, task), classes, self.masking)

    def _readable(self, x: Tensor) -> None:
        """Refuse a tensor that the network would misread."""
        if x.dtype == torch.uint8:
            raise NispaError(
                "inputs are bytes; how they are scaled belongs to their task: give task.test.batch(rows),"
                " or the scaled values as floats"
            )
        if x.dim() < 2 or not _fits(tuple(x.shape[1:]), self.network.shape.input):
            raise NispaError(
                f"inputs have shape {list(x.shape)}, the network reads {['N', *self.network.shape.input]}"
            )
        bad = int((~torch.isfinite(x)).flatten(1).any(1).sum())
        if bad:
            raise NispaError(f"{bad} of {len(x)} inputs hold NaN or infinity; clean or drop them")

    def predict(self, x: Tensor | Batch, task: int) -> Tensor:
        """The highest of the task's answers, one class number per sample."""
        return self.logits(x, task).argmax(1)

    def accuracy(self, samples: Samples, task: int) -> float:
        return accuracy(lambda batch: self.logits(batch, task), samples)

    def hyperparameters(self) -> dict[str, Any]:
        """The keyword arguments that would build this learner again."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name not in ("self", "network")}

    def admit(self, task: Task) -> None:
        """Refuse a task that this learner cannot learn, in one line."""
        shape = tuple(task.train.inputs.shape[1:])
        expected = self.network.shape.input
        if not _fits(shape, expected):
            raise NispaError(
                f"task {task.name!r} has inputs of shape {list(shape)}, the network reads {list(expected)};"
                " resize the inputs or build the network for them"
            )
        outputs = self.network.classes
        if max(task.classes) >= outputs:
            raise NispaError(
                f"task {task.name!r} needs output {max(task.classes)}, the network has {outputs}"
                f" (0 to {outputs - 1}); add some first:"
                f" network.add_outputs({max(task.classes) + 1 - outputs})"
            )
        for record in self.tasks:
            both = sorted(set(record.classes) & set(task.classes))
            if both:
                raise NispaError(
                    f"task {task.name!r}: class {both[0]} was learned in task {record.name!r};"
                    " give the new task classes of its own"
                )

    def record(self, task: int) -> TaskRecord:
        if not 0 <= task < len(self.tasks):
            raise NispaError(f"there is no task {task}: {len(self.tasks)} learned so far, counted from 0")
        return self.tasks[task]


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Inputs as they are, or flattened for a network that reads features."""
    return shape == expected or (len(expected) == 1 and torch.Size(shape).numel() == expected[0])


class Bound(Learner):
    """A method that is no continual learner but a bound for them: it may look at the whole stream.

    ``foresee`` is called once, before the first ``learn`` and before any ``load_state``. No other method
    is ever shown more than the task at hand, or how many there will be.
    """

    @abstractmethod
    def foresee(self, stream: Stream) -> None:
        """Take from the stream what the bound has to know beforehand."""
