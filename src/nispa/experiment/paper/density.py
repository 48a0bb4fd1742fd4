"""Figure "density": NISPA's average accuracy over the network's density (paper, Section 4.2)."""

from __future__ import annotations

from pathlib import Path

from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid, streams
from nispa.experiment.paper.show import NAMES, bars, number, panels, remark, save, table, zoom
from nispa.experiment.statistics import spread

STREAMS = ("ef-mnist", "cifar10", "cifar100")
DENSITIES = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
QUICK = (0.05, 0.2, 0.5, 0.9)
SMALLER = "EF-MNIST only, 20 % of its training data, 1 seed, 4 densities"


def runs(asked: Asked) -> Grid:
    return {
        (stream, density): [
            asked.config(stream, "nispa", seed, [f"network.density={density}"], subset=0.2)
            for seed in asked.seeds_or(1)
        ]
        for stream in streams(asked, STREAMS)
        for density in (QUICK if asked.quick else DENSITIES)
    }


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    """The best density's bar is magenta, as in the paper."""
    shown = [stream for stream in STREAMS if any(found[stream, d] for d in DENSITIES)]
    text = remark(asked, found, SMALLER)
    figure, axes = panels(len(shown), width=4.4)
    lines = [["stream", "density", "seeds", "average accuracy", "density at the end"]]
    for i, stream in enumerate(shown):
        there = [d for d in DENSITIES if found[stream, d]]
        values = [spread(found.averages((stream, d))) for d in there]
        best = max(range(len(there)), key=lambda n: values[n].mean)
        colours = ["#d6336c" if n == best else "#868e96" for n in range(len(there))]
        bars(axes[0][i], [f"{d:g}" for d in there], values, colours)
        axes[0][i].set(title=NAMES[stream], xlabel="density", ylabel="average accuracy, %")
        zoom(axes[0][i], values)
        for d in there:
            ends = found.each((stream, d), lambda r: r["parameters"]["live"] / r["parameters"]["dense"])
            ours = found.averages((stream, d))
            lines.append([NAMES[stream], f"{d:g}", str(len(ours)), number(ours), number(ends, 3)])
    made = [save(figure, folder / "density.png", text)]
    said = f"{text}. Densities above about .5 cannot be kept: there is no room to grow (paper, appendix)."
    return made + table(folder, "density", "NISPA over density, accuracy in %", lines, said)


EXPERIMENT = Experiment(runs, draw, SMALLER)
