"""The numbers of a run, from matrices worked out by hand."""

import pytest
import torch

from nispa.data.streams import digits
from nispa.data.task import Task
from nispa.experiment.results import Results
from nispa.methods.finetune import Finetune
from nispa.network import Network, mlp


def filled(rows: list[list[float | None]]) -> Results:
    results = Results(digits())
    results.accuracy = rows
    return results


def test_metrics_by_hand() -> None:
    results = filled([[0.9, None, None], [0.7, 0.8, None], [0.8, 0.6, 0.5]])
    assert results.average_accuracy == pytest.approx((0.8 + 0.6 + 0.5) / 3)
    assert results.forgetting == pytest.approx(((0.9 - 0.8) + (0.8 - 0.6)) / 2)
    assert results.backward_transfer == pytest.approx(((0.8 - 0.9) + (0.6 - 0.8)) / 2)
    assert results.learned == [0.9, 0.8, 0.5]
    results.chance, results.ahead = [0.5, 0.4, 0.3], [None, 0.5, 0.6]
    assert results.forward_transfer == pytest.approx((0.1 + 0.3) / 2)


def test_one_task_has_nothing_to_forget() -> None:
    results = filled([[0.9]])
    assert results.forgetting == 0
    assert results.backward_transfer == 0


def test_what_a_network_knows_of_a_task_before_it_is_learned() -> None:
    """Forward transfer compares the learner just before a task with a fresh network, on its outputs."""

    def right(network: Network, task: Task) -> float:
        assert task.test is not None
        logits = network(task.test.batch(torch.arange(len(task.test))))[:, list(task.classes)]
        return float((logits.argmax(1) + task.classes[0] == task.test.labels).float().mean())

    stream = digits(subset=0.3)
    learner = Finetune(mlp(stream.input_shape, [30], classes=10, density=0.5, seed=4), lr=0.02, epochs=3)
    fresh, results = learner.network.fresh(4), Results(stream)
    for number, task in enumerate(stream):
        ahead = right(learner.network, task)
        assert number == 0 or results.ahead[number] == pytest.approx(ahead)
        learner.learn(task)
        results.add(learner)
        assert results.learned[number] == pytest.approx(right(learner.network, task))
    assert results.ahead[0] is None
    assert results.chance == pytest.approx([right(fresh, task) for task in stream])
    assert results.ahead[1:] != results.chance[1:]
