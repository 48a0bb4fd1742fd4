"""NISPA-Replay+: the network and memory of NISPA-Replay, another classifier."""

import numpy as np
import pytest
import torch

from nispa.data import streams
from nispa.data.task import Stream
from nispa.methods.gaussian import unit_activations
from nispa.methods.replay import NISPAReplay
from nispa.methods.replay_plus import NISPAReplayPlus
from nispa.network import Network, cnn, mlp

pytestmark = pytest.mark.filterwarnings("ignore:task .*accuracy_loss")
SETTINGS = {"lr": 0.1, "batch_size": 32, "per_class": 6, "phase_epochs": 1, "min_phases": 2, "tau_period": 5}


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.digits(subset=0.5)


def network(stream: Stream) -> Network:
    return mlp(stream.input_shape, [30, 30], classes=stream.classes, density=0.3)


def test_network_and_memory_are_those_of_nispa_replay(stream: Stream) -> None:
    plus = NISPAReplayPlus(network(stream), **SETTINGS)  # type: ignore[arg-type]
    plain = NISPAReplay(network(stream), **SETTINGS)  # type: ignore[arg-type]
    for task in list(stream)[:3]:
        plus.learn(task)
        plain.learn(task)
    expected, found = plain.state().tensors, plus.state().tensors
    assert expected.keys() == found.keys()  # nothing is stored beside
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


def test_a_class_is_answered_for_by_its_exemplars_statistics(stream: Stream) -> None:
    """Against discriminant analysis written out: Mahalanobis' distances to the exemplars' means."""
    learner = NISPAReplayPlus(network(stream), shrinkage=0.05, **SETTINGS)  # type: ignore[arg-type]
    for task in list(stream)[:3]:
        learner.learn(task)
    memory, wiring = learner.replay.memory.samples, learner.network.wiring
    test = stream[1].test
    assert memory is not None
    assert test is not None
    stable = np.concatenate([wiring.stable[g] for g in wiring.hidden])

    def stable_activations(x: torch.Tensor) -> np.ndarray:
        return np.concatenate([a.double().numpy() for a in learner.network.activations(x)], axis=1)[:, stable]

    a, labels = stable_activations(memory.batch(torch.arange(len(memory))).tensor()), memory.labels.numpy()
    means = np.stack([a[labels == c].mean(0) for c in range(6)])
    covariance = (a - means[labels]).T @ (a - means[labels]) / (len(a) - 6)
    covariance += 0.05 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    batch = test.batch(torch.arange(len(test)))
    apart = stable_activations(batch.tensor())[:, None] - means[None]
    distance = np.einsum("ncu,uv,ncv->nc", apart, np.linalg.inv(covariance), apart)
    found = learner.logits(batch, 1).numpy()
    assert np.isneginf(found[:, 6:]).all()
    density = found[:, :6] - found[:, :1]  # but for a constant of each sample
    np.testing.assert_allclose(density, -0.5 * (distance - distance[:, :1]), rtol=1e-5, atol=1e-6)


def test_a_filters_activation_is_the_mean_of_its_map() -> None:
    net = cnn((1, 8, 8), filters=[4, 5], hidden=[6], classes=3, density=0.6, pool_after=[2])
    x = torch.rand(7, 1, 8, 8)
    maps = net.activations(x)
    found = unit_activations(net, x)
    assert found.shape == (7, 15)
    torch.testing.assert_close(found[:, 4:9], maps[1].mean((2, 3)).double())
    with_inputs = unit_activations(net, x, inputs=True)
    torch.testing.assert_close(with_inputs[:, :1], x.mean((2, 3)).double())
    assert unit_activations(mlp((1, 8, 8), [5], classes=2), x, inputs=True).shape == (7, 69)
