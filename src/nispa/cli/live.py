"""Several runs at once in the terminal: a table that lives, or short lines where there is no terminal."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nispa.experiment.events import Log
from nispa.experiment.many import Status
from nispa.learner import Event

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ORDER = ("failed", "running", "complete", "waiting")
"""What a table too long for the window shows first."""


@dataclass
class Standing:
    """How far one run has come, by its event log."""

    log: Log
    task: int = 0
    tasks: int = 0
    learned: int = 0
    phase: int = 0
    tau: float | None = None
    validation: float | None = None
    average: float | None = None
    warnings: list[str] = field(default_factory=list)
    news: list[str] = field(default_factory=list)
    """Lines for a terminal-less listener, taken away by whoever shows them."""

    def read_on(self) -> None:
        for event in self.log.more():
            self.take(event)

    def take(self, event: Event) -> None:
        kind = event["event"]
        if kind == "begin":
            self.task, self.tasks, self.phase, self.tau = event["task"], event["tasks"], 1, None
            self.learned = self.task
        elif kind == "epoch":
            self.phase, self.validation = event["phase"], event["validation_accuracy"]
        elif kind == "phase":
            self.tau = event["tau"]
        elif kind == "task":
            self.learned = event["task"] + 1
            self.news.append(
                f"task {self.learned}/{self.tasks} learned, {event['phases']} phases,"
                f" validation {event['validation_accuracy']:.1%}"
            )
        elif kind == "warning":
            self.warnings.append(str(event["text"]))
        elif kind == "end":
            self.average = event["average_accuracy"]


class Board:
    """Follows the runs of a plan; ``watch`` is for ``many.run_all``."""

    def __init__(self, root: Path, console: Console) -> None:
        self.root, self.console, self.started = root, console, time.monotonic()
        self.standings: dict[Path, Standing] = {}
        self.states: dict[Path, str] = {}

    def read(self, runs: Sequence[Status]) -> None:
        for run in runs:
            standing = self.standings.setdefault(run.folder, Standing(Log(run.folder)))
            if run.state != "waiting" or run.folder not in self.states:
                standing.read_on()

    def lines(self, runs: Sequence[Status]) -> list[str]:
        """What is new since the last call, a line each."""
        self.read(runs)
        found: list[str] = []
        for run in runs:
            standing = self.standings[run.folder]
            if run.state == "running":
                found += [f"{run.folder.name}: {text}" for text in standing.news]
            if self.states.get(run.folder, "waiting") != run.state:
                found.append(f"{run.folder.name}: {self._outcome(run, standing)}")
            standing.news.clear()
            self.states[run.folder] = run.state
        return found

    def _outcome(self, run: Status, standing: Standing) -> str:
        if run.state == "failed":
            return f"failed: {run.error}"
        if run.state == "complete" and standing.average is not None:
            return f"complete, average accuracy {standing.average:.2%}"
        return "started" if run.state == "running" else run.state

    def table(self, runs: Sequence[Status]) -> Table:
        """As many runs as the window has lines for; the first column takes what width is left."""
        from rich import box
        from rich.table import Table

        self.read(runs)
        counts = {state: sum(run.state == state for run in runs) for state in ORDER}
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        width = min(self.console.width, 110)
        table = Table(
            title=_cut_left(f"{self.root}: ", f"{told}; {_clock(time.monotonic() - self.started)}", width),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            width=width,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        table.add_column("run", no_wrap=True, overflow="ellipsis", ratio=1, min_width=12)
        table.add_column("tasks", no_wrap=True)
        for name in ("phase", "tau", "valid.", "time"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True, overflow="ellipsis", max_width=24)
        room = max(self.console.height - 7, 3)
        shown = sorted(runs, key=lambda run: ORDER.index(run.state))[:room] if len(runs) > room else runs
        for run in shown:
            table.add_row(*self._cells(run), style="dim" if run.state == "waiting" else None)
        if hidden := len(runs) - len(shown):
            table.caption = f"and {hidden} more"
        return table

    def _cells(self, run: Status) -> list[Any]:
        from rich.text import Text

        at = self.standings[run.folder]
        name = _short(run.folder.name, self.root.name)
        time_ = "" if run.seconds is None else _clock(run.seconds)
        if run.state == "waiting":
            return [name, _bar(at), "", "", "", "", "waiting" if not at.learned else "stopped here"]
        if run.state == "failed":
            return [name, _bar(at), "", "", "", time_, Text(f"failed: {run.error}", style="red")]
        if run.state == "complete":
            text = "" if at.average is None else f"average {at.average:.2%}"
            return [name, _bar(at), "", "", "", time_, Text(text, style="green")]
        tau = "" if at.tau is None else f"{at.tau:.2f}"
        accuracy = "" if at.validation is None else f"{at.validation:.1%}"
        doing = "starting" if not at.tasks else f"learns task {at.task + 1}"
        return [name, _bar(at), str(at.phase or ""), tau, accuracy, time_, doing]


def _bar(at: Standing) -> Any:
    """A cell a task, up to ten: learned, being learned, to come."""
    from rich.text import Text

    if not at.tasks:
        return ""
    width = min(at.tasks, 10)
    done = at.learned * width // at.tasks
    active = at.learned < at.tasks
    text = Text("█" * done, style="green")
    text.append("▒" if active else "", style="green")
    text.append("·" * (width - done - active), style="dim")
    return text.append(f" {at.learned}/{at.tasks}", style="default")


def _cut_left(path: str, rest: str, width: int) -> str:
    """A path that loses its beginning where the line is too long."""
    room = max(width - len(rest) - 1, 12)
    return (path if len(path) <= room else f"…{path[-room + 1 :]}") + rest


def _short(name: str, root: str) -> str:
    return name.removeprefix(f"{root}-")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def follow_many(root: Path, jobs: int, threads: int | None) -> int:
    """Run a plan's folders in processes, show how they go, and sum up at the end."""
    from rich.console import Console
    from rich.live import Live

    from nispa.cli.show import out
    from nispa.experiment.many import run_all

    console = Console(highlight=False)
    board = Board(root, console)
    if not console.is_terminal:

        def tell(runs: list[Status]) -> None:
            for line in board.lines(runs):
                out(line)

        return _sum_up(root, run_all(root, jobs, threads, tell), board)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        runs = run_all(root, jobs, threads, lambda runs: live.update(board.table(runs), refresh=True))
    return _sum_up(root, runs, board)


def _sum_up(root: Path, runs: Sequence[Status], board: Board) -> int:
    from nispa.cli.show import out
    from nispa.experiment.collect import collect, group
    from nispa.experiment.compare import methods_table

    out()
    complete = [run.folder for run in runs if run.state == "complete"]
    if complete:
        for line in methods_table(group(collect(complete))):
            out(line)
        out(f"more: nispa compare {root}")
    told: dict[str, int] = {}
    for standing in board.standings.values():
        for text in dict.fromkeys(standing.warnings):
            told[text] = told.get(text, 0) + 1
    for text, count in told.items():
        for line in textwrap.wrap(
            f"warning ({count} of {len(runs)} runs): {text}", 80, subsequent_indent="  "
        ):
            out(line)
    failed = [run for run in runs if run.state == "failed"]
    for run in failed:
        out(f"failed: {run.folder.name}: {run.error}")
    if failed:
        out(f"try again with: nispa resume {root}")
    out(f"{len(complete)} of {len(runs)} runs complete in {root}, {_clock(time.monotonic() - board.started)}")
    return 1 if failed else 0
