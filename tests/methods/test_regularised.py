"""EWC, SI and MAS: importance against independent computations, and a penalty that is really there."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import nispa
from nispa.data import streams
from nispa.data.task import Stream
from nispa.draws import BATCHES, IMPORTANCE, generator
from nispa.learner import Learner
from nispa.methods import method_class
from nispa.methods.ewc import fisher
from nispa.methods.mas import sensitivity
from nispa.network import Network, cnn, mlp

METHODS = ("ewc", "si", "mas")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.digits(subset=0.3)


def network(density: float = 1.0, kind: str = "mlp", seed: int = 0) -> Network:
    if kind == "cnn":
        return cnn((1, 8, 8), (4, 4), (9,), classes=10, density=density, pool_after=(2,), seed=seed)
    return mlp((1, 8, 8), [12, 10], classes=10, density=density, seed=seed)


def learner(method: str, density: float = 1.0, **options: Any) -> Any:
    settings = {"lr": 0.01, "batch_size": 32, "epochs": 2, **options}
    return method_class(method)(network(density), seed=0, **settings)


def weights(learner: Learner) -> bytes:
    return b"".join(w.tobytes() + b.tobytes() for _, w, b in learner.network.snapshot())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("density", [1.0, 0.4])
def test_strength_zero_is_finetune_bit_for_bit(stream: Stream, method: str, density: float) -> None:
    plain, free = learner("finetune", density), learner(method, density, strength=0)
    for task in list(stream)[:3]:
        plain.learn(task)
        free.learn(task)
    assert weights(free) == weights(plain)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("density", [1.0, 0.4])
def test_the_penalty_is_there_after_the_first_task(stream: Stream, method: str, density: float) -> None:
    held = learner(method, density, strength=100)
    held.learn(stream[0])
    net = held.network
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    held.anchor.add_gradient(net, 1.0)
    assert all(float(p.grad.abs().max()) < 1e-5 for p in net.parameters() if p.grad is not None)
    moved = [torch.randn_like(p) for p in net.parameters()]
    importance = [tensor.clone() for tensor in held.anchor.importance]
    with torch.no_grad():
        for parameter, step in zip(net.parameters(), moved, strict=True):
            parameter += step
    held.anchor.add_gradient(net, 0.5)
    for parameter, step, omega in zip(net.parameters(), moved, importance, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, 2 * 0.5 * omega * step, rtol=1e-3, atol=1e-5)
    assert sum(float(tensor.sum()) for tensor in importance) > 0


@pytest.mark.parametrize("method", METHODS)
def test_a_strong_penalty_holds_the_weights(stream: Stream, method: str) -> None:
    """Weights that matter to task 1 move less in task 2 than without the penalty."""

    def movement(strength: float) -> float:
        held = learner(method, strength=strength, epochs=4, patience=None)
        held.learn(stream[0])
        before = [p.detach().clone() for p in held.network.parameters()]
        importance = [tensor.clone() for tensor in held.anchor.importance]
        held.learn(stream[1])
        return sum(
            float((omega * (p.detach() - old).square()).sum())
            for omega, p, old in zip(importance, held.network.parameters(), before, strict=True)
        )

    assert movement(1e3) < 0.5 * movement(0)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("density", [1.0, 0.4])
def test_fisher_is_the_mean_square_of_single_samples_gradients(
    stream: Stream, kind: str, density: float
) -> None:
    """Against torch.func: one gradient per sample of the same network written as a plain function."""
    net, task = network(density, kind), stream[1]
    rows = torch.from_numpy(generator(0, IMPORTANCE, 0).permutation(len(task.train))[:20])
    found = fisher(net, task.train, rows, task.classes, "true")
    plain = Network(net.shape, engine="reference", parts=net.snapshot())  # torch.func wants plain operators
    parameters = {name: p.detach() for name, p in plain.named_parameters()}
    x = task.train.batch(rows).tensor()

    def log_probability(values: dict[str, torch.Tensor], sample: torch.Tensor) -> torch.Tensor:
        logits = torch.func.functional_call(plain, values, (sample[None],))[0, list(task.classes)]
        with torch.no_grad():
            label = logits.argmax()
        return torch.log_softmax(logits, 0)[label]

    expected = [torch.zeros_like(p) for p in parameters.values()]
    for sample in x:
        gradients = torch.func.grad(log_probability)(parameters, sample)
        for total, gradient in zip(expected, gradients.values(), strict=True):
            total += gradient.square() / len(rows)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-8)


def test_fisher_of_a_linear_model_by_hand(stream: Stream) -> None:
    """One layer: ∂ log p(ŷ) / ∂W = (1[ŷ] − p) xᵀ."""
    net, task = mlp((1, 8, 8), [], classes=10, density=1), stream[0]
    rows = torch.arange(15)
    found = fisher(net, task.train, rows, task.classes, "true")
    x = task.train.batch(rows).tensor().flatten(1)
    p = torch.softmax(net(x)[:, :2], 1).detach()
    delta = F.one_hot(p.argmax(1), 2) - p
    by_hand = torch.einsum("no,ni->oi", delta**2, x**2) / 15
    torch.testing.assert_close(found[0].view(10, 64)[:2], by_hand)
    assert float(found[0].view(10, 64)[2:].abs().max()) == 0


def test_ewc_keeps_one_term_per_task(stream: Stream) -> None:
    """Two sums give the gradient of one quadratic term per task."""
    held = learner("ewc", samples=30)
    terms = []
    for number, task in enumerate(list(stream)[:3]):
        held.learn(task)
        rows = torch.from_numpy(generator(0, IMPORTANCE, number).permutation(len(task.train))[:30])
        information = fisher(held.network, task.train, rows, task.classes, "true")
        terms.append((information, [p.detach().clone() for p in held.network.parameters()]))
    with torch.no_grad():
        for parameter in held.network.parameters():
            parameter += torch.randn_like(parameter)
            parameter.grad = torch.zeros_like(parameter)
    held.anchor.add_gradient(held.network, 7.0)
    for i, parameter in enumerate(held.network.parameters()):
        expected = sum(2 * 7.0 * info[i] * (parameter.detach() - at[i]) for info, at in terms)
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-3, atol=1e-5)


def test_online_ewc_keeps_one_term_at_the_latest_weights(stream: Stream) -> None:
    held, infos = learner("ewc", samples=30, online=True, decay=0.5), []
    for number, task in enumerate(list(stream)[:2]):
        held.learn(task)
        rows = torch.from_numpy(generator(0, IMPORTANCE, number).permutation(len(task.train))[:30])
        infos.append(fisher(held.network, task.train, rows, task.classes, "true"))
    for i, parameter in enumerate(held.network.parameters()):
        torch.testing.assert_close(held.anchor.importance[i], infos[1][i] + 0.5 * infos[0][i])
        torch.testing.assert_close(
            held.anchor.pull[i], held.anchor.importance[i] * parameter.detach(), rtol=1e-5, atol=1e-9
        )


def test_si_integrates_along_a_trajectory_run_by_hand(stream: Stream) -> None:
    """Two tasks of plain SGD, written out: ω = −Σ g Δθ, Ω = max(0, Ω + ω / (Δ² + ξ))."""
    strength, lr, damping = 3.0, 0.1, 0.1
    held = learner("si", strength=strength, lr=lr, damping=damping, optimizer="sgd", patience=None, epochs=3)
    net = network()
    parameters = list(net.parameters())
    big_omega = [torch.zeros_like(p) for p in parameters]
    anchor = [p.detach().clone() for p in parameters]
    for number, task in enumerate(list(stream)[:2]):
        record = held.learn(task)
        assert record.epochs == 3
        start = [p.detach().clone() for p in parameters]
        omega = [torch.zeros_like(p) for p in parameters]
        best: tuple[float, Any, Any] = (-1.0, None, None)
        for epoch in range(3):
            order = torch.from_numpy(generator(0, BATCHES, number, 1, epoch).permutation(len(task.train)))
            for rows in order.split(32):
                logits = net(task.train.batch(rows))[:, list(task.classes)]
                labels = torch.searchsorted(torch.tensor(task.classes), task.train.labels[rows])
                gradients = torch.autograd.grad(F.cross_entropy(logits, labels), parameters)
                with torch.no_grad():
                    for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
                        step = -lr * (g + 2 * strength * big_omega[i] * (p - anchor[i]))
                        p += step
                        omega[i] -= g * step
            answers = net(task.validation.inputs / 16.0)[:, list(task.classes)].argmax(1) + task.classes[0]
            right = float((answers == task.validation.labels).float().mean())
            if right >= best[0]:
                best = (right, [p.detach().clone() for p in parameters], [o.clone() for o in omega])
        with torch.no_grad():
            for i, p in enumerate(parameters):
                p.copy_(best[1][i])
                moved = (p - start[i]).square() + damping
                big_omega[i] = (big_omega[i] + best[2][i] / moved).clamp(min=0)
                anchor[i] = p.detach().clone()
        for mine, theirs in zip(held.anchor.importance, big_omega, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-6)
        assert max(float(tensor.max()) for tensor in big_omega) > 0


def test_si_leaves_the_best_epochs_path_not_the_last_ones(stream: Stream) -> None:
    """ω is that of the epoch whose weights were kept, as if training had ended there."""
    events: list[dict[str, Any]] = []
    long = learner("si", epochs=12, lr=0.05, patience=None)
    long.learn(stream[0], report=events.append)
    accuracies = [e["validation_accuracy"] for e in events if e["event"] == "epoch"]
    kept = max(i for i, a in enumerate(accuracies) if a == max(accuracies))
    short = learner("si", epochs=kept + 1, lr=0.05, patience=None)
    short.learn(stream[0])
    assert weights(short) == weights(long)
    for one, other in zip(short.anchor.importance, long.anchor.importance, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("density", [1.0, 0.4])
def test_mas_is_autograds_gradient_of_the_squared_logits(stream: Stream, size: int, density: float) -> None:
    net, task = network(density), stream[2]
    found = sensitivity(net, task.train, task.classes, size)
    expected = [torch.zeros_like(p) for p in net.parameters()]
    parts = torch.arange(len(task.train)).split(size)
    for rows in parts:
        logits = net(task.train.inputs[rows].float() / 16)[:, list(task.classes)]
        mean = (logits**2).sum() / logits.numel()
        for total, gradient in zip(expected, torch.autograd.grad(mean, list(net.parameters())), strict=True):
            total += gradient.abs() / len(parts)
    for one, other in zip(found, expected, strict=True):
        assert bool(torch.isfinite(one).all())
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_mas_adds_up_over_tasks(stream: Stream) -> None:
    held = learner("mas")
    held.learn(stream[0])
    first = [tensor.clone() for tensor in held.anchor.importance]
    held.learn(stream[1])
    second = sensitivity(held.network, stream[1].train, stream[1].classes, 32)
    for total, one, two in zip(held.anchor.importance, first, second, strict=True):
        torch.testing.assert_close(total, one + two)


@pytest.mark.parametrize("method", [*METHODS, "finetune"])
def test_early_stopping_waits_for_patience(stream: Stream, method: str) -> None:
    events: list[dict[str, Any]] = []
    short = learner(method, epochs=60, patience=2)
    record = short.learn(stream[0], report=events.append)
    accuracies = [e["validation_accuracy"] for e in events if e["event"] == "epoch"]
    best = accuracies.index(max(accuracies))
    assert record.epochs == len(accuracies) == min(best + 3, 60) < 60


@pytest.mark.parametrize("method", [*METHODS, "finetune", "clnp"])
@pytest.mark.parametrize(
    "options", [{"epochs": 0}, {"patience": 0}, {"masking": "maybe"}, {"lr": -1}, {"batch_size": 0}]
)
def test_wrong_hyperparameters_are_one_line(method: str, options: dict[str, Any]) -> None:
    with pytest.raises(nispa.NispaError) as error:
        learner(method, **options)
    assert str(next(iter(options.values()))) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ewc", {"strength": -1}),
        ("ewc", {"samples": 0}),
        ("ewc", {"decay": 2}),
        ("si", {"damping": 0}),
        ("mas", {"importance_batch": 0}),
        ("clnp", {"l1": -1}),
        ("clnp", {"margin": -1}),
        ("clnp", {"threshold_step": 0}),
        ("stl-iso", {"shares": 0}),
    ],
)
def test_wrong_hyperparameters_of_one_method_are_one_line(method: str, options: dict[str, Any]) -> None:
    with pytest.raises(nispa.NispaError, match=next(iter(options))):
        learner(method, **options)


def test_numpy_is_not_asked_for_random_numbers(stream: Stream) -> None:
    """Importance is drawn from the learner's seed alone."""
    first, second = learner("ewc", samples=10), learner("ewc", samples=10)
    np.random.seed(1)
    first.learn(stream[0])
    np.random.seed(2)
    second.learn(stream[0])
    assert all(torch.equal(a, b) for a, b in zip(first.anchor.pull, second.anchor.pull, strict=True))
