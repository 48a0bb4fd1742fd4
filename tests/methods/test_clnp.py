"""CLNP: what it keeps, what it silences, and that kept units never change."""

from typing import Any

import numpy as np
import pytest
import torch

from nispa.data import streams
from nispa.data.task import Stream
from nispa.methods.clnp import CLNP
from nispa.network import Network, cnn, mlp
from nispa.training import accuracy, mask_logits


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.digits(subset=0.5)


def network(kind: str, density: float = 1.0) -> Network:
    if kind == "cnn":
        return cnn((1, 8, 8), (6, 6), (20,), classes=10, density=density, pool_after=(2,))
    return mlp((1, 8, 8), [30, 25], classes=10, density=density)


def learner(kind: str = "mlp", density: float = 1.0, **options: Any) -> CLNP:
    settings: dict[str, Any] = {"lr": 0.01, "batch_size": 32, "epochs": 4, "l1": 1e-4, "margin": 5}
    return CLNP(network(kind, density), **{**settings, **options})


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("density", [1.0, 0.5])
@pytest.mark.parametrize("optimizer", [{}, {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01}])
def test_frozen_units_and_old_answers_never_change(
    stream: Stream, kind: str, density: float, optimizer: dict[str, Any]
) -> None:
    """Forgetting is 0 bit for bit, and so are the outputs of every stable unit, on any input."""
    method = learner(kind, density, epochs=2, **optimizer)
    x = torch.randn(40, 1, 8, 8)
    answers: list[torch.Tensor] = []
    for number, task in enumerate(list(stream)[:4]):
        stable = method.network.wiring.copy_stable()
        before = [a.clone() for a in method.network.activations(x)]
        method.learn(task)
        after = method.network.activations(x)
        for g in method.network.wiring.hidden:
            assert torch.equal(before[g - 1][:, stable[g]], after[g - 1][:, stable[g]])
        for j, answer in enumerate(answers):
            assert torch.equal(method.logits(x, j), answer), f"task {j} after task {number}"
        answers.append(method.logits(x, number))


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_no_connection_from_plastic_into_stable_units_and_density_falls(stream: Stream, kind: str) -> None:
    method, densities, events = learner(kind), [], list[dict[str, Any]]()
    for task in list(stream)[:3]:
        method.learn(task, report=events.append)
        wiring = method.network.wiring
        for g, connections in enumerate(wiring.connections, 1):
            plastic = ~wiring.stable[g - 1][connections.source_of]
            assert not connections.mask[np.ix_(wiring.stable[g], plastic)].any()
            assert (method.network.sparse_layers[g - 1].mask() == connections.mask).all()
        live, size = sum(c.live for c in wiring.connections), sum(c.mask.size for c in wiring.connections)
        densities.append(live / size)
    assert 1 > densities[0] >= densities[1] >= densities[2]
    assert [e["density"] for e in events if e["event"] == "pruned"] == densities


def trained(task: Any, kind: str = "mlp", **options: Any) -> CLNP:
    """A learner whose network is trained on the task, but not pruned."""
    method = learner(kind, **options)
    method.choose = lambda task: ([b.copy() for b in method.network.wiring.stable], None, 0.0)  # type: ignore[method-assign]
    snapshot: list[Any] = []
    method.learn(task, report=lambda e: snapshot.append(method.network.snapshot()))
    last_epoch = snapshot[method.epochs - 1]
    fresh = learner(kind, **options)
    fresh.network.restore(last_epoch)
    return fresh


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("unit_activation", ["sum", "mean"])
def test_the_threshold_is_the_last_before_validation_falls_too_far(
    stream: Stream, kind: str, unit_activation: str
) -> None:
    """Against a search through every θ = 0, step, 2 step, …, with units silenced by their activation."""
    task, margin, step = stream[0], 6.0, 0.02
    method = trained(task, kind, margin=margin, threshold_step=step, unit_activation=unit_activation)
    net = method.network
    before = net.snapshot()
    chosen, threshold, found = method.choose(task)
    for one, other in zip(before, net.snapshot(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))  # choosing changes nothing

    x = task.train.batch(torch.arange(len(task.train))).tensor()
    over = {2: (0,), 4: (0, 2, 3)}
    means = []
    for maps in net.activations(x):
        total = maps.double().sum(dim=over[maps.dim()]) / len(x)
        means.append((total / (maps[0, 0].numel() if unit_activation == "mean" else 1)).numpy())

    def measured(theta: float) -> float:
        silent = [torch.from_numpy(~(m > theta)) for m in means]
        weights = [layer.store.clone() for layer in net.sparse_layers]
        with torch.no_grad():
            for layer, off in zip(net.sparse_layers[1:], silent, strict=True):
                area = layer.columns // len(off)
                layer.store[off.repeat_interleave(area)[layer.index.long()]] = 0
        a = accuracy(lambda b: mask_logits(net(b), task.classes, "true"), task.validation)
        with torch.no_grad():
            for layer, w in zip(net.sparse_layers, weights, strict=True):
                layer.store.copy_(w)
        return a

    best = accuracy(lambda b: mask_logits(net(b), task.classes, "true"), task.validation)
    last, n = None, 0
    while n * step < max(m.max() for m in means) + step:
        if best - measured(n * step) > margin / 100 + 1e-9:
            break
        last, n = n, n + 1
    assert last is not None
    assert threshold is not None
    for g, m in zip(net.wiring.hidden, means, strict=True):
        assert np.array_equal(chosen[g], m > last * step)
    assert found == measured(last * step) >= best - margin / 100 - 1e-9


def test_a_smaller_margin_keeps_more_units(stream: Stream) -> None:
    kept = []
    for margin in (0.0, 20.0):
        method = trained(stream[0], margin=margin)
        kept.append(sum(int(bits.sum()) for bits in method.choose(stream[0])[0][1:-1]))
    assert kept[0] > kept[1]


def test_what_is_kept_answers_as_it_did_when_validated(stream: Stream) -> None:
    """Dropping the silenced units' connections is exactly the network that was measured."""
    method = learner()
    record = method.learn(stream[0])
    a = accuracy(lambda b: mask_logits(method.network(b), stream[0].classes, "true"), stream[0].validation)
    assert record.validation_accuracy == a


def test_l1_reaches_every_trainable_parameter_and_no_frozen_one(stream: Stream) -> None:
    """With SGD and a learning rate of 1 a step moves a weight by its gradient: l1 times its sign more."""
    plain, shrunk = learner(l1=0), learner(l1=0.25)
    for method in (plain, shrunk):
        for parameter in method.network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        method._shrink()
    for one, other in zip(plain.network.parameters(), shrunk.network.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert float(one.grad.abs().max()) == 0
        assert torch.equal(other.grad, 0.25 * other.detach().sign())


def test_plastic_units_start_anew(stream: Stream) -> None:
    method = learner()
    method.learn(stream[0])
    wiring = method.network.wiring
    for g, (_, _, biases) in enumerate(method.network.snapshot(), 1):
        assert (biases[~wiring.stable[g]] == 0).all()
        if wiring.stable[g].any() and g in wiring.hidden:
            assert (biases[wiring.stable[g]] != 0).any()
