"""What docs/fidelity.md says is exactly true, on random networks, streams, seeds and optimizers.

``check_learning`` watches every phase and raises at the first broken invariant; here hypothesis looks for
a case in which one is.
"""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small import network, shape_of, stream

from nispa.algorithm import NISPA
from nispa.checks import check_learning

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
            "accuracy_loss": draw(st.sampled_from([9.0, 30.0, 100.0])),
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
    net = network(case["kind"], classes, case["density"], seed=case["seed"], **case["size"])
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
