"""What docs/fidelity.md says is exactly true, on random networks, streams, seeds and optimizers.

``check_learning`` watches every phase and raises at the first broken invariant; here hypothesis looks for
a case in which one is.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small import ENGINES, network, shape_of, stream

from nispa.algorithm import NISPA
from nispa.checks import check_learning, check_same, check_selection
from nispa.files import load, save
from nispa.learner import State
from nispa.rewiring import select_candidates

COUNT = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

OPTIMIZERS = st.sampled_from(
    [
        {"optimizer": "adam"},
        {"optimizer": "adam", "weight_decay": 0.01},
        {"optimizer": "sgd"},
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01},
    ]
)


@st.composite
def cases(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """A network, a stream and a learner's options, all small."""
    if kind == "mlp":
        size: dict[str, Any] = {"hidden": draw(st.lists(st.integers(2, 14), min_size=1, max_size=3))}
    else:
        size = {
            "filters": draw(st.lists(st.integers(2, 7), min_size=1, max_size=2)),
            "hidden": draw(st.lists(st.integers(2, 9), max_size=1)),
        }
    return {
        "kind": kind,
        "engine": draw(st.sampled_from(ENGINES)),
        "size": size,
        "seed": draw(st.integers(0, 2**32)),
        "density": draw(st.one_of(st.floats(0.02, 1.0), st.sampled_from([0.02, 0.1, 0.2, 0.9, 1.0]))),
        "tasks": draw(st.integers(1, 3)),
        "classes": draw(st.integers(2, 3)),
        "last": draw(st.booleans()),
        "options": {
            "lr": draw(st.sampled_from([0.003, 0.02])),
            "batch_size": draw(st.sampled_from([5, 12, 100])),
            "phase_epochs": draw(st.integers(1, 2)),
            "accuracy_loss": draw(st.sampled_from([10.0, 30.0, 100.0])),
            "tau_period": draw(st.floats(3.0, 8.0)),
            "tau_schedule": draw(st.sampled_from(["cosine", "cosine", "linear"])),
            "growth": draw(st.sampled_from(["random", "novel", "transfer"])),
            "selection": draw(st.sampled_from(["paper", "paper", "all-units"])),
            "masking": draw(st.sampled_from(["true", "true", "zero"])),
            "keep_epoch": draw(st.sampled_from(["best", "last"])),
            "reinitialize": draw(st.booleans()),
            "min_phases": draw(st.integers(2, 3)),
            "skip_idle": draw(st.booleans()),
            **draw(OPTIMIZERS),
        },
    }


def learner_of(case: dict[str, Any], **changed: Any) -> NISPA:
    classes = case["tasks"] * case["classes"]
    options = {"seed": case["seed"], "engine": case["engine"], **case["size"]}
    net = network(case["kind"], classes, case["density"], **options)
    return NISPA(net, seed=case["seed"], **{**case["options"], **changed})


def stream_of(case: dict[str, Any]) -> Any:
    return stream(
        case["seed"], tasks=case["tasks"], classes=case["classes"], shape=shape_of(case["kind"]), samples=22
    )


def watch(case: dict[str, Any]) -> None:
    learner = learner_of(case)
    for number, task in enumerate(stream_of(case)):
        check_learning(learner, task, last=case["last"] and number == case["tasks"] - 1)


@COUNT
@given(cases("mlp"))
def test_every_invariant_holds_in_every_phase_of_an_mlp(case: dict[str, Any]) -> None:
    watch(case)


@COUNT
@given(cases("cnn"))
def test_every_invariant_holds_in_every_phase_of_a_cnn(case: dict[str, Any]) -> None:
    watch(case)


@st.composite
def layers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, float]:
    """A layer's activations (with silent units and ties), its stable units, tau."""
    units = draw(st.integers(1, 30))
    values = st.one_of(st.just(0.0), st.sampled_from([1.0, 2.0]), st.floats(0, 1e6, width=32))
    activation = np.array(draw(st.lists(values, min_size=units, max_size=units)))
    stable = np.array(draw(st.lists(st.booleans(), min_size=units, max_size=units)))
    return activation, stable, draw(st.one_of(st.floats(0.05, 1.0), st.sampled_from([1.0, 0.5])))


@settings(max_examples=300, deadline=None)
@given(layers())
@example((np.array([3.0, 3.0, 3.0, 0.0]), np.array([False] * 4), 2 / 3))
def test_candidates_are_the_fewest_that_reach_tau(case: tuple[np.ndarray, np.ndarray, float]) -> None:
    """5, and that stable units alone reaching tau give no candidates."""
    activation, stable, tau = case
    chosen = select_candidates(activation, stable, tau)
    check_selection(activation, stable, chosen, tau)
    ordered = [*activation[stable], *sorted(activation[~stable], reverse=True)]
    running = np.cumsum([0.0, *ordered])
    if running[int(stable.sum())] >= tau * running[-1]:
        assert not chosen.any()
    by_all = select_candidates(activation, stable, tau, "all-units")
    assert not (by_all & stable).any()
    assert activation[by_all | stable].sum() >= tau * activation.sum() * (1 - 1e-12)


class StopHereError(Exception):
    pass


def states(learner: NISPA, case: dict[str, Any]) -> State:
    for task in list(stream_of(case))[len(learner.tasks) :]:
        learner.learn(task)
    return learner.state()


RESUMED = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RESUMED
@given(st.one_of(cases("mlp"), cases("cnn")), st.integers(1, 20))
def test_stopped_at_any_checkpoint_and_read_from_a_file_it_ends_the_same(
    case: dict[str, Any], stop: int
) -> None:
    """8: the file written after any phase is all that a new process needs."""
    whole = states(learner_of(case), case)
    learner, points = learner_of(case), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.nispa"

        def checkpoint() -> None:
            nonlocal points
            points += 1
            save(learner, path)
            if points == stop:
                raise StopHereError

        try:
            for task in stream_of(case):
                learner.learn(task, checkpoint=checkpoint)
                checkpoint()
        except StopHereError:
            pass
        resumed = load(path)
    assert isinstance(resumed, NISPA)
    check_same(states(resumed, case), whole)


@RESUMED
@given(st.one_of(cases("mlp"), cases("cnn")), st.integers(1, 30))
def test_interrupted_at_any_event_the_same_learner_goes_on(case: dict[str, Any], stop: int) -> None:
    """8, in one process: Ctrl-C in a notebook, then ``learn`` with the same task again."""
    whole = states(learner_of(case), case)
    learner, events = learner_of(case), 0

    def interrupt(event: dict[str, Any]) -> None:
        nonlocal events
        events += 1
        if events == stop:
            raise KeyboardInterrupt

    try:
        for task in stream_of(case):
            learner.learn(task, report=interrupt)
    except KeyboardInterrupt:
        pass
    check_same(states(learner, case), whole)


@RESUMED
@given(st.one_of(cases("mlp"), cases("cnn")))
def test_skipping_idle_units_changes_nothing(case: dict[str, Any]) -> None:
    """9: whether plastic units are computed in later phases or not, the bits are the same."""
    skipped, computed = (states(learner_of(case, skip_idle=skip), case) for skip in (True, False))
    check_same(skipped, computed)


@pytest.mark.skipif("native" not in ENGINES, reason="the native engine is not built here")
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_the_number_of_threads_changes_nothing(kind: str) -> None:
    """8: any thread count. That is the native engine's promise; PyTorch's own kernels do not give it."""
    case: dict[str, Any] = {"kind": kind, "size": {}, "seed": 3, "density": 0.4, "tasks": 2, "classes": 2}
    case["engine"] = "native"
    case["options"] = {"phase_epochs": 1, "accuracy_loss": 30.0, "tau_period": 5, "batch_size": 8}
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(states(learner_of(case), case))
    finally:
        torch.set_num_threads(1)
    check_same(*found)


@settings(max_examples=15, deadline=None)
@given(st.one_of(cases("mlp"), cases("cnn")), st.integers(1, 5))
def test_added_outputs_leave_everything_learned_untouched(case: dict[str, Any], more: int) -> None:
    """Masks, weights, biases of all old rows, and the answers of all learned tasks, to the bit."""
    learner = learner_of(case)
    tasks = stream_of(case)
    for task in tasks:
        learner.learn(task)
    before, targets = learner.network.snapshot(), learner.wiring.connections[-1].target_count
    answers = [learner.logits(tasks[0].test.batch(torch.arange(11)), j) for j in range(len(tasks))]
    outputs = learner.network.classes
    learner.network.add_outputs(more)
    assert learner.network.classes == outputs + more
    for old, new in zip(before, learner.network.snapshot(), strict=True):
        rows = len(old[2])
        count = int(old[0].sum())
        assert np.array_equal(old[0], new[0][:rows])
        assert old[1].tobytes() == new[1][:count].tobytes()
        assert old[2].tobytes() == new[2][:rows].tobytes()
    for j, answer in enumerate(answers):
        now = learner.logits(tasks[0].test.batch(torch.arange(11)), j)
        if case["engine"] == "reference":  # PyTorch's product of another size rounds otherwise
            torch.testing.assert_close(now[:, :outputs], answer)
        else:
            assert now[:, :outputs].numpy().tobytes() == answer.numpy().tobytes()
    last = learner.wiring.connections[-1]
    expected = round(learner.network.shape.density * more * last.mask.shape[1])
    assert last.target_count - targets == expected == last.mask[outputs:].sum()
    later = stream(case["seed"] + 1, tasks=1, classes=max(more, 2), shape=shape_of(case["kind"]))[0]
    if more >= 2:
        shifted = type(later).from_arrays((later.train.inputs, later.train.labels + outputs), name="later")
        check_learning(learner, shifted)
