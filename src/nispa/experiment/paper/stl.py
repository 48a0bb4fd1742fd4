"""Figure "STL": NISPA between two single-task learners (paper, Section 4.1.1).

STL has NISPA's density for every task by itself, STL-ISO d/T: together as many connections as NISPA.
"""

from __future__ import annotations

from pathlib import Path

from nispa.experiment import published
from nispa.experiment.paper.baselines import STREAMS, SUBSET, chosen, per_task
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid, streams
from nispa.experiment.paper.show import NAMES, number, panels, remark, save, table

METHODS = ("stl", "nispa", "stl-iso")
SMALLER = "EF-MNIST only, 20 % of its training data, 2 seeds"


def runs(asked: Asked) -> Grid:
    return {
        (stream, method): [asked.config(stream, method, seed, subset=SUBSET) for seed in asked.seeds_or(2)]
        for stream in streams(asked, STREAMS)
        for method in chosen(asked, METHODS)
    }


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    shown = [stream for stream in STREAMS if any(found[stream, m] for m in METHODS)]
    text = remark(asked, found, SMALLER)
    figure, axes = panels(len(shown), width=5.2, height=3.2)
    lines = [["stream", "method", "seeds", "average over tasks", "paper"]]
    for i, stream in enumerate(shown):
        there = [method for method in METHODS if found[stream, method]]
        per_task(axes[0][i], found, stream, there)
        for method in there:
            ours = found.averages((stream, method))
            theirs = " or ".join(map(str, published.averages(stream, method)))
            if (stream, method) == ("cifar100", "stl-iso"):
                theirs = "below 50"  # Section 4.1.1; the figure leaves it out
            lines.append([NAMES[stream], NAMES[method], str(len(ours)), number(ours), theirs])
    made = [save(figure, folder / "stl.png", text)]
    return made + table(folder, "stl", "Single-task learners and NISPA, accuracy in %", lines, text)


EXPERIMENT = Experiment(runs, draw, SMALLER)
