"""``nispa predict``, ``evaluate``, ``inspect``: what only looks at a model file."""

from __future__ import annotations

import json as jsons
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from nispa.cli.show import out
from nispa.errors import NispaError

if TYPE_CHECKING:
    from nispa.model import Model, Prediction
    from nispa.model.proof import Finding


def register(app: App) -> None:
    for command in (predict, evaluate, inspect):
        app.command(command)


def predict(
    model: Path,
    files: list[Path],
    *,
    task: Annotated[str | None, Parameter(help="Ask this task; else all, the likeliest first.")] = None,
    json: Annotated[bool, Parameter(help="One JSON object a line.", negative="")] = False,
) -> None:
    """Say what pictures show (or a table's rows are)."""
    from nispa.model import Model

    opened = Model.open(model)
    names, answers = _predictions(opened, files, task)
    for name, answer in zip(names, answers, strict=True):
        if json:
            out(_json(name, answer))
            continue
        out(f"{_short(name)}  {answer.label} ({answer.probability:.0%}), task {answer.task}")
        if task is None and len(answer.answers) > 1:
            others = "; ".join(f"{a.task}: {a.label} {a.probability:.0%}" for a in answer.answers[1:])
            for line in textwrap.wrap(f"other tasks: {others}", 74):
                out(f"    {line}")


def _predictions(model: Model, files: list[Path], task: str | None) -> tuple[list[str], list[Prediction]]:
    if model.inputs.kind == "features":
        from nispa.model.sources import unlabelled

        names, tables = [], []
        for path in files:
            table = unlabelled(path, model.inputs)
            names += [f"{path}:{row}" for row in range(1, len(table) + 1)]
            tables += table.tolist()
        return names, model.predict(tables, task)
    return [str(path) for path in files], model.predict(files, task)


def _json(name: str, answer: Prediction) -> str:
    return jsons.dumps({"input": name, **asdict(answer)})


def _short(name: str, width: int = 34) -> str:
    return f"{name:{width}}" if len(name) <= width else f"…{name[-(width - 1) :]}"


def evaluate(
    model: Path,
    data: Path,
    *,
    task: Annotated[str, Parameter(help="The task whose classes these are.")],
    json: Annotated[bool, Parameter(help="Results as JSON.", negative="")] = False,
) -> None:
    """Measure a task on samples with known classes."""
    from nispa.model import Model

    result = Model.open(model).evaluate(data, task)
    if json:
        out(_dump(asdict(result)))
        return
    out(f"task {result.task}: {result.accuracy:.1%} of {result.samples} samples right")
    for name, (right, count) in result.by_class.items():
        out(f"  {name[:30]:30} {right:5} of {count:5}  {right / max(count, 1):7.1%}")
    out(f"without --task the likeliest task is {result.task} for {result.task_found:.1%} of them")


def inspect(
    model: Path,
    *,
    verify: Annotated[bool, Parameter(help="Check that no task changed.", negative="")] = False,
    html: Annotated[Path | None, Parameter(help="Write a page with the picture of all units.")] = None,
    json: Annotated[bool, Parameter(help="Everything as JSON.", negative="")] = False,
) -> int:
    """Show tasks, classes, accuracy when learned, units by task, and how many tasks still fit."""
    from nispa.model import Model

    opened = Model.open(model, whole=not verify)
    found = opened.verify() if verify else []
    if html is not None:
        from nispa import atomic
        from nispa.model.page import page

        atomic.make_folder(html.parent)
        atomic.write(html, page(opened, found))
    if json:
        proof = {"verify": [{**asdict(f), "kept": f.kept} for f in found]} if verify else {}
        out(_dump({**opened.inspect(), **proof}))
    else:
        _show(opened)
        if verify:
            for finding in found:
                for line in textwrap.wrap(_finding(finding), 78, subsequent_indent="    "):
                    out(line)
            for line in textwrap.wrap(verdict(found), 79):
                out(line)
        if html is not None:
            out(f"page: {html}")
    if not all(finding.kept for finding in found):
        raise NispaError(f"{model}: {verdict(found)}")
    if verify and not _whole(model):
        raise NispaError(f"{model}: every task is what it was, but other parts of the file were changed")
    return 0


def _whole(path: Path) -> bool:
    from nispa.model import file

    try:
        file.read(path)
    except NispaError:
        return False
    return True


def _dump(value: Any) -> str:
    return jsons.dumps(value, indent=1)


def _show(model: Model) -> None:
    about, room = model.inspect(), model.room()
    counts = about["network"]["parameters"]
    shape = "x".join(map(str, model.inputs.shape))
    out(f"{model.path}: {model.inputs.kind} {shape}, {counts['live']:,} live parameters")
    out(f"of {counts['dense']:,}, engine {about['engine']}; last change: {model.last_change}")
    out()
    if model.tasks:
        out("task                 classes   learned  accuracy  samples   units of its own")
    for task in model.tasks:
        units = " ".join(map(str, task.units))
        line = (
            f"{task.name[:20]:20} {len(task.classes):7}  {task.learned[:10]:>10}"
            f" {task.accuracy:7.1%} {task.samples:8}   {units}"
        )
        out(line[:79])
        for text in textwrap.wrap(", ".join(task.classes), 74)[:4]:
            out(f"    {text}")
        for note in task.notes:
            out(f"    note: {note}"[:79])
    out()
    out(f"free hidden units  {' '.join(f'{a}/{b}' for a, b in zip(room.free, room.units, strict=True))}")
    out(f"free outputs       {room.free_outputs}/{room.outputs}")
    out(room_line(model))


def room_line(model: Model) -> str:
    """The forecast."""
    fits = model.room().fits
    if fits is None:
        return "nothing learned yet"
    if fits < 1:
        return "the model is nearly full: the next task may need --grow or --release TASK"
    return f"about {int(fits)} more task{'s' if int(fits) != 1 else ''} like the last ones fit"


def verdict(found: list[Finding]) -> str:
    """All findings in a sentence."""
    broken = [f.task for f in found if not f.kept]
    if broken:
        return f"{len(broken)} of {len(found)} tasks are not what they were: {', '.join(broken)}"
    if not found:
        return "verified: there is no task yet"
    exact = all(f.exact for f in found)
    how = "bit for bit" if exact else "units bit for bit, answers to 1e-5 (other machine or engine)"
    return f"verified: all {len(found)} tasks are what they were when learned, {how}"


def _finding(f: Finding) -> str:
    units = "units unchanged" if f.units else "UNITS CHANGED"
    how = "bit for bit" if f.exact else "to 1e-5"
    answers = f"answers alike {how}" if f.logits else f"ANSWERS DIFFER by {f.difference:.2g}"
    through = f"; uses changed units of {', '.join(f.through)}" if f.through else ""
    return f"  {f.task}: {units}, {answers}{through}"
