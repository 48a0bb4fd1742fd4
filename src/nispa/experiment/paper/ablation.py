"""Table "ablation": re-initialisation (R, NR) and the schedule of tau (Cos, Lin) (paper, appendix)."""

from __future__ import annotations

from pathlib import Path

from nispa.experiment import published
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid, streams
from nispa.experiment.paper.show import CYCLE, NAMES, bars, number, panels, remark, save, table, zoom
from nispa.experiment.statistics import spread

STREAMS = ("ef-mnist", "cifar100")
VARIANTS = {
    "R+Cos": (),
    "R+Lin": ("tau_schedule=linear",),
    "NR+Cos": ("reinitialize=false",),
    "NR+Lin": ("reinitialize=false", "tau_schedule=linear"),
}
SMALLER = "EF-MNIST only, 20 % of its training data, 2 seeds"


def runs(asked: Asked) -> Grid:
    return {
        (stream, name): [
            asked.config(stream, "nispa", seed, settings, subset=0.2) for seed in asked.seeds_or(2)
        ]
        for stream in streams(asked, STREAMS)
        for name, settings in VARIANTS.items()
    }


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    shown = [stream for stream in STREAMS if any(found[stream, v] for v in VARIANTS)]
    text = remark(asked, found, SMALLER)
    figure, axes = panels(len(shown))
    lines = [["stream", *(f"{v}, {whose}" for v in VARIANTS for whose in ("ours", "paper"))]]
    for i, stream in enumerate(shown):
        there = [name for name in VARIANTS if found[stream, name]]
        values = [spread(found.averages((stream, name))) for name in there]
        bars(axes[0][i], there, values, CYCLE)
        axes[0][i].set(title=NAMES[stream], ylabel="average accuracy, %")
        zoom(axes[0][i], values)
        theirs = published.table()["ablation"][stream]
        cells = [NAMES[stream]]
        for name in VARIANTS:
            cells += [number(found.averages((stream, name))), f"{theirs[name][0]} ± {theirs[name][1]}"]
        lines.append(cells)
    made = [save(figure, folder / "ablation.png", text)]
    title = "Average accuracy in %: re-initialised (R) or not (NR), cosine or linear tau"
    return made + table(folder, "ablation", title, lines, text)


EXPERIMENT = Experiment(runs, draw, SMALLER)
