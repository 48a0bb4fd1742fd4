"""Claims of the paper as numbers."""

import math

import numpy as np
import pytest

from nispa.experiment import recipe
from nispa.network import Network, cnn, mlp
from nispa.schedule import cosine, linear

EF_MNIST = mlp((1, 28, 28), [400, 400, 400], classes=57, density=0.2)
CIFAR10 = cnn((3, 32, 32), classes=10, density=0.1)
CIFAR100 = cnn((3, 32, 32), classes=100, density=0.1)


@pytest.mark.parametrize(
    ("net", "times", "papers"), [(EF_MNIST, 4.96, 4.94), (CIFAR10, 9.97, 9.94), (CIFAR100, 9.97, 9.97)]
)
def test_how_many_times_fewer_parameters(net: Network, times: float, papers: float) -> None:
    """Table "Multipliers"; biases and the first convolution are not pruned."""
    found = net.cost()["parameters"]
    assert round(found["dense"] / found["live"], 2) == times
    assert times == pytest.approx(papers, abs=0.04)


def test_the_networks_are_the_papers() -> None:
    assert [c.mask.shape for c in EF_MNIST.wiring.connections] == [
        (400, 784),
        (400, 400),
        (400, 400),
        (57, 400),
    ]
    assert [c.mask.shape for c in CIFAR10.wiring.connections] == [
        (64, 3),
        (64, 64),
        (128, 64),
        (128, 128),
        (1024, 128 * 64),
        (10, 1024),
    ]


def test_live_connections_of_the_papers_networks() -> None:
    """round(d·N) in every layer, kernels for convolutions; the first convolution is dense."""
    assert [c.live for c in EF_MNIST.wiring.connections] == [62_720, 32_000, 32_000, 4_560]
    assert [c.live for c in CIFAR10.wiring.connections] == [192, 410, 819, 1_638, 838_861, 1_024]
    assert CIFAR100.wiring.connections[-1].live == 10_240
    assert CIFAR10.cost()["parameters"]["live"] == 9 * (192 + 410 + 819 + 1_638) + 838_861 + 1_024 + 1_418


def test_operations_of_a_forward_pass_are_counted_at_every_position() -> None:
    """A multiplication and an addition for every live weight: at 32x32 positions, 16x16 once pooled."""
    kernels = 9 * (1024 * (192 + 410) + 256 * (819 + 1_638))
    dense = 9 * (1024 * (64 * 3 + 64 * 64) + 256 * (128 * 64 + 128 * 128)) + 8192 * 1024 + 1024 * 10
    assert CIFAR10.cost()["flops"] == {
        "forward_live": 2 * (kernels + 838_861 + 1_024),
        "forward_dense": 2 * dense,
    }


def test_a_pruned_first_convolution_would_be_full_of_dead_units() -> None:
    """(1 - 0.1)^3 = .729 of its units would have no input; dense, none has."""
    rng = np.random.default_rng(0)
    dead = np.mean([not (rng.random(3) < 0.1).any() for _ in range(20_000)])
    assert dead == pytest.approx(0.729, abs=0.01)
    assert CIFAR10.wiring.connections[0].mask.any(axis=1).all()


def test_a_third_of_the_last_hidden_layer_starts_without_an_output() -> None:
    """docs/fidelity.md, row 9: at d = .1 and ten outputs, (1 - .1)^10 = .349."""
    has = CIFAR10.wiring.connections[-1].has_output(1024)
    assert 1 - has.mean() == pytest.approx(0.9**10, abs=0.04)


def test_tau_by_phase() -> None:
    """k = 30: what the authors' logs show as final tau of 15, 10, 7, 5 and 12 phases is tau(phases - 2)."""
    tau = cosine(30)
    logged = [60.40, 83.46, 93.30, 97.55, 75.00]
    assert [round(100 * tau(phases - 2), 2) for phases in (15, 10, 7, 5, 12)] == logged
    assert [round(tau(p), 3) for p in (1, 2, 5, 10, 15, 20, 25, 30)] == [
        0.997, 0.989, 0.933, 0.75, 0.5, 0.25, 0.067, 0.0,
    ]  # fmt: skip
    assert round(cosine(40)(10), 3) == 0.854
    assert [round(linear()(p), 2) for p in (1, 2, 3)] == [0.95, 0.9, 0.85]


TABLE = {
    "ef-mnist": (0.01, 512, 5, 0.75, 30, 0.2),
    "cifar100": (0.002, 64, 5, 2.5, 30, 0.1),
    "cifar10": (0.002, 128, 5, 0.75, 30, 0.1),
    "permuted-mnist-10": (0.01, 1024, 2, 0.75, 40, 0.1),
    "permuted-mnist-100": (0.01, 1024, 3, 0.75, 40, 0.1),
    "permuted-mnist-2": (0.01, 256, 5, 0.5, 40, 0.25),
}


@pytest.mark.parametrize("name", TABLE)
def test_recipes_are_the_rows_of_the_hyperparameter_table(name: str) -> None:
    found = recipe.find(name, None)
    method = found.hyperparameters
    values = [method[key] for key in ("lr", "batch_size", "phase_epochs", "accuracy_loss", "tau_period")]
    assert (*values, found.network.density) == TABLE[name]
    assert method["tau_schedule"] == "cosine"
    assert method["growth"] == "random"
    assert method["optimizer"] == "adam"
    assert method["reinitialize"] is True


def test_one_bit_a_unit_is_all_the_plasticity_state() -> None:
    assert all(bits.dtype == np.bool_ for bits in CIFAR10.wiring.stable)
    assert sum(map(len, CIFAR10.wiring.stable)) == 3 + 64 + 64 + 128 + 128 + 1024 + 10


def test_weights_start_with_kaimings_variance() -> None:
    for layer, (_, weights, biases) in zip(CIFAR10.sparse_layers, CIFAR10.snapshot(), strict=True):
        fan_in = layer.columns * math.prod(layer.kernel)
        assert weights.std() == pytest.approx(math.sqrt(2 / fan_in), rel=0.05)
        assert not biases.any()
