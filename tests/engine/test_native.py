"""The native engine against a float64 reference, and against itself: layouts, threads, batches, skipping."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import nispa
from nispa.data.samples import Batch
from nispa.engine import choose
from nispa.engine.reference import Reference, dense_bias, dense_weight
from nispa.layers import SparseConv2d
from nispa.network import Network
from nispa.rewiring import drop, grow
from nispa.training import Optimization, make_optimizer

native = pytest.importorskip("nispa.engine.native", reason="the native engine is not built here")
_native = native._native


def exact(network: Network, x: Tensor, gradient: Tensor) -> list[Tensor]:
    """Logits and the gradients of all dense weights and biases in float64, frozen ones too."""
    h, parameters = x.double(), []
    for layer in network.sparse_layers:
        weight = dense_weight(layer).detach().double().requires_grad_()
        bias = dense_bias(layer).detach().double().requires_grad_()
        parameters += [weight, bias]
        if isinstance(layer, SparseConv2d):
            h = F.relu(F.conv2d(h, weight, bias, padding=layer.size // 2))
            h = F.max_pool2d(h, 2) if layer.pool == 2 else h
        else:
            h = F.linear(h.flatten(1), weight, bias)
            h = F.relu(h) if layer.relu else h
    return [h.detach(), *torch.autograd.grad(h, parameters, gradient.double())]


def spread(network: Network, gradients: list[Tensor]) -> list[Tensor]:
    """Gradients of trainable tails as dense ones; NaN where the tail has none."""
    found = []
    for i, layer in enumerate(network.sparse_layers):
        values, biases = gradients[2 * i], gradients[2 * i + 1]
        dense = torch.full((layer.targets, layer.columns, *layer.kernel), torch.nan)
        bias = torch.full((layer.targets,), torch.nan)
        units, starts = layer.units.long(), layer.starts.long()
        first = int(starts[layer.frozen_rows])
        for row in range(layer.frozen_rows, layer.targets):
            a, b = int(starts[row]), int(starts[row + 1])
            dense[units[row], layer.index[a:b].long()] = values[a - first : b - first]
            bias[units[row]] = biases[row - layer.frozen_rows]
        found += [dense, bias]
    return found


def assert_close(ours: Tensor, right: Tensor, what: str, reference: Tensor | None = None) -> None:
    """Within 1e-5 of the largest, wherever ours says something.

    Where large terms cancel, float32 cannot be that close: then as close as four times what PyTorch is.
    """
    known = ~ours.isnan()
    if not known.any():
        return
    bound = 1e-5 * float(right.abs().max()) + 1e-12
    if reference is not None:
        bound = max(bound, 4 * float((reference.double() - right)[known].abs().max()))
    assert float((ours.double() - right)[known].abs().max()) <= bound, what


def freeze_some(network: Network, frozen: float, seed: int) -> None:
    """A random part of every hidden layer frozen, after a drop and growth, as between two tasks."""
    wiring, rng = network.wiring, np.random.default_rng(seed)
    for g in wiring.hidden:
        wiring.stable[g][rng.random(len(wiring.stable[g])) < frozen] = True
    drop(wiring, wiring.stable)
    for i in range(len(wiring.connections)):
        grow(wiring, i + 1, wiring.stable, rng)
        network.rewire(i, rng)
    network.lay_out(wiring.copy_stable()[1:])


def shake(network: Network, seed: int) -> None:
    """Biases that are not all 0."""
    draw = torch.Generator().manual_seed(seed)
    for layer in network.sparse_layers:
        layer.bias_store.copy_(0.1 * torch.randn(layer.targets, generator=draw))


networks = st.one_of(
    st.builds(
        lambda features, hidden, classes, density, seed: nispa.mlp(
            (features,), hidden, classes=classes, density=density, seed=seed, engine="native"
        ),
        st.integers(1, 150),
        st.lists(st.integers(1, 70), max_size=3),
        st.integers(1, 20),
        st.floats(0.02, 1),
        st.integers(0, 9),
    ),
    st.builds(
        lambda channels, height, width, filters, hidden, kernel, pools, density, seed: nispa.cnn(
            (channels, height, width), filters, hidden, classes=4, density=density, kernel=kernel,
            pool_after=[i for i in pools if i <= len(filters)], seed=seed, engine="native",
        ),
        st.integers(1, 4), st.integers(4, 21), st.integers(4, 37),
        st.lists(st.integers(1, 9), min_size=1, max_size=3),
        st.lists(st.integers(1, 30), max_size=1), st.sampled_from([1, 3, 5]),
        st.sets(st.integers(1, 3), max_size=2), st.floats(0.02, 1), st.integers(0, 9),
    ),
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(networks, st.integers(1, 70), st.floats(0, 1), st.integers(0, 99))
def test_outputs_and_gradients_match_float64(network: Network, batch: int, frozen: float, seed: int) -> None:
    freeze_some(network, frozen, seed)
    shake(network, seed)
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn((batch, *network.shape.input), generator=draw)
    gradient = torch.randn((batch, network.classes), generator=draw)
    right = exact(network, x, gradient)
    parameters = [p for layer in network.sparse_layers for p in (layer.values, layer.biases)]
    logits = network(x)
    found = torch.autograd.grad(logits, parameters, gradient)
    plain = Reference().logits(network, x)
    in_pytorch = spread(network, list(torch.autograd.grad(plain, parameters, gradient)))
    assert_close(logits.detach(), right[0], "logits", plain.detach())
    for i, (ours, exactly) in enumerate(zip(spread(network, list(found)), right[1:], strict=True)):
        assert_close(ours, exactly, f"layer {i // 2}, {'bias' if i % 2 else 'values'}", in_pytorch[i])


@settings(max_examples=60, deadline=None)
@given(networks, st.integers(1, 70), st.integers(0, 99), st.data())
def test_a_sample_has_the_same_bits_in_every_batch(
    network: Network, batch: int, seed: int, data: st.DataObject
) -> None:
    shake(network, seed)
    x = torch.randn((batch, *network.shape.input), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        whole = network(x)
        some = torch.tensor(data.draw(st.lists(st.integers(0, batch - 1), min_size=1, max_size=40)))
        assert torch.equal(network(x[some]), whole[some])
        assert torch.equal(network(x[some[:1]]), whole[some[:1]])  # one alone: another layout
    assert torch.equal(network(x).detach(), whole)  # with a tape


@settings(max_examples=25, deadline=None)
@given(networks, st.integers(1, 90), st.integers(0, 99))
def test_the_same_bits_for_any_thread_count(network: Network, batch: int, seed: int) -> None:
    freeze_some(network, 0.3, seed)
    x = torch.randn((batch, *network.shape.input), generator=torch.Generator().manual_seed(seed))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            network.zero_grad()
            logits = network(x)
            (logits**2).sum().backward()
            sums = network.engine.activation_sums(network, [x])
            found.append(
                [logits.detach(), *(p.grad for p in network.parameters()), *map(torch.from_numpy, sums)]
            )
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert torch.equal(a, b)


@settings(max_examples=40, deadline=None)
@given(networks, st.integers(1, 40), st.integers(0, 99))
def test_activations_and_their_sums_match_the_reference(network: Network, batch: int, seed: int) -> None:
    shake(network, seed)
    x = torch.randn((batch, *network.shape.input), generator=torch.Generator().manual_seed(seed))
    right = Reference().activations(network, x)
    sums = network.engine.activation_sums(network, [x[:7], x[7:]] if batch > 7 else [x])
    for ours, exactly, total in zip(network.activations(x), right, sums, strict=True):
        assert ours.shape == exactly.shape
        assert_close(ours, exactly.double(), "activations")
        over = exactly.double().sum(dim=[d for d in range(exactly.dim()) if d != 1]).numpy()
        np.testing.assert_allclose(total, over, rtol=1e-4, atol=1e-4 * max(1.0, abs(over).max()))


def idle_network(kind: str) -> tuple[Network, list[int]]:
    """After the first drop of a second task: stable, candidate and plastic units in every hidden layer."""
    if kind == "mlp":
        network = nispa.mlp((40,), [60, 50], classes=6, density=0.3, engine="native")
    else:
        network = nispa.cnn(
            (3, 12, 12), [10, 12], [40], classes=6, density=0.3, pool_after=[2], engine="native"
        )
    wiring, rng = network.wiring, np.random.default_rng(0)
    protected = wiring.copy_stable()
    for g in wiring.hidden:
        draw = rng.random(len(protected[g]))
        wiring.stable[g][draw < 0.25] = True
        protected[g][draw < 0.6] = True
    wiring.stable[-1][:2] = True
    protected[-1][:4] = True
    drop(wiring, protected)
    for i in range(len(wiring.connections)):
        grow(wiring, i + 1, protected, rng)
        network.rewire(i, rng)
    network.lay_out(wiring.copy_stable()[1:], protected[1:])
    return network, [2, 3]


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_skipping_idle_units_changes_no_bit(kind: str, optimizer: str, decay: float) -> None:
    network, classes = idle_network(kind)
    whole = copy.deepcopy(network)
    whole.lay_out(whole.wiring.copy_stable()[1:])  # nothing idle: everything is computed
    assert network.sparse_layers[0].working_rows < whole.sparse_layers[0].working_rows
    draw = torch.Generator().manual_seed(1)
    x, y = torch.randn((50, *network.shape.input), generator=draw), torch.randint(0, 2, (50,), generator=draw)
    for one in (network, whole):
        made = make_optimizer(
            one, Optimization(0.01, 50, optimizer, 0.9 if optimizer == "sgd" else 0.0, decay)
        )
        for _ in range(5):
            made.zero_grad()
            F.cross_entropy(one(x)[:, classes], y).backward()
            made.step()
    for a, b in zip(network.snapshot(), whole.snapshot(), strict=True):
        for ours, right in zip(a, b, strict=True):
            assert np.array_equal(ours, right)
    network.lay_out(network.wiring.copy_stable()[1:])
    assert torch.equal(network(x), whole(x))


@pytest.mark.parametrize("name", ["adam", "sgd"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_optimizers_compute_what_pytorch_does(name: str, momentum: float, decay: float) -> None:
    if name == "adam" and momentum:
        pytest.skip("Adam has no momentum")
    ours = nispa.mlp((30,), [40], classes=5, density=0.5, engine="native")
    theirs = copy.deepcopy(ours)
    theirs.engine = choose("reference")
    how = Optimization(0.01, 8, name, momentum, decay)
    steps = [make_optimizer(ours, how), make_optimizer(theirs, how)]
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        for network in (ours, theirs):
            for i, p in enumerate(network.parameters()):
                p.grad = torch.randn(p.shape, generator=draw.manual_seed(i))
        for step in steps:
            step.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-6, atol=2e-7)


def test_uint8_data_is_gathered_and_scaled() -> None:
    for network in (
        nispa.cnn((3, 9, 21), [4], [6], classes=3, density=0.5, pool_after=[], engine="native"),
        nispa.mlp((3, 9, 21), [6], classes=3, density=0.5, engine="native"),
    ):
        data = torch.randint(0, 256, (50, 3, 9, 21), dtype=torch.uint8)
        rows = torch.tensor([3, 49, 0, 3] * 9)
        for scale, shift in (
            (None, None),
            (torch.tensor([1 / 16]), None),
            (torch.tensor([0.1, 0.2, 0.3]), torch.tensor([-1.0, 0.0, 1.0])),
        ):
            for x in (data, data.float()):
                batch = Batch(x, rows, scale, shift)
                right = Reference().logits(network, batch)
                for some in (batch, Batch(x, rows[:1], scale, shift)):
                    torch.testing.assert_close(network(some), right[: len(some)], rtol=1e-4, atol=1e-4)


def test_two_forward_passes_before_one_backward() -> None:
    """Replay adds the losses of two batches: each pass keeps a tape of its own."""
    network = nispa.cnn((1, 8, 8), [4, 4], [10], classes=3, density=0.6, pool_after=[2], engine="native")
    x, y = torch.randn(20, 1, 8, 8), torch.randn(33, 1, 8, 8)
    a, b = network(x), network(y)
    ((a**2).sum() + (b**3).sum()).backward()
    found = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    (network(x) ** 2).sum().backward()
    (network(y) ** 3).sum().backward()
    for one, two in zip(found, network.parameters(), strict=True):
        torch.testing.assert_close(one, two.grad, rtol=1e-5, atol=1e-6)
    logits = network(x)
    twice = [torch.autograd.grad(logits.sum(), network.parameters(), retain_graph=True) for _ in range(2)]
    for one, two in zip(*twice, strict=True):
        assert torch.equal(one, two)


def test_what_it_cannot_do_names_the_layer_and_still_works() -> None:
    network = nispa.cnn((1, 9, 9), [3], [4], classes=2, density=1, kernel=7, pool_after=[], engine="native")
    x = torch.randn(3, 1, 9, 9)
    with pytest.warns(UserWarning, match="layer 1 has 7x7 kernels"):
        logits = network(x)
    assert torch.equal(logits, Reference().logits(network, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network(x)  # once is enough


def test_a_gradient_for_the_input_comes_from_the_reference() -> None:
    network = nispa.mlp((5,), [7], classes=2, density=0.5, engine="native")
    x = torch.randn(4, 5, requires_grad=True)
    network(x).sum().backward()
    assert x.grad is not None
    assert bool(x.grad.abs().sum() > 0)


def plan_arguments(**changes: object) -> list[dict[str, object]]:
    layer: dict[str, object] = {
        "conv": False, "targets": 2, "columns": 3, "kernel": 1, "pool": 1, "relu": False,
        "units": np.array([0, 1], np.int32), "starts": np.array([0, 1, 3], np.int32),
        "index": np.array([2, 0, 1], np.int32), "frozen": 0, "working": 2,
        "weights": np.ones(3, np.float32), "biases": np.zeros(2, np.float32),
    }  # fmt: skip
    return [{**layer, **changes}]


@pytest.mark.parametrize(
    "changes",
    [
        {"index": np.array([3, 0, 1], np.int32)},
        {"index": np.array([-1, 0, 1], np.int32)},
        {"index": np.array([2, 1, 0], np.int32)},
        {"starts": np.array([0, 2], np.int32)},
        {"starts": np.array([0, 9, 3], np.int32)},
        {"starts": np.array([1, 1, 3], np.int32)},
        {"units": np.array([0, 0], np.int32)},
        {"units": np.array([0, 7], np.int32)},
        {"weights": np.ones(2, np.float32)},
        {"biases": np.zeros(3, np.float32)},
        {"frozen": 2, "working": 1},
        {"working": 3},
        {"columns": 4},
        {"kernel": 3},
        {"targets": 0},
    ],
)
def test_a_plan_that_does_not_fit_raises(changes: dict[str, object]) -> None:
    with pytest.raises((ValueError, IndexError)):
        _native.Plan(plan_arguments(**changes), 3, 1, 1)


def test_wrong_arguments_raise_and_never_crash() -> None:
    plan = _native.Plan(plan_arguments(), 3, 1, 1)
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    x, logits = torch.randn(4, 3), torch.empty(4, 2)
    tape = plan.forward(x, None, one, zero, False, True, logits)
    good = [torch.empty(3)], [torch.empty(2)]
    plan.backward(tape, logits, *good)
    other = _native.Plan(plan_arguments(), 3, 1, 1)
    for wrong in (
        lambda: plan.forward(torch.randn(4, 5), None, one, zero, False, True, logits),
        lambda: plan.forward(x, torch.tensor([0, 4, 1, 1]), one, zero, False, True, logits),
        lambda: plan.forward(x, torch.tensor([0, -1, 1, 1]), one, zero, False, True, logits),
        lambda: plan.forward(x.double(), None, one, zero, False, True, logits),
        lambda: plan.forward(x, None, np.ones(2, np.float32), zero, False, True, logits),
        lambda: plan.forward(x, None, one, zero, False, True, torch.empty(3, 2)),
        lambda: plan.forward(x, None, one, zero, False, True, torch.empty(2, 4).t()),
        lambda: plan.backward(tape, logits, [torch.empty(3, dtype=torch.float64)], good[1]),
        lambda: plan.backward(tape, logits, [torch.empty(6)[::2]], good[1]),
        lambda: plan.backward(tape, torch.empty(4, 3), *good),
        lambda: plan.backward(tape, torch.empty(3, 2), *good),
        lambda: plan.backward(tape, logits, [torch.empty(2)], good[1]),
        lambda: plan.backward(tape, logits, good[0], [torch.empty(1)]),
        lambda: plan.backward(tape, logits, [], []),
        lambda: other.backward(tape, logits, *good),
        lambda: plan.sums(x, None, one, zero, [np.zeros(2)]),
        lambda: plan.copy_out(tape, 0, torch.empty(8)),
        lambda: _native.Optimizer(True, [torch.ones(3)], [4], 0.1, 0.0, 0.0),
        lambda: _native.Optimizer(True, [torch.ones(3)], [3], 0.1, 0.0, 0.0).step([torch.ones(2)]),
    ):
        with pytest.raises((ValueError, IndexError, TypeError)):
            wrong()


def test_no_batch_at_all() -> None:
    network = nispa.mlp((5,), [7], classes=2, density=0.5, engine="native")
    assert network(torch.empty(0, 5)).shape == (0, 2)
    network(torch.empty(0, 5)).sum().backward()
    with torch.no_grad():
        assert network(torch.empty(0, 5)).shape == (0, 2)


def test_plans_die_with_their_networks() -> None:
    network = nispa.mlp((5,), [7], classes=2, density=0.5, engine="native")
    network(torch.randn(3, 5)).sum().backward()
    plans = network.engine._plans
    assert len(plans) == 1
    del network
    gc.collect()
    assert len(plans) == 0


def test_python_threads_share_a_network() -> None:
    network = nispa.cnn((1, 8, 8), [6], [10], classes=3, density=0.6, pool_after=[1], engine="native")
    x = torch.randn(40, 1, 8, 8)
    right, wrong = network(x).detach(), []

    def ask() -> None:
        for _ in range(30):
            with torch.no_grad():
                if not torch.equal(network(x), right):
                    wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


PROGRAM = """
import hashlib, sys, torch, nispa
torch.set_num_threads(2)
stream = nispa.streams.digits()
network = nispa.mlp(stream.input_shape, [50, 40], classes=10, density=0.3, engine="native")
learner = nispa.NISPA(network, phase_epochs=1, accuracy_loss=10, tau_period=4, batch_size=64)
learner.learn(stream[0])
print(hashlib.sha256(b"".join(a.tobytes() for part in network.snapshot() for a in part)).hexdigest())
"""


def run(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True, text=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_threads_of_ones_own_give_the_same_bits_as_torchs() -> None:
    assert run(NISPA_OWN_THREADS="1") == run()


@pytest.mark.parametrize("isa", ["avx2", "base"])
def test_lesser_instruction_sets_pass_too(isa: str) -> None:
    """The parity and layout tests once more, in a process whose kernels are compiled for less."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__, "-k",
               "float64 or every_batch or skipping or gathered"]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "NISPA_ISA": isa}, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
