"""Figure "baselines" and tables of it: NISPA beside CLNP, EWC, SI and MAS (paper, Section 4.1.2).

Finetune and Joint, which the paper does not show, stand in the table as the lower and the upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nispa.errors import NispaError
from nispa.experiment import published
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid, streams
from nispa.experiment.paper.show import COLOURS, NAMES, number, panels, remark, save, table, zoom
from nispa.experiment.statistics import spread

STREAMS = ("ef-mnist", "cifar10", "cifar100")
METHODS = ("nispa", "clnp", "ewc", "si", "mas")
BOUNDS = ("finetune", "joint")
SUBSET = 0.2
SMALLER = "EF-MNIST only, 20 % of its training data, 2 seeds"


def chosen(asked: Asked, known: Sequence[str]) -> Sequence[str]:
    for method in asked.methods or ():
        if method not in known:
            raise NispaError(f"this experiment has no method {method!r}; choose from {', '.join(known)}")
    return asked.methods or known


def runs(asked: Asked) -> Grid:
    return {
        (stream, method): [asked.config(stream, method, seed, subset=SUBSET) for seed in asked.seeds_or(2)]
        for stream in streams(asked, STREAMS)
        for method in chosen(asked, (*METHODS, *BOUNDS))
    }


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    shown = [stream for stream in STREAMS if any(found[stream, m] for m in METHODS)]
    text = remark(asked, found, SMALLER)
    made = []
    if shown:
        figure, axes = panels(len(shown), width=5.2, height=3.2)
        for i, stream in enumerate(shown):
            per_task(axes[0][i], found, stream, [m for m in METHODS if found[stream, m]])
        made.append(save(figure, folder / "baselines.png", text))
    made += table(folder, "baselines", "Average accuracy over tasks, %", rows(found), text)
    made += table(folder, "deviations", "Standard deviation of it over seeds", deviations(found), text)
    return made


def per_task(axes: object, found: Found, stream: str, methods: Sequence[str]) -> None:
    """Accuracy of every task after the last one: one line per method."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    everything = []
    for method in methods:
        values = [spread(task) for task in found.finals((stream, method))]
        everything += values
        places = list(range(1, len(values) + 1))
        mean, std = [v.mean for v in values], [v.std or 0.0 for v in values]
        average = number(found.averages((stream, method)))
        axes.plot(places, mean, "o-", ms=3, color=COLOURS[method], label=f"{NAMES[method]}  {average}")
        low = [m - s for m, s in zip(mean, std, strict=True)]
        high = [m + s for m, s in zip(mean, std, strict=True)]
        axes.fill_between(places, low, high, color=COLOURS[method], alpha=0.15, lw=0)
    axes.set_title(NAMES[stream])
    axes.set_xlabel("task")
    axes.set_xticks(places if len(places) <= 10 else places[::2])
    axes.set_ylabel("accuracy, %")
    zoom(axes, everything)
    axes.legend(
        fontsize=7,
        frameon=False,
        title="average over tasks",
        title_fontsize=7,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        alignment="left",
    )


def rows(found: Found) -> list[list[str]]:
    """Ours beside the number in the paper's text, where it gives one."""
    lines = [["stream", "method", "seeds", "average", "forgetting", "below Joint", "paper"]]
    for stream in STREAMS:
        joint = found.averages((stream, "joint"))
        for method in (*METHODS, *BOUNDS):
            ours = found.averages((stream, method))
            if not ours:
                continue
            lost = found.each((stream, method), lambda r: 100 * float(r["forgetting"]))
            below = f"{spread(joint).mean - spread(ours).mean:.1f}" if joint and method != "joint" else ""
            paper = " or ".join(map(str, published.averages(stream, method)))
            lines.append(
                [NAMES[stream], NAMES[method], str(len(ours)), number(ours), number(lost), below, paper]
            )
    return lines


def deviations(found: Found) -> list[list[str]]:
    """The paper's table of standard deviations, ours beside it."""
    lines = [["method", *(f"{NAMES[s]}, {whose}" for s in STREAMS for whose in ("ours", "paper"))]]
    theirs = published.table()["deviation"]
    for method in METHODS:
        cells = []
        for stream in STREAMS:
            values = found.averages((stream, method))
            std = spread(values).std if values else None
            cells += ["–" if std is None else f"{std:.2f}", f"{theirs[stream][method]:.2f}"]
        lines.append([NAMES[method], *cells])
    return lines


EXPERIMENT = Experiment(runs, draw, SMALLER)
