"""What NISPA-Free's accuracy comes from, measured on validation sets (docs/class-incremental.md).

    python benchmarks/free_ideas.py mnist --seeds 0 --set stream.options.subset=0.25

One run of NISPA-Free per seed; then its statistics are cut to the input units, to the stable hidden units,
or used whole, with tasks told apart all at once (by the units of the first task) or one after the other, and
with one covariance matrix per stage or one for all (entries measured since both units were stable).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from nispa.data.samples import Batch
from nispa.experiment import recipe
from nispa.experiment.folder import Config
from nispa.experiment.run import build
from nispa.methods.free import NISPAFree
from nispa.methods.gaussian import discriminant, unit_activations
from nispa.training import accuracy


def covariance(learner: NISPAFree, stage: int, one: bool) -> Tensor:
    """Of the units of a stage, from the samples of its own and later tasks; or the common one, made fit."""
    own = [matrix.double() / sum(learner.counts[k:]) for k, matrix in enumerate(learner.scatters)]
    if not one:
        return own[stage]
    whole = own[-1].clone()
    for matrix in reversed(own):
        whole[: len(matrix), : len(matrix)] = matrix
    values, vectors = torch.linalg.eigh(whole)
    nearest: Tensor = (vectors * values.clamp(min=0)) @ vectors.T
    return nearest[: learner.known[stage], : learner.known[stage]]


def answers(
    learner: NISPAFree, use: str, in_turn: bool, one: bool, shrinkage: float
) -> Callable[[Batch], Tensor]:
    inputs = learner.network.wiring.groups[0]
    stages = []
    for number, known in enumerate(learner.known if in_turn else learner.known[:1]):
        units = learner.units[:known]
        chosen = {"inputs": units < inputs, "hidden": units >= inputs, "both": units >= 0}[use]
        classes = [c for record in learner.tasks[number:] for c in record.classes]
        matrix = covariance(learner, number, one)[chosen][:, chosen]
        means = learner.means[classes, :known].double()[:, chosen]
        stages.append((units[chosen], *discriminant(means, matrix, shrinkage), classes))

    def answer(batch: Batch) -> Tensor:
        activations = unit_activations(learner.network, batch, inputs=True)
        logits = learner.network(batch).detach().double()
        found = torch.full_like(logits, -torch.inf)
        later = logits.new_zeros(len(logits))
        for number, (units, weights, offsets, classes) in enumerate(stages):
            scores = (activations[:, units] @ weights + offsets).log_softmax(1)
            if not in_turn:
                found[:, classes] = scores
                break
            mine = learner.tasks[number].classes
            own = torch.tensor([c in mine for c in classes])
            within = logits[:, mine].log_softmax(1)
            found[:, mine] = (later + scores[:, own].logsumexp(1))[:, None] + within
            later = later + scores[:, ~own].logsumexp(1)
        return found

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stream")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--data")
    parser.add_argument("--set", action="append", default=[])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, list[float]] = {}
    for seed in (int(text) for text in asked.seeds.split(",")):
        config = Config(recipe.find(asked.stream, "nispa-free", asked.set), seed, "auto", 1, asked.data)
        stream, learner = build(config)
        assert isinstance(learner, NISPAFree)
        for task in stream:
            learner.learn(task)
        for use in ("inputs", "hidden", "both"):
            for in_turn, one in ((False, False), (True, False), (True, True)):
                for shrinkage in (0.003, 0.01, 0.03, 0.1, 0.3):
                    how = "one matrix" if one else "in turn" if in_turn else "at once"
                    answer = answers(learner, use, in_turn, one, shrinkage)
                    each = [100 * accuracy(answer, task.validation) for task in stream]
                    results.setdefault(f"{use:7} {how:10} {shrinkage:5}", []).append(float(np.mean(each)))
    for name, values in results.items():
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        print(f"{name}  {np.mean(values):6.2f}{spread}", flush=True)


if __name__ == "__main__":
    main()
