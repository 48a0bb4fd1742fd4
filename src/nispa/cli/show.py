"""What the terminal shows: progress while a run goes on, and its results. Fits 80 columns."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nispa.learner import Event


def out(text: str = "") -> None:
    print(text, flush=True)  # noqa: T201


def listing(title: str, rows: Sequence[tuple[str, str]]) -> None:
    out(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, line in rows:
        wrapped = textwrap.wrap(line, 76 - width, break_on_hyphens=False) or [""]
        out(f"  {name:{width}}  {wrapped[0]}")
        for more in wrapped[1:]:
            out(f"  {'':{width}}  {more}")


class Progress:
    """One line that lives while a task is learned, and one that stays when it is done."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.tasks, self.text = 0, ""

    def __call__(self, event: Event) -> None:
        getattr(self, f"_{event['event']}", self._other)(event)

    def _other(self, event: Event) -> None:
        pass

    def _warning(self, event: Event) -> None:
        self._keep(f"warning: {event['text']}")

    def _resumed(self, event: Event) -> None:
        self._keep(f"resumed from {event['path']} ({event['tasks']} tasks learned)")

    def _begin(self, event: Event) -> None:
        self.tasks = event["tasks"]
        self.text = f"task {event['task'] + 1}/{self.tasks} {event['name']}"[:28]
        self._now(self.text)

    def _epoch(self, event: Event) -> None:
        self._now(
            f"{self.text}: phase {event['phase']}, epoch {event['epoch'] + 1},"
            f" validation {event['validation_accuracy']:.1%}"
        )

    def _phase(self, event: Event) -> None:
        protected = " ".join(str(n) for n in event["protected"])
        self.text = f"task {event['task'] + 1}/{self.tasks}: tau {event['tau']:.2f}, protected {protected}"
        self._now(self.text)
        if event["outputs_without_input"]:
            self._keep(f"note: outputs {event['outputs_without_input']} have no input left")

    def _task(self, event: Event) -> None:
        line = (
            f"task {event['task'] + 1}/{self.tasks} {event['name'][:16]:16}"
            f" {event['phases']:2} phases, val {event['validation_accuracy']:6.1%}"
        )
        if event["final_tau"] is not None:
            line += f", tau {event['final_tau']:.2f}"
        if event["stable_units"] is not None:
            line += f", stable {' '.join(str(n) for n in event['stable_units'])}"
        self._keep(line[:78])

    def _now(self, text: str) -> None:
        if self.live:
            sys.stdout.write(f"\r\x1b[2K{text[:78]}")
            sys.stdout.flush()

    def _keep(self, text: str) -> None:
        for line in textwrap.wrap(text, 78, subsequent_indent="  "):
            out(f"\r\x1b[2K{line}" if self.live else line)


def follow_one(folder: Path) -> int:
    """Run a folder in this process and show how it goes."""
    from nispa.experiment.folder import is_complete
    from nispa.experiment.run import run

    if is_complete(folder):
        out(f"{folder} is complete")
    results = run(folder, Progress())
    show_results(results)
    out(f"results: {folder / 'results.json'}")
    return 0


def show_results(results: dict[str, Any]) -> None:
    """The accuracy matrix and what follows from it."""
    rows, names = results["accuracy"], [task["name"] for task in results["tasks"]]
    out()
    out(
        f"test accuracy in %, after each task ({results['method']}, seed {results['seed']}, "
        f"engine {results['engine']})"
    )
    if len(names) <= 8:
        out(" " * 13 + "".join(f"{f'task {j + 1}':>8}" for j in range(len(names))))
        for i, row in enumerate(rows):
            out(f"after task {i + 1:<2}" + "".join(f"{100 * a:8.1f}" for a in row if a is not None))
    else:  # a matrix of many tasks does not fit: what each was when learned, and what it is now
        out("task                       learned     now")
        for j, name in enumerate(names):
            out(f"{j + 1:3} {name[:20]:20} {100 * rows[j][j]:10.1f} {100 * rows[-1][j]:7.1f}")
    out()
    unchanged = results["logits_unchanged"]
    out(f"average accuracy  {100 * results['average_accuracy']:.2f} %")
    out(f"forgetting        {100 * results['forgetting']:.2f} %")
    out(
        "verified          every task's logits are unchanged bit for bit"
        if all(unchanged)
        else f"note              logits changed for {unchanged.count(False)} of {len(unchanged)} tasks"
    )
    last = results["tasks"][-1]
    if last["plastic_units"] is not None:
        out(
            "layer             "
            + "".join(f"{n:>8}" for n in [*range(1, len(last["plastic_units"]) + 1), "out"])
        )
        out("density           " + "".join(f"{d:8.3f}" for d in results["density"]["after"]))
        out("plastic units     " + "".join(f"{n:8}" for n in last["plastic_units"]))
        out("free connections  " + "".join(f"{n:8}" for n in last["free_connections"]))
    parameters = results["parameters"]
    out(f"parameters        {parameters['live']:,} live of {parameters['dense']:,}")
    out(f"time              {results['seconds']:.1f} s, {results['threads']} threads")
