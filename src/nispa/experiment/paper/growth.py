"""Figure and table "growth": Random, Novel and Transfer on five permuted MNIST tasks (paper, Section 4.4)."""

from __future__ import annotations

from pathlib import Path

from nispa.experiment import published
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid
from nispa.experiment.paper.show import CYCLE, errors, number, panels, remark, save, table
from nispa.experiment.statistics import spread

GROWTHS = ("novel", "random", "transfer")
PERMUTED = ("10", "100")
SMALLER = "10 % of MNIST's training data, 1 seed"


def runs(asked: Asked) -> Grid:
    return {
        (percent, growth): [
            asked.config(f"permuted-mnist-{percent}", None, seed, [f"growth={growth}"], subset=0.1)
            for seed in asked.seeds_or(1)
        ]
        for percent in PERMUTED
        for growth in GROWTHS
    }


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    text = remark(asked, found, SMALLER)
    figure, axes = panels(2, width=3.8)
    lines = [["growth", *(f"{p} % permuted, {whose}" for p in PERMUTED for whose in ("ours", "paper"))]]
    for i, percent in enumerate(PERMUTED):
        for colour, growth in zip(CYCLE, GROWTHS, strict=False):
            if not found[percent, growth]:
                continue
            rows = [[sum(t["stable_units"]) for t in r["tasks"]] for r in found[percent, growth]]
            values = [spread(column) for column in zip(*rows, strict=True)]
            places = range(1, len(values) + 1)
            mean, std = [v.mean for v in values], errors(values)
            axes[0][i].errorbar(
                places, mean, std, fmt="o-", ms=4, color=colour, capsize=3, label=growth.capitalize()
            )
        axes[0][i].set(title=f"{percent} % of the pixels permuted", xlabel="tasks learned")
        axes[0][i].set_xticks(range(1, 6))
        axes[0][i].set_ylabel("stable units, both layers")
        axes[0][i].legend(frameon=False, fontsize=8)
    top = max(axes[0][i].get_ylim()[1] for i in range(2))
    for i in range(2):
        axes[0][i].set_ylim(0, top)
    for growth in GROWTHS:
        cells = [growth.capitalize()]
        for percent in PERMUTED:
            theirs = published.table()["growth"][growth][percent]
            cells += [number(found.averages((percent, growth))), f"{theirs}"]
        lines.append(cells)
    made = [save(figure, folder / "growth.png", text)]
    return made + table(folder, "growth", "Average accuracy over five tasks, %", lines, text)


EXPERIMENT = Experiment(runs, draw, SMALLER)
