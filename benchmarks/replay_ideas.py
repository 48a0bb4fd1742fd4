"""Ideas for NISPA-Replay+, measured on validation sets (docs/class-incremental.md has what came out).

    python benchmarks/replay_ideas.py mnist --per-class 100 --seeds 0,1,2 --set stream.options.subset=0.25
    python benchmarks/replay_ideas.py mnist --ideas none,herding --seeds 0,1

Ideas that change learning are runs of their own; ideas for the classifier are measured on every run:

    none       NISPA-Replay
    herding    iCaRL's choice of exemplars instead of a random one
    logits     DER's second term: answers stay near those that were stored
    refit      after every task the output layer alone is trained on the (balanced) memory
    asymmetric the task's cross-entropy over its own outputs only, the memory's over all; then refit

    softmax    the output layer, as it is
    nearest    nearest mean of the exemplars' normalised stable activations of the last hidden layer
    last       Gaussians with one covariance on the stable units of the last hidden layer
    all        the same on the stable units of all hidden layers: NISPA-Replay+
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nispa import algorithm
from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.draws import MEMORY, generator
from nispa.experiment import recipe
from nispa.experiment.folder import Config
from nispa.experiment.run import build
from nispa.memory import all_answers
from nispa.methods.gaussian import discriminant, unit_activations
from nispa.methods.icarl import herding
from nispa.methods.rehearsal import logit_loss
from nispa.methods.replay import NISPAReplay
from nispa.training import Optimization, accuracy, fit, task_loss

IDEAS = ("none", "herding", "logits", "refit", "asymmetric")


def learn(learner: NISPAReplay, task: Task, idea: str) -> None:
    """NISPAReplay.learn with one idea in it."""
    network, memory, number = learner.network, learner.memory, len(learner.tasks)

    def beside(size: int, rng: np.random.Generator) -> Tensor:
        loss = learner.replay(size, rng)
        return loss + 0.5 * logit_loss(network, memory, size, rng) if idea == "logits" else loss

    if idea == "asymmetric":
        algorithm.task_loss = lambda classes, masking: task_loss(classes, "true")
    learner.nispa.learn(task, beside=beside if len(memory) else None)
    algorithm.task_loss = task_loss
    memory.add(
        task,
        outputs=network.classes,
        seed=learner.seed,
        number=number,
        order=(lambda samples, n: herding(phi(learner, samples.batches(512)), n))
        if idea == "herding"
        else None,
        answers=network if idea == "logits" else None,
    )
    if idea in ("refit", "asymmetric"):
        frozen = [np.ones(units, dtype=bool) for units in network.wiring.groups[1:]]
        frozen[-1][:] = False
        network.lay_out(frozen)
        fit(
            network,
            memory.samples,
            task_loss([], "none"),
            Optimization(0.05, 32, "sgd"),
            epochs=10,
            draws=lambda epoch: generator(learner.seed, MEMORY, number, 2, epoch),
            keep="last",
        )


def phi(learner: NISPAReplay, batches: object) -> Tensor:
    """Normalised activations of the last hidden layer."""
    found = [learner.network.activations(batch)[-1].flatten(1) for batch in batches]  # type: ignore[attr-defined]
    return F.normalize(torch.cat(found))


def classifiers(learner: NISPAReplay) -> dict[str, Callable[[Batch], Tensor]]:
    """Ways to answer, all from the same network and memory."""
    network, samples = learner.network, learner.memory.samples
    wiring = network.wiring
    stable = torch.from_numpy(np.concatenate([wiring.stable[g] for g in wiring.hidden]))
    last = stable.clone()
    last[: -len(wiring.stable[-2])] = False
    found: dict[str, Callable[[Batch], Tensor]] = {"softmax": network}
    for name, units in (("nearest", last), ("last", last), ("all", stable)):

        def activations(batch: Batch, units: Tensor = units, unit_length: bool = name == "nearest") -> Tensor:
            a = unit_activations(network, batch)[:, units]
            return F.normalize(a) if unit_length else a

        stored = all_answers(activations, samples)
        means = torch.stack([stored[samples.labels == c].mean(0) for c in range(network.classes)])
        if name == "nearest":
            found[name] = lambda batch, m=means, f=activations: -torch.cdist(f(batch), m)
            continue
        apart = stored - means[samples.labels]
        weights, offsets = discriminant(means, apart.T @ apart / (len(stored) - len(means)), shrinkage=0.03)
        found[name] = lambda batch, w=weights, b=offsets, f=activations: f(batch) @ w + b
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stream")
    parser.add_argument("--per-class", type=int, default=100)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ideas", default=",".join(IDEAS))
    parser.add_argument("--data")
    parser.add_argument("--set", action="append", default=[])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    for idea in asked.ideas.split(","):
        results: dict[str, list[float]] = {}
        started = time.monotonic()
        for seed in seeds:
            settings = [f"per_class={asked.per_class}", *asked.set]
            config = Config(recipe.find(asked.stream, "nispa-replay", settings), seed, "auto", 1, asked.data)
            stream, learner = build(config)
            assert isinstance(learner, NISPAReplay)
            for task in stream:
                learn(learner, task, idea)
            for name, answers in classifiers(learner).items():
                each = [100 * accuracy(answers, task.validation) for task in stream]
                results.setdefault(name, []).append(float(np.mean(each)))
        for name, values in results.items():
            spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
            shown = " ".join(f"{v:.2f}" for v in values)
            print(f"{idea:10} {name:8} {np.mean(values):6.2f}{spread}   ({shown})", flush=True)
        print(f"{idea:10} {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
