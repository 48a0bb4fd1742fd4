"""Figure "cosine annealing": the schedules of tau (paper, appendix). A formula: nothing is run."""

from __future__ import annotations

from pathlib import Path

from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid
from nispa.experiment.paper.show import CYCLE, panels, save, table
from nispa.schedule import FLOOR, schedule

PERIODS = (20, 30, 40, 50)


def runs(asked: Asked) -> Grid:
    return {}


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    figure, axes = panels(1, width=5.6, height=3.2)
    plot = axes[0][0]
    curves = {f"cosine, k = {k}": schedule("cosine", k) for k in PERIODS}
    curves["linear, steps of .05"] = schedule("linear", 30)
    phases = range(1, max(PERIODS) + 1)
    lines = [["schedule", "tau(1)", "tau(5)", "tau(10)", "tau(20)", "phases until the floor"]]
    for colour, (name, tau) in zip(CYCLE, curves.items(), strict=True):
        end = next(p for p in phases if tau(p) <= FLOOR)
        shown = range(1, end + 1)
        style = "--" if name.startswith("linear") else "-"
        plot.plot(shown, [tau(p) for p in shown], style, color=colour, label=name)
        values = [f"{tau(p):.3f}" if p <= end else "–" for p in (1, 5, 10, 20)]
        lines.append([name, *values, str(end)])
    plot.axhline(FLOOR, color="#adb5bd", lw=1, ls=":", label=f"floor, {FLOOR}")
    plot.set(xlabel="phase p", ylabel="tau", ylim=(0, 1.02))
    plot.legend(frameon=False, fontsize=8)
    text = "tau(p) = (1 + cos(p pi / k)) / 2; at the floor a task ends (docs/fidelity.md, row 4)."
    made = [save(figure, folder / "schedule.png", text)]
    return made + table(folder, "schedule", "Schedules of tau", lines, text)


EXPERIMENT = Experiment(runs, draw)
