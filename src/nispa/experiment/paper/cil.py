"""Tables "cil": class-incremental accuracy on sparse and on dense networks (paper, Section 4.5; appendix).

Rows beyond the paper stand below its own: DER++, NISPA-Replay+ and, without any memory, NISPA-Free. NI and
NISPA-Free have no memory, so one run of theirs serves all its sizes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

from nispa.experiment import published
from nispa.experiment.folder import Config
from nispa.experiment.paper.baselines import chosen
from nispa.experiment.paper.grid import Asked, Experiment, Found, Grid, streams
from nispa.experiment.paper.show import NAMES, number, remark, table

STREAMS = ("mnist", "ef-mnist", "cifar10")
BUFFERS = (10, 50, 100)
"""Samples per class in memory."""
PAPER = ("ni", "nispa-replay", "der", "er", "icarl", "a-gem")
BEYOND = ("der++", "nispa-replay+", "nispa-free")
DENSE = ("ni-d", "der-d", "er-d", "icarl-d", "a-gem-d")
WITHOUT_MEMORY = ("ni", "ni-d", "nispa-free")
SUBSET = 0.05
SMALLER = "MNIST only, 5 % of its training data, 2 seeds"


def runs(asked: Asked) -> Grid:
    grid: dict[Hashable, list[Config]] = {}
    for stream in streams(asked, STREAMS, ("mnist",)):
        for method in methods(asked):
            for buffer in buffers(asked):
                memory = 0 if method in WITHOUT_MEMORY else buffer
                settings = [f"per_class={memory}"] if memory else []
                grid[stream, method, memory] = [
                    asked.config(stream, method, seed, settings, subset=SUBSET) for seed in asked.seeds_or(2)
                ]
    return grid


def methods(asked: Asked) -> tuple[str, ...]:
    known = (*PAPER, *BEYOND, *(DENSE if asked.dense else ()))
    return tuple(chosen(asked, known))


def buffers(asked: Asked) -> tuple[int, ...]:
    return asked.buffers or ((100,) if asked.quick else BUFFERS)


def draw(asked: Asked, found: Found, folder: Path) -> list[Path]:
    text = remark(asked, found, SMALLER)
    shown = [stream for stream in STREAMS if any(isinstance(k, tuple) and k[0] == stream for k in found)]
    made: list[Path] = []
    for name, of_table, title in (
        ("cil", (*PAPER, *BEYOND), "Class-incremental, NISPA-Replay's density"),
        ("cil-dense", DENSE, "Class-incremental, dense networks"),
    ):
        if name == "cil-dense" and not asked.dense:
            continue
        for buffer in buffers(asked):
            lines = rows(found, shown, buffer, [m for m in of_table if m in methods(asked)])
            heading = f"{title}, {buffer} samples per class: average accuracy over tasks, %"
            made += table(folder, f"{name}-{buffer}", heading, lines, text)
    return made


def rows(found: Found, shown: Sequence[str], buffer: int, listed: Sequence[str]) -> list[list[str]]:
    """Ours beside the paper's, stream by stream."""
    lines = [["method", *(f"{NAMES[stream]}, {whose}" for stream in shown for whose in ("ours", "paper"))]]
    for method in listed:
        cells = [NAMES.get(method, method)]
        for stream in shown:
            key = (stream, method, 0 if method in WITHOUT_MEMORY else buffer)
            theirs = " or ".join(map(str, published.averages(stream, method, buffer)))
            cells += [number(found.averages(key)), theirs]
        lines.append(cells)
    return lines


EXPERIMENT = Experiment(runs, draw, SMALLER)
