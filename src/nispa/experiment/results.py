"""What a run is judged by: the accuracy matrix and the numbers that follow from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nispa.data.samples import Samples
from nispa.data.task import Stream, Task
from nispa.errors import NispaError
from nispa.training import accuracy, mask_logits

if TYPE_CHECKING:
    from nispa.learner import Learner
    from nispa.network import Network


class Results:
    """Test accuracy of every task after every task; all accuracies lie in 0..1.

    Row i of ``accuracy`` was measured after task i, column j is task j; what was not yet learned is None.
    """

    def __init__(self, stream: Stream) -> None:
        for task in stream:
            if task.test is None:
                raise NispaError(f"task {task.name!r} has no test samples; results need some")
        self.stream = stream
        self.accuracy: list[list[float | None]] = []
        self.chance: list[float] = []
        """A fresh network's accuracy on each task: what forward transfer is measured against."""
        self.ahead: list[float | None] = []
        """Accuracy on task j just before it was learned."""

    def add(self, learner: Learner) -> None:
        """Measure a learner that has just learned the next task of the stream."""
        learned = len(self.accuracy) + 1
        if len(learner.tasks) != learned:
            raise NispaError(
                f"results hold {learned - 1} tasks, the learner has learned {len(learner.tasks)};"
                " add the learner after every task"
            )
        row: list[float | None] = [learner.accuracy(_test(self.stream[j]), j) for j in range(learned)]
        self.accuracy.append(row + [None] * (len(self.stream) - learned))
        if not self.chance:
            fresh = learner.network.fresh(learner.network.seed)
            self.chance = [self._untrained(fresh, learner, task) for task in self.stream]
            self.ahead = [None] * len(self.stream)
        if learned < len(self.stream):
            self.ahead[learned] = self._untrained(learner.network, learner, self.stream[learned])

    @staticmethod
    def _untrained(network: Network, learner: Learner, task: Task) -> float:
        """Accuracy on a task that the network has not learned."""
        return accuracy(lambda batch: mask_logits(network(batch), task.classes, learner.masking), _test(task))

    def value(self, after: int, task: int) -> float:
        found = self.accuracy[after][task]
        assert found is not None
        return found

    @property
    def tasks(self) -> range:
        return range(len(self.accuracy))

    @property
    def final(self) -> list[float]:
        """Accuracy on every task after the last one learned."""
        return [self.value(len(self.accuracy) - 1, j) for j in self.tasks]

    @property
    def learned(self) -> list[float]:
        """Accuracy on every task just after it was learned."""
        return [self.value(j, j) for j in self.tasks]

    @property
    def average_accuracy(self) -> float:
        """The paper's metric: the mean over tasks of ``final``."""
        return math.fsum(self.final) / len(self.final) if self.accuracy else math.nan

    @property
    def forgetting(self) -> float:
        """Mean over all tasks but the last of the best accuracy ever had minus the final one."""
        last = len(self.accuracy) - 1
        drops = [max(self.value(i, j) for i in range(j, last + 1)) - self.value(last, j) for j in range(last)]
        return math.fsum(drops) / len(drops) if drops else 0.0

    @property
    def backward_transfer(self) -> float:
        """Mean over all tasks but the last of the final accuracy minus that when learned."""
        pairs = list(zip(self.final, self.learned, strict=True))[:-1]
        return math.fsum(a - b for a, b in pairs) / len(pairs) if pairs else 0.0

    @property
    def forward_transfer(self) -> float | None:
        """Mean over all tasks but the first of the accuracy before learning minus a fresh network's."""
        gains = [a - b for a, b in zip(self.ahead, self.chance, strict=True) if a is not None]
        return math.fsum(gains) / len(gains) if gains else None


def _test(task: Task) -> Samples:
    assert task.test is not None
    return task.test
