"""The digits stream as a whole: what `nispa run digits` promises, over five seeds."""

import numpy as np
import pytest

from nispa.experiment import recipe
from nispa.experiment.folder import Config
from nispa.experiment.results import Results
from nispa.experiment.run import build
from nispa.learner import Learner

SEEDS = range(5)


def learned(method: str | None, seed: int) -> tuple[Learner, Results]:
    stream, learner = build(Config(recipe.find("digits", method), seed))
    results = Results(stream)
    for task in stream:
        learner.learn(task)
        results.add(learner)
    return learner, results


@pytest.mark.slow
def test_nispa_is_as_good_as_a_network_per_task_and_leaves_room() -> None:
    """Within .01 of STL, nothing forgotten, a quarter of every layer plastic, tau below .9 mostly."""
    accuracy: dict[str, list[float]] = {"nispa": [], "stl": []}
    for seed in SEEDS:
        for method, found in accuracy.items():
            learner, results = learned(None if method == "nispa" else method, seed)
            found.append(results.average_accuracy)
            if method == "nispa":
                assert results.forgetting == 0
                for g in learner.network.wiring.hidden:
                    assert (~learner.network.wiring.stable[g]).mean() >= 0.25
                taus = [record.final_tau for record in learner.tasks]
                assert sum(tau is not None and tau < 0.9 for tau in taus) >= 3, taus
    assert np.mean(accuracy["nispa"]) >= np.mean(accuracy["stl"]) - 0.01, accuracy
