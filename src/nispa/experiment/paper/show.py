"""How figures and tables of the paper's experiments look; what is missing is written on them."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nispa import atomic
from nispa.errors import NispaError
from nispa.experiment.paper.grid import Asked, Found
from nispa.experiment.statistics import Spread, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "nispa": "NISPA",
    "stl": "STL",
    "stl-iso": "STL-ISO",
    "joint": "Joint",
    "finetune": "Finetune",
    "ewc": "EWC",
    "si": "SI",
    "mas": "MAS",
    "clnp": "CLNP",
    "ni": "NI",
    "nispa-replay": "NISPA-Replay",
    "nispa-replay+": "NISPA-Replay+",
    "nispa-free": "NISPA-Free",
    "er": "ER",
    "der": "DER",
    "der++": "DER++",
    "icarl": "iCaRL",
    "a-gem": "A-GEM",
    "ni-d": "NI-D",
    "er-d": "ER-D",
    "der-d": "DER-D",
    "icarl-d": "iCaRL-D",
    "a-gem-d": "A-GEM-D",
    "mnist": "MNIST",
    "ef-mnist": "EF-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
}
COLOURS = {
    "nispa": "#c2255c",
    "stl": "#495057",
    "stl-iso": "#adb5bd",
    "joint": "#212529",
    "finetune": "#868e96",
    "ewc": "#1971c2",
    "si": "#2f9e44",
    "mas": "#e8590c",
    "clnp": "#7048e8",
}
CYCLE = ("#c2255c", "#1971c2", "#2f9e44", "#e8590c", "#7048e8")


def need_matplotlib() -> None:
    """Say so before hours of runs, not after."""
    try:
        import matplotlib
    except ImportError:
        raise NispaError("nispa paper draws with matplotlib; pip install 'nispa[plots]'") from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10}
    )


def panels(columns: int, width: float = 4.0, height: float = 3.0, rows: int = 1) -> tuple[Figure, Any]:
    """A figure, and its axes as an array [rows, columns]."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def bars(axes: Axes, names: Sequence[str], values: Sequence[Spread], colours: Sequence[str]) -> None:
    """Bars with one standard deviation and their number on top."""
    places = range(len(names))
    axes.bar(places, [v.mean for v in values], yerr=errors(values), color=colours, capsize=3)
    axes.set_xticks(places, names)
    for i, value in enumerate(values):
        axes.annotate(
            f"{value.mean:.1f}",
            (i, value.mean + (value.std or 0)),
            ha="center",
            va="bottom",
            fontsize=8,
            xytext=(0, 2),
            textcoords="offset points",
        )


def errors(values: Sequence[Spread]) -> list[float] | None:
    """Standard deviations as error bars; none where there is one run only."""
    return [v.std or 0.0 for v in values] if any(v.std for v in values) else None


def zoom(axes: Axes, values: Sequence[Spread], least: float = 4.0) -> None:
    """Accuracy axes that do not start at 0 say so in their label."""
    low = min(v.mean - (v.std or 0) for v in values)
    high = max(v.mean + (v.std or 0) for v in values)
    room = max(high - low, least)
    bottom = max(low - 0.3 * room, 0)
    axes.set_ylim(bottom, min(high + 0.25 * room, 100 + 0.05 * room))
    label = axes.get_ylabel()
    if bottom > 0 and "from" not in label:
        axes.set_ylabel(f"{label}\n(axis from {bottom:.0f})")


def remark(asked: Asked, found: Found, smaller: str = "", seeds: Sequence[int] = ()) -> str:
    """What a figure or table has to say of itself."""
    many = {len(results) for results in found.results.values() if results}
    runs = f"{min(many)} seed{'s' if min(many) != 1 else ''}" if many else ""
    if len(many) > 1:
        runs = f"{min(many)} to {max(many)} seeds"
    elif seeds and not runs:
        runs = f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''}"
    parts = [f"{runs}; bars and bands are ± one standard deviation" if runs and runs != "1 seed" else runs]
    if asked.quick:
        parts.append(f"QUICK SCALE, not the paper's: {smaller or 'fewer seeds'}")
    if found.missing:
        listed = ", ".join(found.missing[:6]) + (" …" if len(found.missing) > 6 else "")
        parts.append(f"INCOMPLETE, {len(found.missing)} runs are missing: {listed}")
    return ". ".join(part for part in parts if part)


def save(figure: Figure, path: Path, text: str) -> Path:
    """The figure with its remark below."""
    if text:
        width = int(figure.get_size_inches()[0] * 15)
        colour = "#c92a2a" if "INCOMPLETE" in text else "#495057"
        figure.supxlabel(textwrap.fill(text, max(width, 60)), fontsize=7, color=colour, x=0.01, ha="left")
    data = io.BytesIO()
    figure.savefig(data, dpi=150, format="png")
    atomic.write(path, data.getvalue())
    return path


def table(folder: Path, name: str, title: str, rows: Sequence[Sequence[str]], text: str) -> list[Path]:
    """The same rows as markdown and CSV; the first is the heading."""
    safe = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    marks = ["---", *["---:"] * (len(rows[0]) - 1)]
    lines = [f"| {' | '.join(row)} |" for row in [safe[0], marks, *safe[1:]]]
    markdown = folder / f"{name}.md"
    atomic.write(markdown, "\n".join([f"**{title}**", "", *lines, "", text]).rstrip() + "\n")
    sheet = io.StringIO()
    csv.writer(sheet, lineterminator="\n").writerows(rows)
    atomic.write(folder / f"{name}.csv", sheet.getvalue())
    return [markdown, folder / f"{name}.csv"]


def number(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard deviation, as far as there are runs."""
    if not values:
        return "missing"
    found = spread(values)
    mean = f"{found.mean:.{digits}f}"
    return mean if found.std is None else f"{mean} ± {found.std:.{digits}f}"
