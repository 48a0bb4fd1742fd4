"""One self-contained page about some runs: numbers beside the paper's, and how the network was rewired.

    >>> write(["runs/digits"], "report.html")      # doctest: +SKIP

The page needs no network and loads nothing. Tables and their plots are plain HTML and SVG; what follows
the slider is drawn by ``page/page.js`` from data inside the page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from nispa import __version__, atomic
from nispa.errors import NispaError
from nispa.experiment.charts import floor, matrix, results_table
from nispa.experiment.collect import Found, Group, collect, group
from nispa.experiment.compare import by_stream, cost, heading, notes, paper
from nispa.experiment.picture import course, group_names, picture
from nispa.experiment.statistics import spread

BUDGET = 2_000_000
"""Characters of drawing data in a page; runs beyond it are shown without their network."""


def write(places: Sequence[str | Path], out: str | Path) -> None:
    """The report on all runs in these places, as one HTML file."""
    atomic.write(out, page(collect(places)))


def page(found: Sequence[Found]) -> str:
    """The HTML of the report."""
    groups, incomplete = group(found), [run for run in found if run.results is None]
    if not groups:
        raise NispaError("no run here is complete; finish one with nispa resume")
    runs, left_out = _drawn(groups)
    outputs = {members[0].stream: _output_names(members[0]) for members in by_stream(groups)}
    streams = [members[0].stream for members in by_stream(groups)]
    body = [
        f"<h1>{escape(', '.join(streams))}: {_plural(len(found) - len(incomplete), 'run')}</h1>",
        f'<p class="soft">Continual learning with nispa {escape(__version__)}</p>',
        _facts(groups[0]) if len(streams) == 1 else "",
        *_incomplete(incomplete),
    ]
    for members in by_stream(groups):
        body += _stream(members, several=len(streams) > 1)
    if runs:
        body.append(_interactive(runs, left_out))
    return _fill(
        title=escape(f"{', '.join(streams)} - nispa"),
        body="\n".join(body),
        data=_json({"runs": runs, "outputs": outputs}),
    )


def _fill(**values: str) -> str:
    """The template with its parts in place; what was filled in is not looked at again."""
    folder = files("nispa.experiment").joinpath("page")
    values |= {kind: folder.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")}
    pieces = folder.joinpath("page.html").read_text(encoding="utf-8").split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled += [values[name], rest]
    return "".join(filled)


def _json(data: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(best: Group) -> str:
    """The first method's numbers, large."""
    average, lost = spread(best.each("average_accuracy")), spread(best.each("forgetting"))
    after = best.results[0]["parameters"]
    shown = f"{average.mean:.2f}" + ("" if average.std is None else f" ± {average.std:.2f}")
    facts = [
        (f"{shown} %", f"average accuracy, {best.label}, {_plural(len(best.runs), 'seed')}"),
        *[(f"{number} %", "in the paper, five seeds") for number in paper(best)],
        (f"{lost.mean:.2f} %", "forgetting"),
        (f"{100 * after['live'] / after['dense']:.0f} %", f"of {after['dense']:,} parameters are live"),
    ]
    items = "".join(f"<li><b>{escape(value)}</b><span>{escape(text)}</span></li>" for value, text in facts)
    return f'<ul class="facts">{items}</ul>'


def _incomplete(runs: Sequence[Found]) -> list[str]:
    if not runs:
        return []
    items = "".join(f"<li><code>{escape(str(r.path))}</code>, {escape(r.where())}</li>" for r in runs)
    return [f'<p class="note">Not complete, not counted:</p><ul class="note">{items}</ul>']


def _stream(groups: Sequence[Group], several: bool) -> list[str]:
    title = f"{escape(groups[0].stream)}: accuracy" if several else "Accuracy"
    parts = [f"<section><h2>{title}</h2>", "<p>On the test images of every task, after the last one.</p>"]
    for one in groups:
        parts.append(f"<h3>{escape(heading(one))}</h3>")
        parts.append(results_table(one, floor(groups)))
        items = "".join(f"<li>{escape(note)}</li>" for note in [*notes(one), cost(one)])
        parts.append(f'<ul class="note">{items}</ul>')
    parts.append("<h3>After every task</h3>")
    parts.append(
        '<p class="soft">Accuracy in % on each task learned so far, mean over seeds: a row is a moment, a'
        " column a task. Where nothing is forgotten a column has one value.</p>"
    )
    figures = "".join(matrix(one, captioned=len(groups) > 1) for one in groups)
    return [*parts, f'<div class="matrices">{figures}</div></section>']


def _drawn(groups: Sequence[Group]) -> tuple[list[dict[str, Any]], int]:
    """The runs with a log, their networks as long as the page stays light; how many had to do without."""
    drawn: list[dict[str, Any]] = []
    left_out, size = 0, 0
    for one in groups:
        for run in one.runs:
            history = course(run.path) if run.path.is_dir() else []
            if not history:
                continue
            seen = picture(run.path)
            weight = len(json.dumps(seen))
            if seen is not None and size + weight > BUDGET:
                seen, weight, left_out = None, 0, left_out + 1
            size += weight
            convolutions = run.recipe["network"]
            count = len(convolutions["filters"]) if convolutions.get("kind") == "cnn" else 0
            drawn.append(
                {
                    "label": f"{one.stream}, {one.label}, seed {run.seed}",
                    "stream": one.stream,
                    "course": history,
                    "picture": seen,
                    "convolutions": count,
                    "groups": group_names(seen["units"], count) if seen is not None else [],
                }
            )
    return drawn, left_out


def _output_names(one: Group) -> list[str]:
    """What each output unit stands for."""
    names: dict[int, str] = {}
    for task in one.results[0]["tasks"]:
        known = task.get("class_names") or []
        names |= dict(zip(task.get("classes", []), map(str, known), strict=False))
    return [names.get(c, str(c)) for c in range(max(names, default=-1) + 1)]


def _interactive(runs: Sequence[dict[str, Any]], left_out: int) -> str:
    options = "".join(f'<option value="{i}">{escape(r["label"])}</option>' for i, r in enumerate(runs))
    missing = ""
    if left_out:
        missing = (
            f'<p class="note">To keep this page light, the networks of {_plural(left_out, "run")} are left'
            " out; a report on that run alone shows its network.</p>"
        )
    text = files("nispa.experiment").joinpath("page", "network.html").read_text(encoding="utf-8")
    return text.replace("{{options}}", options).replace("{{missing}}", missing)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
