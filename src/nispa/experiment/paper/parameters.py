"""Table "parameters": the baselines' learnable parameters in multiples of NISPA's (paper, appendix).

Counted on the networks themselves. Beside them the operations of a forward pass on live connections, and
the density that is left to CLNP before each task.
"""

from __future__ import annotations

from pathlib import Path

from nispa.experiment import published, recipe
from nispa.experiment.events import read_events
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid, streams
from nispa.experiment.paper.show import COLOURS, NAMES, errors, number, panels, remark, save, table
from nispa.experiment.statistics import spread
from nispa.network import Network, Shape

STREAMS = {"ef-mnist": ((1, 28, 28), 57), "cifar10": ((3, 32, 32), 10), "cifar100": ((3, 32, 32), 100)}
"""The inputs and classes of the paper's streams: the networks are counted without their data."""
SMALLER = "CLNP's density from 20 % of EF-MNIST's training data, 1 seed"


def runs(asked: Asked) -> Grid:
    """The counts need no run; CLNP's density does."""
    return {
        stream: [asked.config(stream, "clnp", seed, subset=0.2) for seed in asked.seeds_or(1)]
        for stream in streams(asked, ("ef-mnist", "cifar10", "cifar100"), ("ef-mnist",))
    }


def network(stream: str, method: str) -> Network:
    """The network of a recipe, as the runner would build it."""
    plain = recipe.find(stream, method).network
    convolutions = tuple(
        (n, plain.kernel, 2 if i in plain.pool_after else 1) for i, n in enumerate(plain.filters, 1)
    )
    inputs, classes = STREAMS[stream]
    layers = convolutions if plain.kind == "cnn" else ()
    return Network(Shape(inputs, layers, tuple(plain.hidden), classes, plain.density), engine="reference")


def ratio(stream: str) -> float:
    """How many times more parameters the dense network has than NISPA's."""
    sparse, dense = network(stream, "nispa").cost(), network(stream, "ewc").cost()
    return dense["parameters"]["live"] / sparse["parameters"]["live"]


def clnp_density(folders: list[Path]) -> list[list[float]]:
    """Per task, the density before it in percent, one number per run."""
    before = []
    for folder in folders:
        left = [event["density"] for event in read_events(folder) if event["event"] == "pruned"]
        before.append([100.0, *(100 * density for density in left[:-1])])
    return [list(column) for column in zip(*before, strict=True)]


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    text = remark(asked, found, SMALLER)
    theirs = published.table()["parameters"]
    heading = ["stream", "NISPA", "dense", "ratio, ours", "ratio, paper", "MFLOP, live", "MFLOP, dense"]
    lines = [heading]
    for stream in STREAMS:
        cost = network(stream, "nispa").cost()
        counts, work = cost["parameters"], cost["flops"]
        assert counts["dense"] == network(stream, "ewc").cost()["parameters"]["live"]
        lines.append(
            [
                NAMES[stream],
                f"{counts['live']:,}",
                f"{counts['dense']:,}",
                f"{ratio(stream):.2f}",
                f"{theirs[stream]:.2f}",
                f"{work['forward_live'] / 1e6:.2f}",
                f"{work['forward_dense'] / 1e6:.2f}",
            ]
        )
    note = "Weights and biases; one forward pass of one sample, a multiply-add as two operations."
    made = table(folder, "parameters", "Learnable parameters", lines, note)

    densities = {stream: clnp_density(found.folders[stream]) for stream in STREAMS if found[stream]}
    figure, axes = panels(max(len(densities), 1), width=5.2)
    lines = [["stream", "task", "CLNP's density before it, %", "paper"]]
    for i, (stream, columns) in enumerate(densities.items()):
        values, places = [spread(column) for column in columns], range(1, len(columns) + 1)
        axes[0][i].bar(
            places,
            [v.mean for v in values],
            yerr=errors(values),
            color=COLOURS["clnp"],
            capsize=3,
            label="CLNP",
        )
        own = 100 * recipe.find(stream, "nispa").network.density
        axes[0][i].axhline(own, color=COLOURS["nispa"], label=f"NISPA, {own:.0f} %\nthroughout")
        axes[0][i].set(title=NAMES[stream], xlabel="before task", ylabel="density, %", ylim=(0, 105))
        axes[0][i].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        for task, column in enumerate(columns, 1):
            said = "73" if (stream, task) == ("ef-mnist", 5) else ""
            lines.append([NAMES[stream], str(task), number(column), said])
    made.append(save(figure, folder / "clnp-density.png", text))
    return made + table(folder, "clnp-density", "The density that is left to CLNP", lines, text)


EXPERIMENT = Experiment(runs, draw, SMALLER)
