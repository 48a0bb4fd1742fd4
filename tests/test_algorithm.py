"""Algorithm 1: when it stops and what it keeps, by scripted accuracies; options; interruptions."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from small import network, shape_of, stream

from nispa.algorithm import NISPA, Place
from nispa.checks import check_learning
from nispa.data.task import Task
from nispa.errors import NispaError
from nispa.learner import TaskRecord


class Scripted(NISPA):
    """Its validation accuracy is given, one value an epoch; the last one stays."""

    script: tuple[float, ...] = ()

    def _validate(self, task: Task) -> float:
        script, self.script = self.script, self.script[1:] or self.script
        return script[0]


def follow(script: list[float], kind: str = "mlp", **options: Any) -> tuple[Scripted, TaskRecord]:
    """Learn one task whose phases (of one epoch) validate as written; every invariant is checked."""
    tasks = stream(1, tasks=2, shape=shape_of(kind))
    settings = {"phase_epochs": 1, "accuracy_loss": 10.0, "tau_period": 8, "batch_size": 8, **options}
    learner = Scripted(network(kind, tasks.classes, 0.4), **settings)
    learner.script = tuple(script)
    return learner, check_learning(learner, tasks[0], last=bool(options.get("last")))


@pytest.mark.parametrize(
    ("script", "phases"),
    [
        ([0.9, 0.5, 0.9, 0.8, 0.79], 5),  # phase 2 is not tested yet; .8 is just good enough
        ([0.9, 0.9, 0.79], 3),
        ([0.5, 0.6, 0.7, 0.8, 0.9, 0.79], 6),  # against the best, not the one before
        ([0.9, 0.85, 0.85, 0.75], 4),  # small losses add up
        ([0.9], 7),  # never worse: the floor
    ],
)
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_a_task_stops_when_it_is_worse_than_the_best_by_more_than_a_f(
    script: list[float], phases: int, kind: str
) -> None:
    learner, record = follow(script, kind)
    assert record.phases == record.epochs == phases
    # M[p-1] with S[p-2], whose tau is that of phase p-2; at the floor S[p-1].
    last_tau = phases - 1 if len(script) == 1 else phases - 2
    assert record.final_tau == learner.schedule(last_tau)
    assert learner.progress is None


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_a_loss_of_exactly_a_f_is_no_stop_whatever_the_rounding(steps: int) -> None:
    """a_max - a_f <= a: shares of n samples against points, equal in real numbers."""
    for n in (7, 29, 100, 400, 1999):
        best = n - 1
        learner, _ = follow([best / n, best / n, (best - steps) / n], accuracy_loss=100 * steps / n)
        assert learner.tasks[0].phases > 3, n
        learner, _ = follow([best / n, best / n, (best - steps - 1) / n], accuracy_loss=100 * steps / n)
        assert learner.tasks[0].phases == 3, n


@pytest.mark.parametrize(("keep", "phases"), [("best", 4), ("last", 3)])
def test_a_phase_ends_with_the_epoch_that_is_asked_for(keep: str, phases: int) -> None:
    """Two epochs a phase. Kept is the better one (.9, .9, .9, .1) or the second (.5, .9, .5)."""
    _, record = follow([0.9, 0.5, 0.5, 0.9, 0.9, 0.5, 0.1], phase_epochs=2, keep_epoch=keep)
    assert record.phases == phases


@pytest.mark.parametrize("min_phases", [2, 3, 5])
def test_no_test_before_min_phases(min_phases: int) -> None:
    _, record = follow([0.9, 0.1], min_phases=min_phases)
    assert record.phases == min_phases + 1


def test_the_kept_units_are_those_of_two_phases_ago() -> None:
    """The units that became stable are S[p-2], not the fewer ones chosen later."""
    learner, record = follow([0.9, 0.9, 0.9, 0.1], tau_period=6)
    later, _ = follow([0.9, 0.9, 0.9, 0.9, 0.1], tau_period=6)
    assert record.new_stable_units == record.stable_units
    assert sum(record.stable_units or []) > sum(later.tasks[0].stable_units or [])
    for g in learner.wiring.hidden:
        assert np.array_equal(learner.wiring.became[g] == 0, learner.wiring.stable[g])


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_the_last_task_takes_every_free_unit(kind: str) -> None:
    tasks = stream(2, tasks=2, shape=shape_of(kind))
    learner = NISPA(network(kind, 4, 0.05), phase_epochs=1, accuracy_loss=30, tau_period=6, batch_size=8)
    check_learning(learner, tasks[0])
    answer = learner.logits(tasks[0].test.batch(torch.arange(12)), 0)  # type: ignore[union-attr]
    record = check_learning(learner, tasks[1], last=True)
    assert record.plastic_units == [0] * len(learner.wiring.hidden)
    assert learner.wiring.summary().count(" 0 ") >= len(learner.wiring.hidden)
    again = learner.logits(tasks[0].test.batch(torch.arange(12)), 0)  # type: ignore[union-attr]
    assert again.numpy().tobytes() == answer.numpy().tobytes()


def test_the_last_task_goes_on_while_it_gets_better() -> None:
    def last(script: list[float]) -> int:
        tasks = stream(1, tasks=1)
        learner = Scripted(network("mlp", 2), phase_epochs=1, accuracy_loss=90, tau_period=20)
        learner.script = tuple(script)
        return learner.learn(tasks[0], last=True).phases

    assert last([0.5, 0.6, 0.6]) == 3
    assert last([0.5, 0.6, 0.7, 0.8, 0.8]) == 5


def test_without_reinitialisation_plastic_weights_stay() -> None:
    follow([0.9, 0.9, 0.9, 0.1], reinitialize=False)  # check_learning compares them


def test_reinitialisation_starts_plastic_units_anew() -> None:
    kept, _ = follow([0.9, 0.9, 0.9, 0.1], reinitialize=False)
    anew, _ = follow([0.9, 0.9, 0.9, 0.1])
    for i, (one, other) in enumerate(zip(kept.network.snapshot(), anew.network.snapshot(), strict=True)):
        stable = kept.wiring.stable[i + 1]
        rows = np.repeat(stable, one[0].sum(axis=1))
        assert np.array_equal(one[1][rows], other[1][rows])
        assert not (one[1][~rows] == other[1][~rows]).any()
        assert not other[2][~stable].any()


def test_a_record_tells_what_happened() -> None:
    learner, record = follow([0.9, 0.9, 0.9, 0.1], phase_epochs=2)
    assert (record.name, record.classes) == ("blobs 0", [0, 1])
    assert record.samples == record.epochs * 24
    assert record.seconds > 0
    assert record.free_connections == learner.wiring.free_connections()
    assert record.plastic_units == [
        n - s for n, s in zip(learner.wiring.groups[1:-1], record.stable_units or [], strict=True)
    ]


def small(**options: Any) -> NISPA:
    return NISPA(network("mlp", 6, 0.4), phase_epochs=1, accuracy_loss=30.0, tau_period=5, **options)


def test_events_tell_every_epoch_and_phase() -> None:
    learner, events = small(), list[dict[str, Any]]()
    record = learner.learn(stream()[0], report=events.append)
    kinds = [event["event"] for event in events]
    assert kinds.count("epoch") == record.epochs
    assert kinds.count("phase") == record.phases - 1
    assert kinds[-1] == "task"
    phases = [event for event in events if event["event"] == "phase"]
    assert [event["tau"] for event in phases] == [learner.schedule(p) for p in range(1, record.phases)]
    assert all(len(event["protected"]) == 2 == len(event["shortfall"]) - 1 for event in phases)


def test_an_output_without_input_is_reported() -> None:
    """With one connection to two outputs, one of them has no input at all."""
    learner, events = NISPA(network("mlp", 2, 0.05, hidden=(10,)), accuracy_loss=30, tau_period=5), []
    assert learner.wiring.connections[-1].live == 1
    learner.learn(stream(tasks=1)[0], report=events.append)
    assert all(event["outputs_without_input"] for event in events if event["event"] == "phase")


def test_shortfall_is_reported_when_the_last_outputs_are_learned() -> None:
    """Appendix, "The Multi-Head Setting": then nothing can be grown into the output layer."""
    tasks, events = stream(tasks=1), list[dict[str, Any]]()
    learner = NISPA(network("mlp", 2, 0.4), phase_epochs=1, accuracy_loss=30, tau_period=4)
    learner.learn(tasks[0], report=events.append)
    shortfall = [event["shortfall"][-1] for event in events if event["event"] == "phase"]
    connections = learner.wiring.connections[-1]
    assert max(shortfall) > 0
    assert connections.live < connections.target_count


def test_another_task_in_the_middle_of_one_is_refused_and_the_first_can_be_finished() -> None:
    whole, learner, tasks = small(), small(), stream()
    whole.learn(tasks[0])

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "phase" and event["phase"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(tasks[0], report=interrupt)
    with pytest.raises(NispaError, match=r"'blobs 0' .* is half learned"):
        learner.learn(tasks[1])
    record = learner.learn(tasks[0])
    assert (record.epochs, record.samples) == (whole.tasks[0].epochs, whole.tasks[0].samples)


def test_outputs_are_not_added_in_the_middle_of_a_task() -> None:
    learner = small()

    def add(event: dict[str, Any]) -> None:
        if event["event"] == "phase":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(stream()[0], report=add)
    learner.network.add_outputs(2)
    with pytest.raises(NispaError, match="outputs were added in the middle of task 'blobs 0'"):
        learner.learn(stream()[0])


def test_what_diverges_is_one_line_and_leaves_the_learner_at_the_start_of_the_phase() -> None:
    learner = small(lr=1e30, optimizer="sgd")
    for _ in range(2):
        with pytest.raises(NispaError, match="diverged"):
            learner.learn(stream()[0])
        assert learner.tasks == []
        assert all(np.isfinite(part[1]).all() for part in learner.network.snapshot())


def test_an_accuracy_loss_finer_than_a_sample_is_warned_about() -> None:
    learner = NISPA(network("mlp", 6), accuracy_loss=0.5, phase_epochs=1, tau_period=5)
    with pytest.warns(UserWarning, match=r"one of 12 validation samples is 8\.33"):
        learner.learn(stream()[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"growth": "novell"}, "did you mean 'novel'"),
        ({"selection": "papr"}, "did you mean 'paper'"),
        ({"masking": "tru"}, "did you mean 'true'"),
        ({"keep_epoch": "bst"}, "did you mean 'best'"),
        ({"phase_epochs": 0}, "phase_epochs is 0"),
        ({"min_phases": 1}, "min_phases is 1"),
        ({"accuracy_loss": -1}, "accuracy_loss is -1"),
        ({"accuracy_loss": float("nan")}, "accuracy_loss is nan"),
        ({"tau_period": 1}, "tau_period is 1"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], words: str) -> None:
    with pytest.raises(NispaError, match=words):
        NISPA(network("mlp", 4), **options)


def test_a_checkpoint_holds_all_of_the_progress() -> None:
    """Every field but the clock; each of them decides how a resumed task goes on."""
    learner, seen = small(), 0

    def compare() -> None:
        nonlocal seen
        other = small()
        other.load_state(learner.state())
        now, then = learner.progress, other.progress
        assert now is not None
        assert then is not None
        for field in fields(Place):
            assert getattr(now, field.name) == getattr(then, field.name), field.name
            assert getattr(now, field.name) or field.name == "task"
        for name in ("protected", "protected_before"):
            for one, two in zip(getattr(now, name), getattr(then, name), strict=True):
                assert np.array_equal(one, two)
        assert now.previous is not None
        assert then.previous is not None
        for parts in zip(now.previous, then.previous, strict=True):
            assert all(a.tobytes() == b.tobytes() for a, b in zip(*parts, strict=True))
        seen += 1

    record = learner.learn(stream()[0], checkpoint=compare)
    assert seen == record.phases - 1
