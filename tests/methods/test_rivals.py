"""What makes each class-incremental rival that method."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nispa.data import streams
from nispa.data.task import Stream
from nispa.files import load, save
from nispa.learner import Learner
from nispa.methods import method_class
from nispa.methods.agem import AGEM, project
from nispa.methods.der import DER
from nispa.methods.derpp import DERPlusPlus
from nispa.methods.er import ER
from nispa.methods.icarl import ICaRL, distillation, herding
from nispa.methods.rehearsal import logit_loss, memory_loss
from nispa.network import mlp

RIVALS = ("er", "der", "der++", "icarl", "a-gem")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.digits(subset=0.4)


def learner(name: str, stream: Stream, **options: object) -> Learner:
    network = mlp(stream.input_shape, [30, 20], classes=stream.classes, density=0.4)
    cls = method_class(name)
    return cls(network, **{"epochs": 2, "batch_size": 32, "per_class": 4, **options})  # type: ignore[call-arg]


def everything(stream: Stream, name: str, **options: object) -> Learner:
    method = learner(name, stream, **options)
    for task in stream:
        method.learn(task)
    return method


@pytest.mark.parametrize("name", RIVALS)
def test_the_memory_is_balanced_after_every_task(stream: Stream, name: str) -> None:
    method = learner(name, stream)
    for number, task in enumerate(stream, 1):
        method.learn(task)
        assert method.memory.counts() == dict.fromkeys(range(2 * number), 40 // (2 * number))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", RIVALS)
def test_random_pruning_leaves_as_many_weights_as_nispa_and_they_stay(stream: Stream, name: str) -> None:
    method = learner(name, stream)
    masks = [c.mask.copy() for c in method.network.wiring.connections]
    nispa = mlp(stream.input_shape, [30, 20], classes=stream.classes, density=0.4, seed=9)
    for task in list(stream)[:2]:
        method.learn(task)
    for mask, connections, other in zip(
        masks, method.network.wiring.connections, nispa.wiring.connections, strict=True
    ):
        assert np.array_equal(mask, connections.mask)
        assert connections.live == other.live


@pytest.mark.parametrize("name", RIVALS)
def test_answers_need_no_task_and_a_file_brings_everything_back(
    stream: Stream, name: str, tmp_path: Path
) -> None:
    method = learner(name, stream)
    for task in list(stream)[:2]:
        method.learn(task)
    save(method, tmp_path / "learner.nispa")
    again = load(tmp_path / "learner.nispa")
    x = stream[0].train.batch(torch.arange(30))
    assert torch.equal(method.logits(x, 0), method.logits(x, 1))
    assert torch.equal(method.logits(x, 0), again.logits(x, 1))
    method.learn(stream[2])
    again.learn(stream[2])
    for tensor, other in zip(method.state().tensors.values(), again.state().tensors.values(), strict=True):
        assert torch.equal(tensor, other)


# A-GEM -----------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-10, 10, width=32), st.floats(-10, 10, width=32)), min_size=1, max_size=12),
    st.integers(1, 11),
)
def test_a_projected_gradient_never_points_against_the_memorys(
    pairs: list[tuple[float, float]], cut: int
) -> None:
    g, r = torch.tensor(pairs, dtype=torch.float64).T
    parts = (g[:cut], g[cut:]), (r[:cut], r[cut:])
    projected = torch.cat(project(*parts))
    scale = float(g.norm() * r.norm())
    assert float(projected @ r) >= -1e-9 * max(scale, 1.0)
    if g @ r >= 0:
        assert torch.equal(projected, g)
    elif r @ r > 1e-6:  # the nearest such gradient: what was taken away is along r alone
        assert abs(float((g - projected).norm() - abs(g @ r) / r.norm())) <= 1e-6 * max(scale, 1.0)


def test_agem_corrects_the_gradients_of_a_real_step(stream: Stream) -> None:
    method = learner("a-gem", stream, epochs=30, batch_size=64, lr=0.1)
    assert isinstance(method, AGEM)
    method.learn(stream[0])
    parameters = list(method.network.parameters())
    task = stream[1].train
    F.cross_entropy(method.network(task.batch(torch.arange(len(task)))), task.labels).backward()
    before = torch.cat([p.grad.flatten().clone() for p in parameters])
    loss = memory_loss(method.network, method.memory, 64, np.random.default_rng(0))
    reference = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
    assert before @ reference < 0  # new classes alone push the old ones' outputs down
    method.correct(np.random.default_rng(0))
    after = torch.cat([p.grad.flatten() for p in parameters])
    assert after @ reference >= -1e-6 * after.norm() * reference.norm()
    expected = before - (before @ reference) / (reference @ reference) * reference
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-6)


# DER, DER++, ER ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["der", "der++"])
def test_der_keeps_the_logits_of_the_moment_of_storing(stream: Stream, name: str) -> None:
    method = learner(name, stream)
    assert isinstance(method, (DER, DERPlusPlus))
    method.learn(stream[0])
    stored, memory = method.memory.logits, method.memory.samples
    assert stored is not None
    assert memory is not None
    now = method.network(memory.batch(torch.arange(len(memory)))).detach()
    torch.testing.assert_close(stored, now, rtol=0, atol=1e-6)
    method.learn(stream[1])
    assert method.memory.samples is not None
    assert method.memory.logits is not None
    for row, sample in enumerate(method.memory.samples.inputs):
        if method.memory.samples.labels[row] in stream[0].classes:
            first = next(i for i, x in enumerate(memory.inputs) if torch.equal(x, sample))
            assert torch.equal(method.memory.logits[row], stored[first])
    later = method.network(memory.batch(torch.arange(len(memory)))).detach()
    assert not torch.allclose(later, stored, atol=1e-3)  # the network has moved on, what is stored has not


def test_the_losses_are_those_of_the_papers(stream: Stream) -> None:
    method = learner("der++", stream, logit_weight=0.3, replay_weight=0.7)
    assert isinstance(method, DERPlusPlus)
    method.learn(stream[0])
    memory, stored = method.memory.samples, method.memory.logits
    assert memory is not None
    assert stored is not None
    method.network.reinitialize(np.random.default_rng(0), keep=[np.zeros(n, bool) for n in (30, 20, 10)])
    rng = np.random.default_rng(5)
    first, second = (torch.from_numpy(rng.choice(len(memory), 8, replace=False)) for _ in range(2))
    answers = method.network(memory.batch(torch.arange(len(memory)))).detach()
    square = ((answers - stored)[first] ** 2).sum() / (8 * 10)
    entropy = -answers.log_softmax(1)[second, memory.labels[second]].sum() / 8
    found = method.replay(8, np.random.default_rng(5))
    torch.testing.assert_close(found, 0.3 * square + 0.7 * entropy, rtol=1e-4, atol=1e-5)
    alone = logit_loss(method.network, method.memory, 8, np.random.default_rng(5))
    torch.testing.assert_close(alone, square, rtol=1e-4, atol=1e-5)


def test_er_remembers_what_finetuning_forgets(stream: Stream) -> None:
    settings_ = {"epochs": 20, "lr": 0.1, "per_class": 10}
    with_memory, without = (
        everything(stream, "er", **settings_, replay_weight=weight) for weight in (1.0, 0.0)
    )
    assert isinstance(with_memory, ER)
    first = stream[0].test
    assert first is not None
    assert with_memory.accuracy(first, 0) > 0.6
    assert without.accuracy(first, 0) < 0.1


# iCaRL -------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 10_000))
def test_herding_is_the_brute_force_order(samples: int, width: int, seed: int) -> None:
    features = np.random.default_rng(seed).normal(size=(samples, width))
    order = herding(torch.from_numpy(features), samples).tolist()
    assert sorted(order) == list(range(samples))
    for k, row in enumerate(order):
        far = {
            i: np.linalg.norm(features.mean(0) - features[[*order[:k], i]].mean(0))
            for i in range(samples)
            if i not in order[:k]
        }
        assert far[row] <= min(far.values()) + 1e-9  # two can be as near, exactly or but for rounding


def test_icarl_answers_the_nearest_mean_of_its_exemplars(stream: Stream) -> None:
    method = everything(stream, "icarl")
    assert isinstance(method, ICaRL)
    memory, test = method.memory.samples, stream[3].test
    assert memory is not None
    assert test is not None

    def features(batch: Tensor) -> np.ndarray:
        last = method.network.activations(batch)[-1].double().numpy()
        return last / np.maximum(np.linalg.norm(last, axis=1, keepdims=True), 1e-12)

    phi = features(memory.batch(torch.arange(len(memory))).tensor())
    means = np.stack([phi[memory.labels.numpy() == c].mean(0) for c in range(10)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    rows = torch.arange(len(test))
    nearest = ((features(test.batch(rows).tensor())[:, None] - means[None]) ** 2).sum(2).argmin(1)
    assert (method.predict(test.batch(rows), 3).numpy() == nearest).mean() > 0.99


def test_icarl_never_answers_a_class_it_has_not_seen(stream: Stream) -> None:
    method = learner("icarl", stream)
    method.learn(stream[0])
    logits = method.logits(stream[1].train.batch(torch.arange(20)), 0)
    assert torch.isfinite(logits[:, :2]).all()
    assert torch.isneginf(logits[:, 2:]).all()


def test_icarls_exemplars_are_herded(stream: Stream) -> None:
    method = learner("icarl", stream)
    assert isinstance(method, ICaRL)
    method.learn(stream[0])
    members = stream[0].train.take((stream[0].train.labels == 1).nonzero()[:, 0])
    expected = herding(method.features(members.batch(torch.arange(len(members)))), 20)
    assert method.memory.samples is not None
    kept = method.memory.samples.inputs[method.memory.samples.labels == 1]
    assert torch.equal(kept, members.inputs[expected])


def test_icarls_loss_by_hand() -> None:
    """Binary cross-entropy over the seen outputs: old ones with soft targets, new ones with labels."""
    logits = torch.tensor([[0.5, -1.0, 2.0, 9.0], [0.1, 0.2, 0.3, 9.0]])
    targets = torch.tensor([[0.9, 0.2, 0.0, 0.0], [0.0, 0.3, 1.0, 0.0], [0.4, 0.4, 1.0, 0.0]])
    found = distillation([2, 0, 1], targets)(logits, torch.tensor([2, 0]))
    wanted = 0.0
    for row, target in ((0, 2), (1, 0)):
        for c in range(3):
            p, q = torch.sigmoid(logits[row, c]), targets[target, c]
            wanted -= float(q * p.log() + (1 - q) * (1 - p).log())
    assert float(found) == pytest.approx(wanted / 2, rel=1e-5)


def test_icarl_distills_what_the_network_answered_before_the_task(stream: Stream) -> None:
    method = learner("icarl", stream)
    assert isinstance(method, ICaRL)
    method.learn(stream[0])
    before = method.network
    samples, targets = method._lesson(stream[1])
    assert len(samples) == len(stream[1].train) + len(method.memory)
    answers = before(samples.batch(torch.arange(len(samples)))).detach().sigmoid()
    torch.testing.assert_close(targets[:, :2], answers[:, :2])
    assert torch.equal(targets[:, 2:4], F.one_hot(samples.labels, 10).float()[:, 2:4])
    assert not targets[:, 4:].any()
