"""The epoch loop: which epoch is kept, what is called when; masking; accuracy; what diverges."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small import network, stream

from nispa.errors import NispaError
from nispa.network import Network
from nispa.training import History, Optimization, accuracy, fit, mask_logits, task_loss

HOW = Optimization(lr=0.05, batch_size=10)
TASK = stream(0, tasks=1, samples=24)[0]


def draws(epoch: int) -> np.random.Generator:
    return np.random.default_rng([5, epoch])


def follow(script: list[float], **options: object) -> tuple[History, list[bytes], bytes]:
    """Train with a scripted validation: the history, the weights after each epoch and those at the end."""
    net, after = network("mlp", 2, 0.5), list[bytes]()

    def validate() -> float:
        after.append(content(net))
        return script[len(after) - 1]

    loss = task_loss([0, 1], "true")
    history = fit(net, TASK.train, loss, HOW, epochs=len(script), draws=draws, validate=validate, **options)  # type: ignore[arg-type]
    return history, after, content(net)


def content(net: Network) -> bytes:
    return b"".join(weights.tobytes() + biases.tobytes() for _, weights, biases in net.snapshot())


@pytest.mark.parametrize(
    ("script", "kept"),
    [([0.1, 0.2, 0.3], 2), ([0.5, 0.9, 0.4], 1), ([0.9, 0.9, 0.1], 1), ([0.7, 0.2, 0.7], 2), ([0.0], 0)],
)
def test_the_best_epoch_is_kept_and_the_latest_of_equals(script: list[float], kept: int) -> None:
    history, after, end = follow(script)
    assert history.kept == kept
    assert history.accuracy == script[kept]
    assert end == after[kept]
    assert history.samples == len(script) * len(TASK.train)


def test_the_last_epoch_is_kept_if_asked_for() -> None:
    history, after, end = follow([0.9, 0.5, 0.4], keep="last")
    assert (history.kept, history.accuracy, end) == (2, 0.4, after[2])


@pytest.mark.parametrize(("patience", "epochs"), [(1, 3), (2, 6), (3, 7)])
def test_patience_counts_epochs_without_a_better_one(patience: int, epochs: int) -> None:
    history, after, end = follow([0.3, 0.5, 0.5, 0.6, 0.1, 0.2, 0.3], patience=patience)
    assert len(history.accuracies) == epochs
    assert end == after[history.kept]


def test_no_training_at_all() -> None:
    net = network("mlp", 2, 0.5)
    before = content(net)
    assert fit(net, TASK.train, task_loss([0, 1], "true"), HOW, epochs=0, draws=draws).accuracy == 0
    assert content(net) == before


def test_hooks_come_in_order_and_the_order_of_samples_is_drawn() -> None:
    net, calls, seen = network("mlp", 2, 0.5), list[str](), list[torch.Tensor]()
    plain = task_loss([0, 1], "true")

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        calls.append("loss")
        seen.append(labels)
        return plain(logits, labels)

    def note(what: str) -> Callable[[], None]:
        return lambda: calls.append(what)

    fit(
        net,
        TASK.train,
        loss,
        HOW,
        epochs=1,
        draws=draws,
        adjust=note("adjust"),
        after_step=note("after"),
        on_epoch=lambda epoch, a: calls.append(f"epoch {epoch}"),
    )
    assert calls == ["loss", "adjust", "after"] * 3 + ["epoch 0"]
    order = torch.from_numpy(draws(0).permutation(len(TASK.train)))
    assert torch.equal(torch.cat(seen), TASK.train.labels[order])


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_one_step_is_the_optimizers_formula(optimizer: str) -> None:
    net = network("mlp", 2, 0.5)
    how = Optimization(lr=0.1, batch_size=100, optimizer=optimizer, weight_decay=0.1)
    before, loss = net.sparse_layers[0].values.detach().clone(), task_loss([0, 1], "true")
    rows = torch.from_numpy(draws(0).permutation(len(TASK.train)))
    loss(net(TASK.train.batch(rows)), TASK.train.labels[rows]).backward()  # type: ignore[no-untyped-call]
    gradient = net.sparse_layers[0].values.grad
    assert gradient is not None
    gradient = gradient.clone() + 0.1 * before
    fit(net, TASK.train, loss, how, epochs=1, draws=draws)
    step = gradient if optimizer == "sgd" else gradient / (gradient.abs() + 1e-8)
    torch.testing.assert_close(net.sparse_layers[0].values.detach(), before - 0.1 * step)


def test_masking() -> None:
    logits, labels = torch.randn(6, 5), torch.tensor([1, 3, 3, 1, 3, 1])
    two = F.cross_entropy(logits[:, [1, 3]], torch.tensor([0, 1, 1, 0, 1, 0]))
    torch.testing.assert_close(task_loss([3, 1], "true")(logits, labels), two)
    zeroed = logits * torch.tensor([0.0, 1, 0, 1, 0])
    torch.testing.assert_close(task_loss([1, 3], "zero")(logits, labels), F.cross_entropy(zeroed, labels))
    torch.testing.assert_close(task_loss([1, 3], "none")(logits, labels), F.cross_entropy(logits, labels))
    masked = mask_logits(logits, [1, 3], "true")
    assert torch.equal(masked[:, [1, 3]], logits[:, [1, 3]])
    assert bool((masked[:, [0, 2, 4]] == -torch.inf).all())
    assert torch.equal(mask_logits(logits, [1, 3], "zero"), zeroed)
    assert torch.equal(mask_logits(logits, [1, 3], "none"), logits)


def test_true_masking_reaches_no_other_output_and_no_gradient_is_nan() -> None:
    net = network("mlp", 4, 0.5)
    task_loss([2, 3], "true")(net(TASK.train.inputs), TASK.train.labels + 2).backward()  # type: ignore[no-untyped-call]
    layer = net.sparse_layers[-1]
    gradient = layer.values.grad
    assert gradient is not None
    assert bool((gradient[: int(layer.starts[2])] == 0).all())
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient[int(layer.starts[2]) :] != 0).any())


def test_accuracy_is_the_share_of_right_answers() -> None:
    answers = F.one_hot(TASK.train.labels, 2).float()
    answers[:6] = 1 - answers[:6]
    assert accuracy(lambda batch: answers[batch.rows], TASK.train) == 18 / 24


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_a_step_too_large_is_called_that(kind: str) -> None:
    net = network(kind, 2, 0.5)
    task = stream(0, tasks=1, shape=net.shape.input)[0]
    how = Optimization(lr=1e30, batch_size=10, optimizer="sgd")
    with pytest.raises(NispaError, match=r"diverged: weights of layer . .* smaller lr than 1e\+30"):
        fit(net, task.train, task_loss([0, 1], "true"), how, epochs=3, draws=draws)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": 0.0}, "lr is 0.0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"optimizer": "adm"}, "did you mean 'adam'"),
        ({"momentum": 1.0}, "momentum is 1.0"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
    ],
)
def test_hyperparameters_out_of_range(options: dict[str, object], words: str) -> None:
    with pytest.raises(NispaError, match=words):
        Optimization(**{"lr": 0.1, "batch_size": 4, **options})  # type: ignore[arg-type]
