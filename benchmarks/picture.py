"""The README's picture, from a NISPA run and a Finetune run of one stream.

nispa run ef-mnist --method nispa,finetune
python -m benchmarks.picture runs/ef-mnist/ef-mnist-nispa-seed0 runs/ef-mnist/ef-mnist-finetune-seed0
"""

from __future__ import annotations

import argparse
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nispa.experiment.folder import read_results
from nispa.experiment.wiring_log import read_wiring

COLOURS = ("#2584c8", "#e69f00", "#009e73", "#d170a5", "#8b7fe3")
GREY = "#767d86"
"""As far from white as from a dark page."""
DASHED = 'stroke-width="1.6" stroke-dasharray="3 2"'
WIDTH, TOP, ROW = 800, 74, 58
PLOT, TALL, STEP = 150, 42, 30
"""Where the plots begin, how tall they are, and from one task to the next."""
UNITS, ACROSS, DOT, BETWEEN = 350, 40, 3.5, 15
"""Where the units begin, how many are beside each other, how far apart, and from layer to layer."""


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(words)}</text>'


def curve(values: list[float], task: int, y: float) -> list[str]:
    """Points of the accuracies on a task from the moment when it was learned."""
    return [f"{PLOT + STEP * (task + i):g} {y + TALL * (1 - v):.1f}" for i, v in enumerate(values)]


def accuracies(task: int, ours: list[float], theirs: list[float], y: float) -> str:
    """NISPA's line, the other one, and what lies between them: what was forgotten."""
    colour, end = COLOURS[task], PLOT + STEP * (task + len(ours) - 1)
    upper, lower = curve(ours, task, y), curve(theirs, task, y)
    span = f"M{PLOT} {y:g}H{end + 4}M{PLOT} {y + TALL:g}H{end + 4}"
    return (
        f'<path d="{span}" stroke="{GREY}" opacity=".3"/>'
        f'<path d="M{"L".join(upper + lower[::-1])}Z" fill="{colour}" opacity=".16"/>'
        f'<path d="M{"L".join(lower)}" fill="none" stroke="{GREY}" {DASHED}/>'
        f'<path d="M{"L".join(upper)}" fill="none" stroke="{colour}" stroke-width="3"/>'
        f'<circle cx="{PLOT + STEP * task}" cy="{y + TALL * (1 - ours[0]):.1f}" r="4" fill="{colour}"/>'
        + text(end + 10, y + 14, f"{100 * ours[-1]:.1f} %", f'fill="{colour}" font-weight="700"')
        + text(end + 10, y + 36, f"{100 * theirs[-1]:.1f} %")
    )


def units(became: NDArray[np.int32], x: float, y: float, colours: int) -> str:
    """A layer's units, column by column, the oldest task's first: rows of dots, one dashed line each."""
    order = np.sort(np.where(became < 0, colours, became))
    rows = -(-len(order) // ACROSS)
    paths = []
    for task in range(colours + 1):
        first, last = np.searchsorted(order, [task, task + 1])
        lines = ""
        for row in range(rows):
            left, right = (max(0, -(-(int(edge) - row) // rows)) for edge in (first, last))
            if right > left:
                lines += f"M{x + DOT * left:g} {y + DOT * (row + 0.5):g}h{DOT * (right - left) - 1:g}"
        if lines:
            paint = f'stroke="{COLOURS[task]}"' if task < colours else f'stroke="{GREY}" opacity=".28"'
            paths.append(f'<path d="{lines}" {paint}/>')
    return f'<g stroke-width="2.5" stroke-dasharray="2.5 1">{"".join(paths)}</g>'


def picture(nispa: Path, other: Path) -> str:
    ours, theirs = read_results(nispa), read_results(other)
    names = [task["name"] for task in ours["tasks"]]
    moments = [frame.became[1:-1] for frame in read_wiring(nispa) if frame.kind == "task"]
    tall = TOP + ROW * len(names) + 34
    bold = 'font-weight="700" font-size="15"'
    parts = [
        text(0, 18, "Accuracy, task after task", bold),
        f'<path d="M0 38h22" stroke="{COLOURS[0]}" stroke-width="3"/>',
        text(28, 42, f"NISPA, average {100 * ours['average_accuracy']:.1f} %"),
        f'<path d="M192 38h22" stroke="{GREY}" {DASHED}/>',
        text(220, 42, f"{theirs['method']}, {100 * theirs['average_accuracy']:.1f} %"),
        text(UNITS, 18, "Units of the one network, task after task", bold),
        text(UNITS, 42, "in colour: stable since that task; in grey: free to learn the next"),
    ]
    for task, name in enumerate(names):
        y = TOP + ROW * task
        kept, lost = ([row[task] for row in run["accuracy"][task:]] for run in (ours, theirs))
        parts.append(
            text(0, y + 18, f"{task + 1}", f'fill="{COLOURS[task]}" font-weight="700" font-size="17"')
        )
        parts.append(text(16, y + 18, name))
        parts.append(accuracies(task, kept, lost, y))
        for i, layer in enumerate(moments[task]):
            x = UNITS + i * (DOT * ACROSS + BETWEEN)
            parts.append(units(layer, x, y, len(names)))
    bottom = TOP + ROW * len(names) + 4
    parts.append(text(0, bottom, "tasks learned"))
    parts += [text(PLOT + STEP * i, bottom, f"{i + 1}", 'text-anchor="middle"') for i in range(len(names))]
    for i in range(len(moments[0])):
        x = UNITS + (i + 0.5) * DOT * ACROSS + i * BETWEEN
        parts.append(text(x, bottom, f"layer {i + 1}", 'text-anchor="middle"'))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}"'
        f' width="{WIDTH}" height="{tall}" fill="{GREY}" font-family="system-ui,sans-serif" font-size="13">'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("nispa", type=Path, help="folder of a NISPA run")
    parser.add_argument("other", type=Path, help="folder of a run that forgets")
    parser.add_argument("--out", type=Path, default=Path("docs/images/forgetting.svg"))
    chosen = parser.parse_args()
    chosen.out.write_text(picture(chosen.nispa, chosen.other), encoding="utf-8")
