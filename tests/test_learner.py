"""What every learner shares: hyperparameters, answers, refusals, records of a file."""

from typing import Any

import pytest
import torch
from small import network, shape_of, stream

from nispa.algorithm import NISPA
from nispa.data.samples import Batch
from nispa.errors import NispaError
from nispa.learner import TaskRecord, records
from nispa.network import mlp


def learned(kind: str = "mlp") -> NISPA:
    tasks = stream(shape=shape_of(kind))
    learner = NISPA(network(kind, 6), phase_epochs=1, accuracy_loss=30.0, tau_period=4, batch_size=8, seed=3)
    learner.learn(tasks[0])
    return learner


def test_hyperparameters_build_the_same_learner() -> None:
    options = {"lr": 0.3, "growth": "novel", "seed": 9, "skip_idle": False, "tau_schedule": "linear"}
    given = NISPA(network("mlp", 6), **options).hyperparameters()  # type: ignore[arg-type]
    assert options.items() <= given.items()
    assert NISPA(network("mlp", 6), **given).hyperparameters() == given


def test_predictions_are_classes_of_the_task_and_accuracy_counts_them() -> None:
    learner, task = learned(), stream()[0]
    assert task.test is not None
    predicted = learner.predict(task.test.batch(torch.arange(12)), 0)
    assert set(predicted.tolist()) <= {0, 1}
    right = float((predicted == task.test.labels).float().mean())
    assert learner.accuracy(task.test, 0) == pytest.approx(right)


def test_a_batch_and_its_values_give_the_same_answers() -> None:
    learner, task = learned(), stream()[0]
    batch = task.train.batch(torch.arange(9))
    assert torch.equal(learner.logits(batch, 0), learner.logits(batch.tensor(), 0))


def test_bytes_in_a_batch_are_scaled_and_bare_ones_refused() -> None:
    learner = learned()
    bytes_ = torch.randint(0, 256, (4, 9), dtype=torch.uint8)
    scaled = learner.logits(Batch(bytes_, torch.arange(4)), 0)
    torch.testing.assert_close(scaled, learner.logits(bytes_.float() / 255, 0))
    with pytest.raises(NispaError, match="inputs are bytes"):
        learner.logits(bytes_, 0)


@pytest.mark.parametrize(
    ("kind", "x", "words"),
    [
        ("mlp", torch.zeros(4, 8), r"inputs have shape \[4, 8\], the network reads \['N', 9\]"),
        ("mlp", torch.zeros(9), r"inputs have shape \[9\]"),
        ("cnn", torch.zeros(4, 60), r"the network reads \['N', 2, 6, 5\]"),
        ("mlp", torch.tensor([[float("nan")] * 9, [0.0] * 9]), "1 of 2 inputs hold NaN or infinity"),
        ("mlp", torch.full((3, 9), float("inf")), "3 of 3 inputs"),
    ],
)
def test_inputs_that_would_be_misread_are_refused(kind: str, x: torch.Tensor, words: str) -> None:
    with pytest.raises(NispaError, match=words):
        learned(kind).logits(x, 0)


def test_images_are_flattened_for_a_network_that_reads_features() -> None:
    learner = NISPA(mlp(60, [8], classes=6), phase_epochs=1, accuracy_loss=30.0, tau_period=4)
    learner.learn(stream(shape=(2, 6, 5))[0])
    assert learner.logits(torch.zeros(3, 2, 6, 5), 0).shape == (3, 6)


@pytest.mark.parametrize("task", [-1, 1, 7])
def test_a_task_that_was_not_learned(task: int) -> None:
    with pytest.raises(NispaError, match=f"there is no task {task}: 1 learned so far"):
        learned().logits(torch.zeros(1, 9), task)


RECORD: dict[str, Any] = {"name": "a", "classes": [0, 1], "phases": 3, "seconds": 1}


def test_records_of_a_file() -> None:
    assert records([RECORD], 2) == [TaskRecord("a", [0, 1], phases=3, seconds=1)]


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (7, "tasks is not readable"),
        ([{"name": "a"}], "tasks.0.classes is not readable"),
        ([{**RECORD, "phases": "3"}], "tasks.0.phases is not readable"),
        ([{**RECORD, "classes": [0, 9]}], "do not fit a network of 2 outputs"),
        ([RECORD, RECORD], "do not fit a network of 2 outputs"),
    ],
)
def test_records_that_do_not_fit_are_one_line(plain: Any, words: str) -> None:
    with pytest.raises(NispaError, match=words) as found:
        records(plain, 2)
    assert "damaged" in str(found.value)
    assert "\n" not in str(found.value)
