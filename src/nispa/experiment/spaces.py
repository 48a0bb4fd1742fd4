"""Where ``nispa tune`` looks for hyperparameters: one entry per method, by the recipe's names.

The paper does not publish its ranges ("included the suggested values for baselines, when available"). These
contain every value of its table and of the authors' scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nispa.errors import NispaError

if TYPE_CHECKING:
    from optuna.trial import Trial


@dataclass(frozen=True)
class Log:
    """A number between two bounds, even on a logarithmic scale."""

    low: float
    high: float

    def suggest(self, trial: Trial, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high, log=True)

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and self.low <= value <= self.high


@dataclass(frozen=True)
class Even:
    """A number between two bounds."""

    low: float
    high: float

    def suggest(self, trial: Trial, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high)

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and self.low <= value <= self.high


class OneOf:
    """One of some values."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def suggest(self, trial: Trial, name: str) -> Any:
        return trial.suggest_categorical(name, self.values)

    def __contains__(self, value: Any) -> bool:
        return value in self.values


Space = Mapping[str, Log | Even | OneOf]

_TRAINING: Space = {"lr": Log(1e-4, 3e-2), "batch_size": OneOf(16, 32, 64, 128, 256, 512)}
_SPARSE: Space = {"network.density": OneOf(0.05, 0.1, 0.2, 0.3)}
_REPLAY: Space = {
    "lr": Log(1e-3, 0.2),
    "batch_size": OneOf(16, 32, 64, 128, 256),
    "epochs": OneOf(5, 10, 20),
    "optimizer": OneOf("sgd", "adam"),
}
_NISPA: Space = {
    "phase_epochs": OneOf(2, 3, 5),
    "accuracy_loss": Even(0.25, 3.0),
    "tau_period": OneOf(20, 30, 40),
}

_NISPA_REPLAY: Space = {
    "lr": Log(1e-3, 0.2),
    "batch_size": OneOf(16, 32, 64, 128, 256, 512),
    **_NISPA,
    **_SPARSE,
    "replay_weight": Log(0.1, 10),
    "min_phases": OneOf(3, 5),
    "optimizer": OneOf("sgd", "adam"),
}

SPACES: dict[str, Space] = {
    "nispa": {**_TRAINING, **_NISPA, **_SPARSE},
    "nispa-replay": _NISPA_REPLAY,
    "nispa-replay+": {**_NISPA_REPLAY, "shrinkage": Log(1e-3, 1)},
    "nispa-free": {**_TRAINING, **_NISPA, **_SPARSE, "shrinkage": Log(1e-3, 1)},
    "ni": {**_TRAINING, "lr": Log(1e-4, 0.2), "optimizer": OneOf("sgd", "adam")},
    "stl": _TRAINING,
    "stl-iso": _TRAINING,
    "joint": _TRAINING,
    "finetune": _TRAINING,
    "ewc": {**_TRAINING, "strength": Log(1, 1e6), "samples": OneOf(500, 1000, 2000)},
    "si": {**_TRAINING, "strength": Log(0.1, 1e5)},
    "mas": {**_TRAINING, "strength": Log(0.1, 1e5)},
    "clnp": {**_TRAINING, "l1": Log(1e-7, 1e-3), "margin": Even(0.25, 3.0)},
    "er": {**_REPLAY, "replay_weight": Log(0.1, 10)},
    "der": {**_REPLAY, "logit_weight": Log(0.01, 10)},
    "der++": {**_REPLAY, "logit_weight": Log(0.01, 10), "replay_weight": Log(0.1, 10)},
    "icarl": _REPLAY,
    "a-gem": _REPLAY,
}


def space(method: str) -> Space:
    if method not in SPACES:
        raise NispaError(f"no search space is known for {method!r}; there are some for {', '.join(SPACES)}")
    return SPACES[method]
