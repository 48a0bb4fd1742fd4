"""Figure "activation": activations are skewed, and the most active units matter most (paper, Section 3.4).

A two-layer MLP of density .1 learns all ten digits of MNIST. A, B: the units' total activations in each
layer; C: their skewness, epoch by epoch; D: accuracy as more and more units of every layer are silenced,
the most active ones first or in random order. The paper says neither how wide the layers are nor how they
are trained: 400 units here, and the learning rate and batch of its row for permuted MNIST (2 tasks).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nispa import atomic
from nispa.data import streams
from nispa.data.task import Task
from nispa.draws import BATCHES, REWIRE, generator
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid
from nispa.experiment.paper.show import CYCLE, errors, number, panels, remark, save, table
from nispa.experiment.statistics import spread
from nispa.network import Network, mlp
from nispa.training import EVALUATION_BATCH, Optimization, accuracy, fit, task_loss

HIDDEN, DENSITY, EPOCHS, HOW = [400, 400], 0.1, 20, Optimization(0.01, 256)
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ORDERS = 3
"""How many random orders of removal are averaged."""
SUBSET = 0.2
SMALLER = "20 % of MNIST's training data, 2 seeds"


def runs(asked: Asked) -> Grid:
    """One network is trained and measured here; there is no stream of tasks."""
    return {}


def skewness(values: np.ndarray) -> float:
    """The third standardised moment."""
    deviation = values.std()
    return float(((values - values.mean()) ** 3).mean() / deviation**3) if deviation else 0.0


def measured(asked: Asked, seed: int, folder: Path) -> dict[str, Any]:
    """One seed, or what is in its file: a run that was interrupted goes on with the next seed."""
    path = folder / f"seed{seed}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    subset = SUBSET if asked.quick else 1.0
    (task,) = streams.build("permuted-mnist", data=asked.data, seed=seed, tasks=1, subset=subset)
    network = mlp(
        (1, 28, 28), HIDDEN, classes=10, density=DENSITY, seed=seed, init="fan_in", engine=asked.engine
    )
    skews: list[list[float]] = []

    def note(epoch: int, validation: float) -> None:
        skews.append([skewness(sums) for sums in totals(network, task)])

    fit(
        network,
        task.train,
        task_loss(task.classes, "true"),
        HOW,
        epochs=EPOCHS,
        draws=lambda epoch: generator(seed, BATCHES, 0, 1, epoch),
        keep="last",
        on_epoch=note,
    )
    sums = totals(network, task)
    assert task.test is not None
    removed = {"most active": removal(network, task, [np.argsort(-s, kind="stable") for s in sums])}
    orders = []
    for n in range(ORDERS):
        rng = generator(seed, REWIRE, 0, 0, n)
        orders.append(removal(network, task, [rng.permutation(len(s)) for s in sums]))
    removed["random"] = [float(np.mean(column)) for column in zip(*orders, strict=True)]
    result = {"sums": [list(s / len(task.train)) for s in sums], "skewness": skews, "removed": removed}
    atomic.write(path, json.dumps(result))
    return result


def totals(network: Network, task: Task) -> list[np.ndarray]:
    """Every unit's activation over the training set."""
    return network.engine.activation_sums(network, task.train.batches(EVALUATION_BATCH))


def removal(network: Network, task: Task, orders: list[np.ndarray]) -> list[float]:
    """Test accuracy with the first share of units of every layer silenced, for all SHARES."""
    assert task.test is not None
    stores, found = [layer.store.clone() for layer in network.sparse_layers], []
    with torch.no_grad():
        for share in SHARES:
            for layer, order in zip(network.sparse_layers[1:], orders, strict=True):
                silent = torch.zeros(layer.columns, dtype=torch.bool)
                silent[torch.from_numpy(order[: round(share * len(order))].copy())] = True
                layer.store[silent[layer.index.long()]] = 0
            found.append(accuracy(network, task.test))
        for layer, store in zip(network.sparse_layers, stores, strict=True):
            layer.store.copy_(store)
    return found


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    seeds = asked.seeds_or(2)
    every = [measured(asked, seed, folder) for seed in seeds]
    figure, axes = panels(4, width=3.0, height=2.8)
    for layer in range(2):
        plot = axes[0][layer]
        plot.hist(every[0]["sums"][layer], bins=40, color=CYCLE[layer])
        plot.set_title(f"{'AB'[layer]}  hidden layer {layer + 1}")
        plot.set(xlabel=f"mean activation of a unit (seed {seeds[0]})", ylabel="units")
        curves = np.array([one["skewness"] for one in every])[:, :, layer]
        epochs, mean = range(1, curves.shape[1] + 1), curves.mean(0)
        axes[0][2].plot(epochs, mean, color=CYCLE[layer], label=f"layer {layer + 1}")
        if len(every) > 1:
            band = curves.std(0, ddof=1)
            axes[0][2].fill_between(epochs, mean - band, mean + band, color=CYCLE[layer], alpha=0.2, lw=0)
    axes[0][2].set_title("C  skewness in training")
    axes[0][2].set(xlabel="epoch", ylabel="skewness", ylim=(0, None))
    axes[0][2].legend(frameon=False)
    for name, colour in (("most active", CYCLE[0]), ("random", CYCLE[1])):
        values = [spread([100 * one["removed"][name][i] for one in every]) for i in range(len(SHARES))]
        axes[0][3].errorbar(
            [100 * s for s in SHARES],
            [v.mean for v in values],
            errors(values),
            fmt="o-",
            ms=3,
            capsize=2,
            color=colour,
            label=name,
        )
    axes[0][3].set_title("D  units removed")
    axes[0][3].set(xlabel="removed, % of each layer", ylabel="test accuracy, %", ylim=(0, 102))
    axes[0][3].legend(frameon=False)
    text = remark(asked, found, SMALLER, seeds)
    made = [save(figure, folder / "activation.png", text)]
    heading = ["removed, % of each layer", *(f"{100 * s:.0f}" for s in SHARES)]
    lines = [heading]
    for name in ("most active", "random"):
        values_at = [[100 * one["removed"][name][i] for one in every] for i in range(len(SHARES))]
        lines.append([name, *(number(values) for values in values_at)])
    made += table(folder, "removal", "Test accuracy in % with units removed", lines, text)
    lines = [["epoch", "skewness, layer 1", "skewness, layer 2"]]
    for epoch in range(EPOCHS):
        both = [number([one["skewness"][epoch][layer] for one in every], 2) for layer in range(2)]
        lines.append([str(epoch + 1), *both])
    return made + table(folder, "skewness", "Skewness of the units' total activations", lines, text)


EXPERIMENT = Experiment(runs, draw, SMALLER)
