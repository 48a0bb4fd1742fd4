"""NISPA-Free: statistics of stable units stay true, no example is kept, answers are probabilities."""

import numpy as np
import pytest
import torch

from nispa.data import streams
from nispa.data.task import Stream
from nispa.methods.free import NISPAFree
from nispa.methods.gaussian import unit_activations
from nispa.network import mlp

pytestmark = pytest.mark.filterwarnings("ignore:task .*accuracy_loss")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.digits(subset=0.5)


def learned(stream: Stream, tasks: int) -> NISPAFree:
    network = mlp(stream.input_shape, [40, 30], classes=stream.classes, density=0.3)
    learner = NISPAFree(network, batch_size=32, phase_epochs=1, tau_period=5, accuracy_loss=10)
    for task in list(stream)[:tasks]:
        learner.learn(task)
    return learner


def test_the_statistics_of_earlier_classes_stay_true(stream: Stream) -> None:
    """Measured again at the end, on the samples of then, they are what was stored."""
    learner = learned(stream, 4)
    assert learner.known == sorted(learner.known)
    assert learner.known[0] < learner.known[-1]
    scatters = [np.zeros(matrix.shape) for matrix in learner.scatters]
    for number, task in enumerate(list(stream)[:4]):
        rows = torch.arange(len(task.train))
        a = unit_activations(learner.network, task.train.batch(rows), inputs=True)
        a = a[:, learner.units[: learner.known[number]]].numpy()
        for label in task.classes:
            mine = a[task.train.labels.numpy() == label]
            stored = learner.means[label].numpy()
            np.testing.assert_allclose(stored[: a.shape[1]], mine.mean(0), rtol=1e-5, atol=1e-6)
            assert not stored[a.shape[1] :].any()
            for k in range(number + 1):
                apart = (mine - mine.mean(0))[:, : learner.known[k]]
                scatters[k] += apart.T @ apart
    for stored_matrix, measured in zip(learner.scatters, scatters, strict=True):
        np.testing.assert_allclose(stored_matrix.numpy(), measured, rtol=1e-4, atol=1e-3)


def test_no_example_is_kept(stream: Stream) -> None:
    """What a file holds is the network, means and matrices: their size knows nothing of the samples."""
    learner = learned(stream, 2)
    beside = {k: t for k, t in learner.state().tensors.items() if not k.startswith("net.")}
    assert set(beside) == {"units", "means", "scatter.0", "scatter.1"}
    assert beside["means"].shape == (10, learner.known[-1])
    for k, known in enumerate(learner.known):
        assert beside[f"scatter.{k}"].shape == (known, known)


def test_answers_are_probabilities_by_the_equation(stream: Stream) -> None:
    learner = learned(stream, 3)
    test = stream[1].test
    assert test is not None
    batch = test.batch(torch.arange(len(test)))
    answers = learner.logits(batch, 0).exp()
    torch.testing.assert_close(answers.sum(1), torch.ones(len(test)).double())
    assert not answers[:, 6:].any()
    # stage by stage, written out
    a = unit_activations(learner.network, batch, inputs=True)[:, learner.units].numpy()
    left, expected = np.ones(len(a)), np.zeros((len(a), 6))
    for k, known in enumerate(learner.known):
        s = learner.scatters[k].double().numpy() / sum(learner.counts[k:])
        s = s + 0.01 * np.trace(s) / known * np.eye(known)
        apart = a[:, None, :known] - learner.means[2 * k : 6, :known].double().numpy()[None]
        density = -0.5 * np.einsum("ncu,uv,ncv->nc", apart, np.linalg.inv(s), apart)
        p = np.exp(density - density.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        within = learner.network(batch)[:, 2 * k : 2 * k + 2].softmax(1).detach().numpy()
        expected[:, 2 * k : 2 * k + 2] = (left * p[:, :2].sum(1))[:, None] * within
        left = left * p[:, 2:].sum(1)
    np.testing.assert_allclose(answers[:, :6].numpy(), expected, atol=1e-5)


def test_within_a_task_nothing_is_forgotten(stream: Stream) -> None:
    """The odds of a task's classes against each other never change, by a bit of their logits."""
    learner = learned(stream, 1)
    batch = stream[0].train.batch(torch.arange(50))
    before = learner.network(batch)[:, :2]
    for task in list(stream)[1:4]:
        learner.learn(task)
    assert torch.equal(before, learner.network(batch)[:, :2])


def test_it_tells_classes_of_all_tasks_apart(stream: Stream) -> None:
    learner = learned(stream, 5)
    right = [learner.accuracy(task.test, 0) for task in stream if task.test is not None]
    assert np.mean(right) > 0.8
