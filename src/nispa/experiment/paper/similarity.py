"""Figure "similarity": how many new stable units a second task needs, over p_r (paper, Section 4.3).

The first task is MNIST, the second the same with a share p_r of the pixels permuted: the larger p_r, the
less the tasks have in common.
"""

from __future__ import annotations

from pathlib import Path

from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid
from nispa.experiment.paper.show import CYCLE, errors, number, panels, remark, save, table
from nispa.experiment.statistics import spread

FRACTIONS = (0.1, 0.25, 0.5, 0.75, 1.0)
QUICK = (0.1, 0.5, 1.0)
SMALLER = "20 % of MNIST's training data, 2 seeds, 3 values of p_r"


def runs(asked: Asked) -> Grid:
    return {
        fraction: [
            asked.config("permuted-mnist-2", None, seed, [f"stream.options.fraction={fraction}"], subset=0.2)
            for seed in asked.seeds_or(2)
        ]
        for fraction in (QUICK if asked.quick else FRACTIONS)
    }


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    text = remark(asked, found, SMALLER)
    there = [fraction for fraction in FRACTIONS if found[fraction]]
    layers = range(len(found[there[0]][0]["tasks"][1]["new_stable_units"]))

    def new_units(fraction: float, layer: int) -> list[float]:
        """In percent of the layer, what the second task added."""
        shares = []
        for results in found[fraction]:
            first, second = results["tasks"][0], results["tasks"][1]
            size = first["stable_units"][layer] + first["plastic_units"][layer]
            shares.append(100 * second["new_stable_units"][layer] / size)
        return shares

    figure, axes = panels(1, width=6.4, height=3.2)
    plot = axes[0][0]
    for layer in layers:
        values = [spread(new_units(f, layer)) for f in there]
        places = [i + (layer - 1) * 0.25 for i in range(len(there))]
        plot.bar(
            places,
            [v.mean for v in values],
            0.23,
            yerr=errors(values),
            color=CYCLE[layer],
            capsize=2,
            label=f"hidden layer {layer + 1}",
        )
    plot.set_xticks(range(len(there)), [f"{f:g}" for f in there])
    plot.set(xlabel="share of permuted pixels, p_r", ylabel="new stable units, % of the layer")
    plot.set_ylim(bottom=0)
    plot.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    made = [save(figure, folder / "similarity.png", text)]
    lines = [["p_r", "seeds", *(f"layer {n + 1}, new stable %" for n in layers), "all layers", "accuracy"]]
    for f in there:
        each = [new_units(f, layer) for layer in layers]
        whole = [sum(parts) / len(parts) for parts in zip(*each, strict=True)]
        cells = [number(values) for values in [*each, whole, found.averages(f)]]
        lines.append([f"{f:g}", str(len(found[f])), *cells])
    title = "New stable units for the second task (the paper shows bars without numbers)"
    return made + table(folder, "similarity", title, lines, text)


EXPERIMENT = Experiment(runs, draw, SMALLER)
