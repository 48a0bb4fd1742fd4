"""Networks: their sizes, what they compute, snapshots, and the paper's starting weights."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small import FEATURES, IMAGE, network

from nispa.engine.reference import dense_bias, dense_weight
from nispa.errors import NispaError
from nispa.layers import SparseConv2d
from nispa.network import INITS, Network, cnn, mlp


@pytest.mark.parametrize("density", [0.02, 0.1, 0.2, 0.5, 0.77, 1.0])
def test_every_layer_has_exactly_its_share_and_a_first_convolution_all(density: float) -> None:
    for net in (mlp(30, [20, 11], classes=6, density=density), cnn((3, 8, 8), classes=6, density=density)):
        for i, connections in enumerate(net.wiring.connections):
            first = i == 0 and bool(net.shape.convolutions)
            expected = round((1.0 if first else density) * connections.mask.size)
            assert connections.live == connections.target_count == expected
            assert connections.live == net.sparse_layers[i].live


def test_each_connection_is_as_likely() -> None:
    count = np.zeros((5, 8))
    for seed in range(600):
        count += mlp(8, [5], classes=2, density=0.25, seed=seed).wiring.connections[0].mask
    assert count.min() > 110  # 150 expected, 11 standard deviation
    assert count.max() < 190


def plain(net: Network, x: torch.Tensor) -> list[torch.Tensor]:
    """The same network as anyone would write it in PyTorch."""
    h, outputs = x, []
    for layer in net.sparse_layers:
        weight, bias = dense_weight(layer), dense_bias(layer)
        if isinstance(layer, SparseConv2d):
            h = torch.relu(F.conv2d(h, weight, bias, stride=1, padding="same"))
            h = F.max_pool2d(h, layer.pool) if layer.pool > 1 else h
        else:
            h = h.flatten(1) @ weight.T + bias
            h = torch.relu(h) if layer is not net.sparse_layers[-1] else h
        outputs.append(h)
    return outputs


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_logits_activations_and_their_sums(kind: str) -> None:
    net = network(kind, 4, 0.4, seed=2)
    x = torch.randn(7, *(FEATURES if kind == "mlp" else IMAGE))
    *hidden, logits = plain(net, x)
    torch.testing.assert_close(net(x), logits)
    for one, other in zip(net.activations(x), hidden, strict=True):
        torch.testing.assert_close(one, other)
    sums = net.engine.activation_sums(net, [x[:3], x[3:]])
    for total, maps in zip(sums, hidden, strict=True):
        assert total.dtype == np.float64
        expected = maps.detach().double().transpose(0, 1).flatten(1).sum(1)
        np.testing.assert_allclose(total, expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_gradients_are_those_of_the_dense_network_at_live_weights(kind: str) -> None:
    net = network(kind, 4, 0.4, seed=2)
    frozen = [np.arange(layer.targets) % 3 == 0 for layer in net.sparse_layers]
    net.lay_out(frozen)
    x = torch.randn(7, *(FEATURES if kind == "mlp" else IMAGE))
    net(x).square().sum().backward()
    dense = [dense_weight(layer).detach().requires_grad_() for layer in net.sparse_layers]
    h = x
    for layer, weight in zip(net.sparse_layers, dense, strict=True):
        bias = dense_bias(layer).detach()
        if isinstance(layer, SparseConv2d):
            h = torch.relu(F.conv2d(h, weight, bias, padding="same"))
            h = F.max_pool2d(h, layer.pool) if layer.pool > 1 else h
        else:
            h = F.linear(h.flatten(1), weight, bias)
            h = torch.relu(h) if layer.relu else h
    h.square().sum().backward()
    for layer, weight in zip(net.sparse_layers, dense, strict=True):
        assert layer.values.grad is not None
        assert weight.grad is not None
        rows = layer.units[layer.frozen_rows :].tolist()
        mask = torch.from_numpy(layer.mask())
        expected = torch.cat([weight.grad[unit][mask[unit]] for unit in rows])
        torch.testing.assert_close(layer.values.grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_a_snapshot_brings_everything_back(kind: str) -> None:
    net = network(kind, 4, 0.4)
    x = torch.randn(3, *(FEATURES if kind == "mlp" else IMAGE))
    before, snapshot = net(x).detach().clone(), net.snapshot()
    for connections in net.wiring.connections:
        connections.mask[:] = False
    for i in range(len(net.sparse_layers)):
        net.rewire(i, np.random.default_rng(0))
    assert not torch.equal(net(x), before)
    net.restore(snapshot)
    assert torch.equal(net(x), before)
    net.restore(snapshot)
    net.wiring.connections[0].mask[:] = False
    assert snapshot[0][0].any(), "a snapshot is a copy"


def sigma_of(net: Network, layer: int) -> float:
    return float(net.snapshot()[layer][1].std())


@pytest.mark.parametrize(
    ("init", "first", "second"),
    [
        ("fan_in", 400, 300),
        ("fan_out", 300, 200),
        ("width", 300, 200),
        ("live_fan_in", 200, 150),
        ("live_fan_out", 150, 100),
        ("authors", 300, 200),
    ],
)
def test_starting_weights_have_the_variance_of_their_reading(init: str, first: int, second: int) -> None:
    net = mlp(400, [300, 200], classes=10, density=0.5, init=init)
    assert sigma_of(net, 0) == pytest.approx(math.sqrt(2 / first), rel=0.03)
    assert sigma_of(net, 1) == pytest.approx(math.sqrt(2 / second), rel=0.03)
    assert abs(float(net.snapshot()[0][1].mean())) < 0.003


@pytest.mark.parametrize(
    ("init", "second"), [("fan_in", 64 * 9), ("fan_out", 32 * 9), ("width", 32), ("authors", 64 * 9)]
)
def test_a_convolutions_fan_counts_its_kernel(init: str, second: int) -> None:
    net = cnn((3, 8, 8), (64, 32), (50,), classes=4, density=0.8, init=init, pool_after=(2,))
    assert sigma_of(net, 1) == pytest.approx(math.sqrt(2 / second), rel=0.04)


def test_biases_start_at_zero_but_for_the_authors_mlp() -> None:
    for init in INITS:
        biases = mlp(50, [40], classes=4, density=0.5, init=init).snapshot()[0][2]
        assert bool((biases == 0).all()) == (init != "authors")
    bound = 1 / math.sqrt(50)
    biases = mlp(50, [4000], classes=4, density=0.5, init="authors").snapshot()[0][2]
    assert -bound <= biases.min() < -0.9 * bound
    assert 0.9 * bound < biases.max() <= bound


def test_re_initialisation_draws_as_at_the_start_but_for_the_authors() -> None:
    """Theirs is by fan-out in both networks, with biases 0 (docs/fidelity.md, row 12)."""
    rng = np.random.default_rng(0)
    for init in INITS:
        for net in (mlp(50, [40], classes=4, init=init), cnn((3, 8, 8), (20, 30), classes=4, init=init)):
            for i in range(len(net.sparse_layers)):
                assert not net.initial_biases(i, 9, rng, again=True).any()
                if init != "authors":
                    assert net.fan(i, again=True) == net.fan(i)
    conv = cnn((3, 8, 8), (20, 30), (50,), classes=4, init="authors", pool_after=())
    assert not any(biases.any() for _, _, biases in conv.snapshot())
    assert [conv.fan(i) for i in range(4)] == [3 * 9, 20 * 9, 30 * 64, 50]
    assert [conv.fan(i, again=True) for i in range(4)] == [20 * 9, 30 * 9, 50, 4]


def test_a_live_fan_counts_a_dense_first_convolution_whole() -> None:
    net = cnn((3, 8, 8), (20, 30), (50,), classes=4, density=0.1, init="live_fan_in", pool_after=())
    assert [net.fan(i) for i in range(4)] == pytest.approx([3 * 9, 20 * 9 / 10, 30 * 64 / 10, 50 / 10])


def test_new_weights_look_like_those_that_stay() -> None:
    """mean and standard deviation of the layer's weights after the drop (section "Connection Rewiring")."""
    net = mlp(200, [300], classes=4, density=0.3, seed=1)
    layer = net.sparse_layers[0]
    with torch.no_grad():
        layer.store.mul_(0.1).add_(0.7)
    connections = net.wiring.connections[0]
    old, before = connections.mask.copy(), layer.weights()
    connections.mask = np.random.default_rng(0).random(old.shape) < 0.5
    net.rewire(0, np.random.default_rng(5))
    stays, new = old & connections.mask, connections.mask & ~old
    weights = layer.weights()
    kept = before[stays[old]]
    assert np.array_equal(weights[stays[connections.mask]], kept)
    grown = weights[new[connections.mask]]
    assert grown.mean() == pytest.approx(kept.mean(), abs=0.002)
    assert grown.std() == pytest.approx(kept.std(), rel=0.03)


def test_a_layer_without_weights_draws_as_at_the_start() -> None:
    net = mlp(100, [200], classes=4, density=0.5)
    mask = net.wiring.connections[0].mask
    mask[:] = False
    net.rewire(0, np.random.default_rng(0))
    mask[:] = True
    net.rewire(0, np.random.default_rng(0))
    assert sigma_of(net, 0) == pytest.approx(math.sqrt(2 / 100), rel=0.03)


def test_reinitialising_keeps_whom_it_is_told_to_keep() -> None:
    net = network("cnn", 4, 0.5)
    with torch.no_grad():
        for layer in net.sparse_layers:
            layer.bias_store.fill_(3.0)
    before = net.snapshot()
    keep = [np.arange(layer.targets) % 2 == 0 for layer in net.sparse_layers]
    net.reinitialize(np.random.default_rng(1), keep)
    for old, new, kept in zip(before, net.snapshot(), keep, strict=True):
        rows = np.repeat(kept, old[0].sum(axis=1))
        assert np.array_equal(old[0], new[0])
        assert np.array_equal(old[1][rows], new[1][rows])
        assert not (old[1][~rows] == new[1][~rows]).any()
        assert new[2].tolist() == np.where(kept, 3.0, 0.0).tolist()


def test_a_fresh_network_is_of_the_same_kind_and_another_draw() -> None:
    net = network("cnn", 4, 0.5, init="fan_out", seed=1)
    fresh = net.fresh(2)
    assert fresh.shape == net.shape
    assert fresh.init == "fan_out"
    assert not np.array_equal(fresh.snapshot()[1][0], net.snapshot()[1][0])
    assert np.array_equal(net.fresh(1).snapshot()[1][1], net.snapshot()[1][1])


def test_moving_a_network_ties_the_trainable_tails_again() -> None:
    """On any device the parameters stay views of their stores."""
    net = network("mlp", 4, 0.5)
    net.lay_out([np.arange(layer.targets) % 2 == 0 for layer in net.sparse_layers])
    net.to("cpu", torch.float64)
    net.to(torch.float32)
    for layer in net.sparse_layers:
        with torch.no_grad():
            layer.values.fill_(7.0)
        first = int(layer.starts[layer.frozen_rows])
        assert bool((layer.store[first:] == 7).all())
        assert not bool((layer.store[:first] == 7).any())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mlp(9, [4], classes=4, density=0.0), "density is 0.0"),
        (lambda: mlp(9, [4], classes=4, density=1.5), "density is 1.5"),
        (lambda: mlp(9, [4], classes=4, density=float("nan")), "density is nan"),
        (lambda: mlp(9, [0], classes=4), "every size"),
        (lambda: mlp(9, [4], classes=0), "every size"),
        (lambda: mlp(9, [4], classes=4, init="fan_inn"), "did you mean 'fan_in'"),
        (lambda: mlp(9, [4], classes=4, engine="natve"), "did you mean 'native'"),
        (lambda: cnn((9,), classes=4), "reads images"),
        (lambda: cnn((3, 2, 2), classes=4), "too small"),
        (lambda: cnn((3, 8, 8), classes=4, kernel=2), "odd size"),
        (lambda: mlp(9, [4], classes=4).add_outputs(0), "cannot add 0 outputs"),
    ],
)
def test_impossible_networks_are_refused_in_one_line(make: Any, words: str) -> None:
    with pytest.raises(NispaError) as found:
        make()
    assert words in str(found.value)
    assert "\n" not in str(found.value)
