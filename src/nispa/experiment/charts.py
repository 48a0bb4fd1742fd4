"""Tables with small plots in them, as plain HTML and SVG: they need no script and print as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from nispa.experiment.collect import Group
from nispa.experiment.compare import authors, authors_task, paper, rows
from nispa.experiment.statistics import Spread


def results_table(group: Group, low: float) -> str:
    """A row per task: every seed as a ring, mean and interval, the published numbers, and all in figures.

    ``low`` is where the plots begin, the same for all methods of a stream.
    """
    theirs, given = bool(authors(group)), bool(paper(group))
    head = [
        '<th scope="col">task</th>',
        f'<th scope="col" class="plot">{_axis(low)}</th>',
        '<th scope="col" class="number">mean ± std</th>',
        '<th scope="col" class="number optional">95 % interval</th>',
    ]
    head += ['<th scope="col" class="number">authors’ code</th>'] * theirs
    head += ['<th scope="col" class="number">paper</th>'] * given
    body = []
    for number, (name, ours, code, text) in enumerate(rows(group)):
        if name == "forgetting":
            continue
        task = number if number < len(group.task_names) else None
        values = group.final(number) if task is not None else group.each("average_accuracy")
        plot = _plot(ours, values, low, *_beside(group, task))
        interval = "" if ours.interval is None else "{:.2f} to {:.2f}".format(*ours.interval)
        shown = f"{ours.mean:.2f}" + ("" if ours.std is None else f" ± {ours.std:.2f}")
        cells = [
            f'<th scope="row">{escape(name)}</th>',
            f'<td class="plot">{plot}</td>',
            f'<td class="number">{shown}</td>',
            f'<td class="number optional">{interval}</td>',
        ]
        cells += [f'<td class="number" data-label="authors">{escape(code)}</td>'] * theirs
        cells += [f'<td class="number" data-label="paper">{escape(text)}</td>'] * given
        body.append(f"<tr{' class=total' if task is None else ''}>{''.join(cells)}</tr>")
    caption = f"<caption>Test accuracy in %, plotted from {low:g} to 100</caption>"
    table = f"<thead><tr>{''.join(head)}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f'<table class="results">{caption}{table}</table>{_key(len(group.runs) > 1, theirs, given)}'


def _beside(group: Group, task: int | None) -> tuple[list[float], list[float]]:
    """What the authors' code and the paper have for a task, or for the average."""
    if task is None:
        return [run.mean for run in authors(group)], [number.mean for number in paper(group)]
    return ([value.mean] if (value := authors_task(group, task)) is not None else []), []


def floor(groups: Sequence[Group]) -> float:
    """Where plots begin: a round number below every value."""
    values = [v for group in groups for task in range(len(group.task_names)) for v in group.final(task)]
    values += [value for group in groups for run in authors(group) for value in run.tasks]
    return max(0.0, min(90.0, 10 * math.floor((min(values) - 0.5) / 10)))


def _at(value: float, low: float) -> str:
    """A place on the axis; SVG takes percentages, so the plot fits any width."""
    share = (min(max(value, low), 100) - low) / (100 - low)
    return f"{100 * share:.2f}%"


def _ticks(low: float) -> list[float]:
    return [low, (low + 100) / 2, 100]


def _axis(low: float) -> str:
    anchors = ("start", "middle", "end")
    texts = "".join(
        f'<text x="{_at(v, low)}" y="12" text-anchor="{a}">{v:g}</text>'
        for v, a in zip(_ticks(low), anchors, strict=True)
    )
    return f'<svg class="axis" aria-hidden="true">{texts}</svg>'


def _plot(
    ours: Spread, values: Sequence[float], low: float, code: Sequence[float], published: Sequence[float]
) -> str:
    parts = [
        f'<line class="grid" x1="{_at(v, low)}" x2="{_at(v, low)}" y1="0" y2="20"/>' for v in _ticks(low)
    ]
    if ours.interval is not None:
        left, right = (_at(v, low) for v in ours.interval)
        parts.append(f'<line class="interval" x1="{left}" x2="{right}" y1="10" y2="10"/>')
    if len(values) > 1:
        parts += [f'<circle cx="{_at(v, low)}" cy="10" r="3"/>' for v in values]
    mean = _at(ours.mean, low)
    parts.append(f'<line class="mean" x1="{mean}" x2="{mean}" y1="3" y2="17"/>')
    parts += [_diamond(_at(v, low)) for v in code]
    parts += [_triangle(_at(v, low)) for v in published]
    said = f"mean {ours.mean:.2f}" + ("" if ours.std is None else f", {len(values)} seeds")
    return f'<svg role="img" aria-label="{said}">{"".join(parts)}</svg>'


def _diamond(x: str) -> str:
    """Inner SVGs can be placed by percentage; paths cannot."""
    return f'<svg x="{x}" y="10" overflow="visible"><path class="code" d="M0-4.5L4.5 0L0 4.5L-4.5 0Z"/></svg>'


def _triangle(x: str) -> str:
    return f'<svg x="{x}" y="0" overflow="visible"><path class="published" d="M-4.5-2h9L0 6Z"/></svg>'


def _key(several: bool, code: bool, published: bool) -> str:
    def item(drawing: str, text: str) -> str:
        mark = f'<svg aria-hidden="true"><g transform="translate(11 7)">{drawing}</g></svg>'
        return f"<li>{mark}{text}</li>"

    items = [item('<line class="mean" x1="0" x2="0" y1="-6" y2="6"/>', "mean" if several else "this run")]
    if several:
        items.append(item('<circle r="3"/>', "one seed"))
        items.append(item('<line class="interval" x1="-10" x2="10" y1="0" y2="0"/>', "95 % interval"))
    if code:
        items.append(item('<path class="code" d="M0-4.5L4.5 0L0 4.5L-4.5 0Z"/>', "authors’ code"))
    if published:
        items.append(item('<path class="published" d="M-4.5-2h9L0 6Z"/>', "paper"))
    return f'<ul class="key plot">{"".join(items)}</ul>'


def matrix(group: Group, captioned: bool) -> str:
    """The accuracy matrix, mean over seeds: rows are moments, columns tasks."""
    tasks = len(group.task_names)
    many = tasks > 8
    means: list[list[float | None]] = []
    for after in range(tasks):
        row: list[float | None] = []
        for task in range(tasks):
            found = [results["accuracy"][after][task] for results in group.results]
            known = [100 * v for v in found if v is not None]
            row.append(math.fsum(known) / len(known) if known else None)
        means.append(row)
    low = min(v for row in means for v in row if v is not None)
    digits = 0 if many else 1
    head = "".join(
        f'<th scope="col" title="{escape(name, quote=True)}">{j + 1}</th>'
        for j, name in enumerate(group.task_names)
    )
    body = "".join(
        f'<tr><th scope="row">after {i + 1}</th>{"".join(_cell(v, low, digits) for v in row)}</tr>'
        for i, row in enumerate(means)
    )
    caption = f"<figcaption>{escape(group.label)}</figcaption>" if captioned else ""
    return (
        f'<figure>{caption}<div class="scroll" tabindex="0" role="region" aria-label="Accuracy matrix,'
        f' {escape(group.label, quote=True)}"><table class="matrix{" many" if many else ""}"><thead><tr>'
        f'<th scope="col">task</th>{head}</tr></thead><tbody>{body}</tbody></table></div></figure>'
    )


def _cell(value: float | None, low: float, digits: int) -> str:
    if value is None:
        return "<td></td>"
    share = (value - low) / (100 - low) if low < 100 else 1.0
    return f'<td style="background:rgba(0,114,178,{0.06 + 0.5 * share:.2f})">{value:.{digits}f}</td>'
