"""A page about a model: its tasks, and the picture of all units, coloured by the task they belong to."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nispa.model.model import Model
    from nispa.model.proof import Finding

CELL, HEIGHT = 9, 34
"""Pixels of a unit's square, and units in a column of the picture."""
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem .25rem 0;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}
i.key{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.4rem}
.bad{color:#b00020}.small{color:#57606a;font-size:.9rem}
@media(prefers-color-scheme:dark){body{background:#14171a;color:#e6e8ea}.small{color:#9aa4ae}}
"""


def colour(task: int) -> str:
    """One colour a task, neighbours far apart (golden angle); free units are grey."""
    if task < 0:
        return "#8c959f55"
    return f"hsl({(task * 137.508 + 210) % 360:.0f} {70 - 15 * (task % 2)}% {46 + 10 * (task % 3)}%)"


def unit_picture(became: list[NDArray[np.int32]], names: dict[int, str]) -> str:
    """An SVG: a block of squares per layer, a square per unit, sorted by task, free ones last."""
    blocks, x = [], 0
    most = 0
    for g, log in enumerate(became, 1):
        order = np.argsort(np.where(log < 0, np.iinfo(np.int32).max, log), kind="stable")
        height = min(HEIGHT, len(log))
        most = max(most, height)
        title = "outputs" if g == len(became) else f"layer {g}"
        free = int((log < 0).sum())
        squares = []
        for place, unit in enumerate(order):
            column, row = divmod(place, height)
            task = int(log[unit])
            who = names.get(task, "given up") if task >= 0 else "free"
            squares.append(
                f'<rect x="{x + column * CELL}" y="{40 + row * CELL}" width="{CELL - 1}" height="{CELL - 1}"'
                f' fill="{colour(task)}"><title>unit {unit}: {escape(who)}</title></rect>'
            )
        blocks.append(
            f'<text x="{x}" y="14" font-size="13">{title}</text>'
            f'<text x="{x}" y="31" font-size="12" opacity=".7">{free}/{len(log)} free</text>'
            + "".join(squares)
        )
        x += max(-(-len(log) // height) * CELL, 90) + 24
    return (
        f'<svg role="img" aria-label="units by task" width="{x}" height="{48 + most * CELL}"'
        f' fill="currentColor" xmlns="http://www.w3.org/2000/svg">{"".join(blocks)}</svg>'
    )


def page(model: Model, found: list[Finding]) -> str:
    """The page, whole in one file: no script, nothing loaded from elsewhere."""
    about, room = model.inspect(), model.room()
    wiring, counts = model.network.wiring, about["network"]["parameters"]
    numbers = {task.name: n for task, n in zip(model.tasks, model.task_numbers, strict=True)}
    kept = {finding.task: finding.kept for finding in found}
    rows = []
    for task in model.tasks:
        state = "" if task.name not in kept else ("unchanged" if kept[task.name] else "CHANGED")
        rows.append(
            f'<tr><td><i class="key" style="background:{colour(numbers[task.name])}"></i>{escape(task.name)}'
            f"</td><td>{escape(', '.join(task.classes))}</td><td>{task.learned[:10]}</td>"
            f'<td class="n">{task.accuracy:.1%}</td><td class="n">{task.samples:,}</td>'
            f'<td class="n">{" ".join(map(str, task.units))}</td>'
            f'<td class="{"bad" if state == "CHANGED" else ""}">{state}</td></tr>'
        )
    fits = (
        "nothing learned yet" if room.fits is None else f"about {room.fits:.0f} more tasks like the last fit"
    )
    picture = unit_picture(wiring.became[1:], {n: name for name, n in numbers.items()})
    return f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{escape(model.path.name)}</title><style>{STYLE}</style>
<h1>{escape(model.path.name)}</h1>
<p>{about["inputs"]["kind"]} {"x".join(map(str, model.inputs.shape))} · {counts["live"]:,} live parameters of
{counts["dense"]:,} · {fits}</p>
<h2>Units by task</h2>
<p class="small">One square is one unit. A coloured one became stable with the task of that colour: what it
computes never changes again, and later tasks may build on it. Grey ones are free.</p>
<div class="scroll">{picture}</div>
<h2>Tasks</h2>
<div class="scroll"><table><tr><th>task</th><th>classes</th><th>learned</th><th class="n">accuracy</th>
<th class="n">samples</th><th class="n">units of its own</th><th>{"verified" if found else ""}</th></tr>
{"".join(rows)}</table></div>
<p class="small">Accuracy: on the validation samples, when learned. It cannot change.</p>
</html>
"""
