"""Mean ± standard deviation per task and method over seeds, with the published numbers beside them."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nispa.experiment import published
from nispa.experiment.collect import Found, Group
from nispa.experiment.published import Published
from nispa.experiment.statistics import Spread, spread

WIDTH = 80
AUTHORS = "authors' code"
MEASURES = (("average", "average_accuracy"), ("forgetting", "forgetting"))


def paper(group: Group) -> list[Published]:
    """What the paper gives for this stream and method; nothing if the stream was altered by options."""
    recipe = group.runs[0].recipe
    if recipe["stream"].get("options"):
        return []
    return published.averages(group.stream, group.method, recipe["method"].get("per_class"))


def authors(group: Group) -> list[Published]:
    """The authors' own code on this stream: runs with an accuracy for every task."""
    recipe = group.runs[0].recipe
    if recipe["stream"].get("options"):
        return []
    runs = published.authors_runs(group.stream, group.method, recipe["method"].get("per_class"))
    return [run for run in runs if len(run.tasks) == len(group.task_names)]


def authors_task(group: Group, task: int) -> Spread | None:
    """The authors' runs on one task, averaged."""
    runs = authors(group)
    return spread([run.tasks[task] for run in runs]) if runs else None


def rows(group: Group) -> list[tuple[str, Spread, str, str]]:
    """(name, ours, authors' code, paper), a row per task and one per measure over all of them."""
    table: list[tuple[str, Spread, str, str]] = []
    for task, name in enumerate(group.task_names):
        theirs = authors_task(group, task)
        table.append((f"{task + 1} {name}", spread(group.final(task)), _number(theirs), ""))
    means = [run.mean for run in authors(group)]
    for label, name in MEASURES:
        if values := group.each(name):
            average = name == "average_accuracy"
            theirs = spread(means) if means and average else None
            given = " or ".join(map(str, paper(group))) if average else ""
            table.append((label, spread(values), _number(theirs), given))
    return table


def _number(value: Spread | None) -> str:
    if value is None:
        return ""
    return f"{value.mean:.2f}" + ("" if value.std is None else f" ± {value.std:.2f}")


def _interval(value: Spread) -> str:
    return "" if value.interval is None else "{:.2f} to {:.2f}".format(*value.interval)


def _std(value: Spread) -> str:
    return "" if value.std is None else f"{value.std:.2f}"


def heading(group: Group) -> str:
    seeds = group.seeds
    listed = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({', '.join(map(str, seeds))})"
    return f"{group.stream}, {group.label}: {listed}, engine {' and '.join(group.engines)}"


def notes(group: Group) -> list[str]:
    """What a reader of these numbers has to know."""
    found = []
    if len(group.runs) == 1:
        found.append("one seed: no deviation, no interval")
    unchanged = [flag for results in group.results for flag in results["logits_unchanged"]]
    if unchanged and all(unchanged):
        found.append("every earlier task's logits are unchanged, bit for bit, in every run")
    if runs := authors(group):
        said = [
            f"seed {' '.join(str(run.seed) for run in runs if run.note == note)} ({note})"
            for note in dict.fromkeys(run.note for run in runs)
        ]
        found.append(f"authors' code, mean ± std: {', '.join(said)}")
    if given := paper(group):
        found.append(f"paper: {given[0].note}; per-task numbers are not in its text")
    return found


def as_text(groups: Sequence[Group], incomplete: Sequence[Found] = ()) -> str:
    """For a terminal of 80 columns."""
    lines: list[str] = []
    for group in groups:
        theirs, given = bool(authors(group)), bool(paper(group))
        lines += textwrap.wrap(heading(group), WIDTH, subsequent_indent="  ")
        title = f"{'test accuracy in %':24}{'mean':>7}{'std':>6}  {'95 % interval':<16}"
        title += (f"{AUTHORS:>14}" if theirs else "") + (f"{'paper':>11}" if given else "")
        lines.append(title.rstrip())
        for name, ours, code, text in rows(group):
            line = f"{_cut(name, 23):24}{ours.mean:7.2f}{_std(ours):>6}  {_interval(ours):<16}"
            line += (f"{code:>14}" if theirs else "") + (f"{text:>11}" if given else "")
            lines.append(line.rstrip())
        for note in notes(group):
            lines += textwrap.wrap(note, WIDTH, initial_indent="  ", subsequent_indent="  ")
        lines.append("")
    for members in by_stream(groups):
        if len(members) > 1:
            lines += [*methods_table(members), ""]
    lines += incomplete_lines(incomplete)
    return "\n".join(lines).rstrip()


def by_stream(groups: Sequence[Group]) -> list[list[Group]]:
    return [
        [group for group in groups if group.stream == stream]
        for stream in dict.fromkeys(group.stream for group in groups)
    ]


def methods_table(groups: Sequence[Group]) -> list[str]:
    """A line per method of one stream: the average over tasks."""
    width = min(max(len(group.label) for group in groups), 24) + 2
    lines = [
        f"{groups[0].stream}: average over tasks in %",
        f"{'method':{width}}{'seeds':>6}{'mean':>8}{'std':>6}  {'95 % interval':<16}"
        f"{'forgetting':>11}" + (f"{'paper':>12}" if any(map(paper, groups)) else ""),
    ]
    for group in sorted(groups, key=lambda g: -spread(g.each("average_accuracy")).mean):
        value, lost = spread(group.each("average_accuracy")), spread(group.each("forgetting"))
        given = " or ".join(map(str, paper(group)))
        lines.append(
            f"{_cut(group.label, width - 1):{width}}{len(group.runs):>6}{value.mean:8.2f}{_std(value):>6}"
            f"  {_interval(value):<16}{lost.mean:11.2f}{given:>12}".rstrip()
        )
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def incomplete_lines(incomplete: Sequence[Found]) -> list[str]:
    lines: list[str] = []
    for run in incomplete:
        lines += textwrap.wrap(
            f"not complete, not counted: {run.path} ({run.where()}); go on with: nispa resume {run.path}",
            WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def as_markdown(groups: Sequence[Group], incomplete: Sequence[Found], command: str) -> str:
    """Tables for a page of documentation, with the command that made them."""
    parts = [f"Made by `{command}`."]
    for group in groups:
        theirs, given = bool(authors(group)), bool(paper(group))
        extra = [AUTHORS] * theirs + ["paper"] * given
        table = [["task", "mean", "std", "95 % interval", *extra]]
        for name, ours, code, text in rows(group):
            also = [code] * theirs + [text] * given
            table.append([name, f"{ours.mean:.2f}", _std(ours), _interval(ours), *also])
        parts += [f"### {heading(group)}", "Test accuracy in %.", _markdown_table(table)]
        parts.append("\n".join(f"- {note}" for note in [*notes(group), cost(group)]))
    for members in by_stream(groups):
        if len(members) > 1:
            parts += [f"### {members[0].stream}: methods", _markdown_table(_method_cells(members))]
    if incomplete:
        parts.append("\n".join(f"- not complete, not counted: `{run.path.name}`" for run in incomplete))
    return "\n\n".join(part for part in parts if part) + "\n"


def _method_cells(groups: Sequence[Group]) -> list[list[str]]:
    table = [["method", "seeds", "mean", "std", "95 % interval", "forgetting", "paper"]]
    for group in groups:
        value, lost = spread(group.each("average_accuracy")), spread(group.each("forgetting"))
        given = " or ".join(map(str, paper(group)))
        numbers = [f"{value.mean:.2f}", _std(value), _interval(value), f"{lost.mean:.2f}", given]
        table.append([group.label, str(len(group.runs)), *numbers])
    return table


def _markdown_table(table: Sequence[Sequence[str]]) -> str:
    safe = [[cell.replace("|", "\\|") for cell in row] for row in table]
    marks = ["---", *["---:"] * (len(table[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [safe[0], marks, *safe[1:]])


def cost(group: Group) -> str:
    """Time, epochs and phases of the runs, in one line."""
    seconds = [results["seconds"] for results in group.results]
    phases = [sum(task["phases"] for task in results["tasks"]) for results in group.results]
    epochs = [sum(task["epochs"] for task in results["tasks"]) for results in group.results]
    threads = sorted({int(results["threads"]) for results in group.results})
    return (
        f"{_range(phases)} phases, {_range(epochs)} epochs, {_range([round(s) for s in seconds])} s"
        f" a run on {' or '.join(map(str, threads))} thread{'s' if threads != [1] else ''}"
    )


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def as_csv(groups: Sequence[Group]) -> str:
    """One row per run and entry of its accuracy matrix: what plotting programs like to read."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow("stream method label seed engine after_task task task_name accuracy".split())
    for group in groups:
        for run, results in zip(group.runs, group.results, strict=True):
            own = [group.stream, group.method, group.label, run.seed, results["engine"]]
            for after, row in enumerate(results["accuracy"], 1):
                for task, value in enumerate(row, 1):
                    if value is not None:
                        writer.writerow([*own, after, task, group.task_names[task - 1], repr(float(value))])
    return text.getvalue()


def as_json(groups: Sequence[Group], incomplete: Sequence[Found]) -> str:
    """Everything that the table says, and every run's own numbers; accuracies in percent."""

    def summary(values: Sequence[float]) -> dict[str, Any]:
        found = spread(values)
        interval = list(found.interval) if found.interval else None
        return {"mean": found.mean, "std": found.std, "interval_95": interval, "values": list(values)}

    plain = [
        {
            "stream": group.stream,
            "method": group.method,
            "label": group.label,
            "seeds": group.seeds,
            "engines": group.engines,
            "tasks": [
                {"name": name, **summary(group.final(task))} for task, name in enumerate(group.task_names)
            ],
            **{name: summary(group.each(name)) for _, name in MEASURES},
            "paper": [asdict(number) for number in paper(group)],
            "authors_code": [asdict(run) for run in authors(group)],
            "runs": [str(run.path) for run in group.runs],
        }
        for group in groups
    ]
    left = [{"run": str(run.path), "stands_at": run.where()} for run in incomplete]
    return json.dumps({"format": "nispa-compare", "groups": plain, "incomplete": left}, indent=1) + "\n"
