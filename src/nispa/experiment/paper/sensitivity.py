"""Figure "sensitivity": the paper's claim that NISPA is not fragile in e, a_f and k, measured.

The appendix says so without numbers. Here one of the three is varied at a time around the recipe's values.
"""

from __future__ import annotations

from pathlib import Path

from nispa.experiment import recipe
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid, streams
from nispa.experiment.paper.show import CYCLE, NAMES, errors, number, panels, remark, save, table, zoom
from nispa.experiment.statistics import spread

STREAMS = ("ef-mnist",)
VARIED: dict[str, tuple[float, ...]] = {
    "phase_epochs": (2, 3, 5, 8),
    "accuracy_loss": (0.25, 0.5, 0.75, 1.5, 3),
    "tau_period": (10, 20, 30, 40, 60),
}
QUICK: dict[str, tuple[float, ...]] = {
    "phase_epochs": (2, 5),
    "accuracy_loss": (0.25, 0.75, 3),
    "tau_period": (10, 30),
}
LABELS = {"phase_epochs": "e, epochs of a phase", "accuracy_loss": "a_f, points", "tau_period": "k"}
SMALLER = "20 % of the training data, 1 seed, 2 or 3 values each"


def runs(asked: Asked) -> Grid:
    return {
        (stream, name, value): [
            asked.config(stream, "nispa", seed, [f"{name}={value:g}"], subset=0.2)
            for seed in asked.seeds_or(1)
        ]
        for stream in streams(asked, STREAMS)
        for name, values in (QUICK if asked.quick else VARIED).items()
        for value in values
    }


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    text = remark(asked, found, SMALLER)
    stream = streams(asked, STREAMS)[0]
    own = recipe.find(stream, "nispa").hyperparameters
    figure, axes = panels(3, width=3.2, height=2.8)
    lines = [["hyperparameter", "value", "seeds", "average accuracy", "epochs"]]
    everything = []
    for i, (name, known) in enumerate(VARIED.items()):
        there = [value for value in known if found[stream, name, value]]
        values = [spread(found.averages((stream, name, value))) for value in there]
        everything += values
        axes[0][i].errorbar(
            there, [v.mean for v in values], errors(values), fmt="o-", color=CYCLE[i], capsize=3
        )
        axes[0][i].axvline(own[name], color="#adb5bd", lw=1, ls=":", zorder=0)
        axes[0][i].set(xlabel=LABELS[name], ylabel="average accuracy, %")
        for value in there:
            epochs = found.each((stream, name, value), lambda r: sum(task["epochs"] for task in r["tasks"]))
            ours = found.averages((stream, name, value))
            mark = " (recipe)" if value == own[name] else ""
            lines.append([LABELS[name], f"{value:g}{mark}", str(len(ours)), number(ours), number(epochs, 0)])
    for i in range(3):
        zoom(axes[0][i], everything)
    figure.suptitle(f"{NAMES[stream]}; dotted: the paper's value", fontsize=9)
    made = [save(figure, folder / "sensitivity.png", text)]
    return made + table(folder, "sensitivity", "NISPA, one hyperparameter varied at a time", lines, text)


EXPERIMENT = Experiment(runs, draw, SMALLER)
