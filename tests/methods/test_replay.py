"""NISPA-Replay: what is frozen and what is not, its loss, and that it resumes bit for bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nispa.algorithm import NISPA, Progress
from nispa.data import streams
from nispa.data.task import Stream
from nispa.draws import BATCHES, generator
from nispa.files import load, save
from nispa.learner import Event, silent
from nispa.memory import Memory
from nispa.methods.replay import NISPAReplay
from nispa.network import mlp

pytestmark = pytest.mark.filterwarnings("ignore:task .*accuracy_loss")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return streams.digits(subset=0.5)


def learner(stream: Stream, seed: int = 0, **options: object) -> NISPAReplay:
    network = mlp(stream.input_shape, [30, 30], classes=stream.classes, density=0.3, seed=seed)
    settings = {"lr": 0.1, "batch_size": 32, "per_class": 5, "phase_epochs": 1, "min_phases": 2}
    return NISPAReplay(network, **{**settings, "tau_period": 5, "seed": seed, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"momentum": 0.9, "weight_decay": 0.01}, {"optimizer": "adam", "lr": 0.01}]
)
def test_inputs_of_stable_hidden_units_never_change_and_outputs_rows_do(
    stream: Stream, options: dict[str, object]
) -> None:
    method = learner(stream, **options)
    network, wiring = method.network, method.network.wiring
    method.learn(stream[0])
    for task in list(stream)[1:]:
        stable, before = wiring.copy_stable(), network.snapshot()
        method.learn(task)
        for g, ((mask, weights, bias), (mask_2, weights_2, bias_2)) in enumerate(
            zip(before, network.snapshot(), strict=True), 1
        ):
            rows = np.flatnonzero(stable[g])
            same = [_row(mask, weights, bias, r) == _row(mask_2, weights_2, bias_2, r) for r in rows]
            if g in wiring.hidden:
                assert all(same)
            else:
                assert not any(same)
    assert wiring.stable[-1].all()


def _row(mask: np.ndarray, weights: np.ndarray, bias: np.ndarray, row: int) -> tuple[bytes, bytes, bytes]:
    starts = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return mask[row].tobytes(), weights[starts[row] : starts[row + 1]].tobytes(), bias[row].tobytes()


def test_no_plastic_unit_feeds_a_class_that_was_seen(stream: Stream) -> None:
    method = learner(stream)
    for number, task in enumerate(list(stream)[:3]):
        method.learn(task)
        wiring = method.network.wiring
        mask = wiring.connections[-1].mask
        seen = [c for t in list(stream)[: number + 1] for c in t.classes]
        assert not mask[np.ix_(seen, ~wiring.stable[-2])].any()


def test_the_loss_is_that_of_the_paper(stream: Stream) -> None:
    """One SGD step on CE(task) + lambda CE(memory), computed by hand from the same draws."""
    method = learner(stream, replay_weight=2.5, batch_size=10_000, lr=0.2)
    method.memory.add(stream[0], outputs=10, seed=0, number=0)
    method.network.lay_out([np.zeros(n, dtype=bool) for n in method.network.wiring.groups[1:]])
    twin = method.network.fresh(method.network.seed)
    task, memory = stream[1], method.memory.samples
    assert memory is not None
    now = Progress(
        task=1,
        name=task.name,
        classes=list(task.classes),
        protected=method.network.wiring.copy_stable(),
    )
    method.nispa.train(task, now, silent, method.replay)

    rng = generator(0, BATCHES, 1, 1, 0)
    rng.permutation(len(task.train))
    rows = torch.from_numpy(rng.choice(len(memory), len(memory), replace=False))
    on_task = twin(task.train.batch(torch.arange(len(task.train))))
    loss = F.cross_entropy(on_task, task.train.labels)
    (loss + 2.5 * F.cross_entropy(twin(memory.batch(rows)), memory.labels[rows])).backward()
    for trained, layer in zip(method.network.sparse_layers, twin.sparse_layers, strict=True):
        assert layer.values.grad is not None
        torch.testing.assert_close(
            trained.values, layer.values - 0.2 * layer.values.grad, rtol=1e-4, atol=1e-6
        )


def test_lambda_0_is_learning_without_a_memory(stream: Stream) -> None:
    """The same draws and the same steps as the algorithm without a second term."""
    with_memory, without = learner(stream, replay_weight=0.0), learner(stream)
    for task in list(stream)[:2]:
        with_memory.learn(task)
        without.nispa.learn(task)
    a, b = with_memory.network.snapshot(), without.network.snapshot()
    # the memory's draws come from the same generator as the order of the samples, after it
    for (mask, weights, _), (mask_2, weights_2, _) in zip(a, b, strict=True):
        assert np.array_equal(mask, mask_2)
        np.testing.assert_allclose(weights, weights_2, rtol=1e-5, atol=1e-6)


def test_nothing_is_re_initialised(stream: Stream) -> None:
    """After a task every weight is that of the phase that is kept."""
    method = learner(stream)
    kept: list[list[bytes]] = []
    method.learn(stream[0], checkpoint=lambda: kept.append(_weights(method.nispa.progress)))
    assert [weights.tobytes() for _, weights, _ in method.network.snapshot()] in kept


def _weights(now: Progress | None) -> list[bytes]:
    assert now is not None
    assert now.previous is not None
    return [weights.tobytes() for _, weights, _ in now.previous]


def scripted(monkeypatch: pytest.MonkeyPatch, accuracies: list[float]) -> None:
    """Validation says these, one after the other, and then the last of them."""
    left = list(accuracies)
    monkeypatch.setattr(NISPA, "_validate", lambda self, task: left.pop(0) if len(left) > 1 else left[0])


def test_a_phase_ends_with_its_last_epoch_however_good_the_others_were(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [0.9, 0.5] * 20)
    events = list[Event]()
    learner(stream, phase_epochs=2).learn(stream[0], report=events.append)
    phases = [event["validation_accuracy"] for event in events if event["event"] == "phase"]
    assert set(phases) == {0.5}


@pytest.mark.parametrize("min_phases", [3, 5])
def test_accuracy_has_no_say_before_min_phases(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, min_phases: int
) -> None:
    scripted(monkeypatch, [0.9, 0.1])
    record = learner(stream, min_phases=min_phases, tau_period=20).learn(stream[0])
    assert record.phases == min_phases + 1


def test_the_memorys_batch_is_as_large_as_the_tasks(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    method, drawn, draw = learner(stream, batch_size=48), list[int](), Memory.draw
    method.learn(stream[0])

    def watched(memory: Memory, size: int, rng: np.random.Generator) -> torch.Tensor:
        drawn.append(size)
        return draw(memory, size, rng)

    monkeypatch.setattr(Memory, "draw", watched)
    record = method.learn(stream[1])
    assert set(drawn) == {48, len(stream[1].train) % 48}
    assert sum(drawn) == record.samples


def test_resumed_in_the_middle_of_a_task_it_ends_in_the_same_bits(stream: Stream, tmp_path: Path) -> None:
    whole = learner(stream)
    for task in list(stream)[:3]:
        whole.learn(task)

    class StopError(Exception):
        pass

    stopped, path, calls = learner(stream), tmp_path / "learner.nispa", 0

    def stop() -> None:
        nonlocal calls
        calls += len(stopped.tasks)
        if calls == 2:
            save(stopped, path)
            raise StopError

    stopped.learn(stream[0])
    with pytest.raises(StopError):
        stopped.learn(stream[1], checkpoint=stop)
    resumed = load(path)
    assert isinstance(resumed, NISPAReplay)
    assert resumed.nispa.progress is not None
    for task in list(stream)[1:3]:
        resumed.learn(task)
    expected, found = whole.state(), resumed.state()
    assert expected.tensors.keys() == found.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert torch.equal(tensor, found.tensors[name]), name


def test_answers_need_no_task(stream: Stream) -> None:
    method = learner(stream)
    for task in list(stream)[:2]:
        method.learn(task)
    x = stream[0].train.batch(torch.arange(20))
    assert torch.equal(method.logits(x, 0), method.logits(x, 1))
    assert torch.isfinite(method.logits(x, 0)).all()
