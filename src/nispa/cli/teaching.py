"""``nispa new``, ``learn``, ``undo``, ``grow``, ``release``: what changes a model file."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from nispa.cli.run import Whole
from nispa.cli.show import out
from nispa.errors import NispaError

if TYPE_CHECKING:
    from nispa.learner import Event
    from nispa.model import Model
    from nispa.model.room import Release


def register(app: App) -> None:
    for command in (new, learn, undo, grow, release):
        app.command(command)


def new(
    model: Path,
    *,
    like: Annotated[str, Parameter(help="cnn, cnn-small, mlp or mlp-large.")] = "cnn",
    input: Annotated[str, Parameter(help="What it reads: 3x32x32, or a number of features.")],
    classes: Annotated[Whole, Parameter(help="Outputs; tasks take theirs one after the other.")] = 100,
    density: Annotated[float | None, Parameter(help="Live connections; default: as the paper's.")] = None,
    seed: Whole = 0,
) -> None:
    """Make a model file that has learned nothing yet."""
    from nispa.model import Model

    made = Model.new(model, like, input, classes, density, seed)
    counts = made.network.cost()["parameters"]
    out(f"{model}: a network like {like} for {input}, {classes} outputs,")
    out(f"{counts['live']:,} live parameters of {counts['dense']:,}. Teach it: nispa learn {model} FOLDER")


def learn(
    model: Path,
    data: Path,
    *,
    name: Annotated[str | None, Parameter(help="The task's name; default: the folder's.")] = None,
    minutes: Annotated[float | None, Parameter(help="About how long it may take.")] = None,
    augment: Annotated[bool, Parameter(help="Shift, crop and mirror pictures in training.")] = True,
    grow: Annotated[bool, Parameter(help="Add units and outputs if the model is full.")] = False,
    release: Annotated[list[str] | None, Parameter(help="Give up a task first.", negative="")] = None,
    yes: Annotated[bool, Parameter(help="Do not ask before a task is given up.", negative="")] = False,
    restart: Annotated[bool, Parameter(help="Drop what an interrupted learn left.", negative="")] = False,
) -> int:
    """Teach the model one more task: a folder of class folders, .npz, .parquet or a table (.csv).

    Interrupted at any moment, the file is as it was, and the same command goes on where it stopped.
    """
    opened = _open(model)
    if release and not _give_up(opened, release, False, yes):
        return 1
    show = Teaching()
    try:
        info = opened.learn(
            data, name=name, minutes=minutes, augment=augment, grow=grow, restart=restart, report=show
        )
    except KeyboardInterrupt:
        show.done()
        out(f"interrupted; {model} is as it was, and the same command goes on after the last phase")
        return 130
    out(
        f"learned {info.name!r}: {', '.join(info.classes)}; {info.accuracy:.1%} right on"
        f" {info.validation} validation samples"
    )
    from nispa.cli.looking import room_line, verdict

    for line in textwrap.wrap(verdict(opened.verify()), 79):
        out(line)
    out(room_line(opened))
    return 0


def undo(model: Path) -> None:
    """Take back the last change, such as the last task: the file is what it was before."""
    opened = _open(model)
    taken = opened.undo()
    left = ", ".join(task.name for task in opened.tasks) or "none"
    out(f"taken back: {taken}; tasks now: {left}")


def grow(model: Path) -> None:
    """Add half as many units and outputs again; no bit of an old answer changes."""
    opened = _open(model)
    before = opened.room()
    opened.grow()
    after = opened.room()
    pairs = ", ".join(f"{a} -> {b}" for a, b in zip(before.units, after.units, strict=True))
    out(f"hidden units {pairs}; outputs {before.outputs} -> {after.outputs}")


def release(
    model: Path,
    tasks: list[str],
    *,
    keep_shared: Annotated[bool, Parameter(help="Spare units that other tasks use.", negative="")] = False,
    yes: Annotated[bool, Parameter(help="Do not ask.", negative="")] = False,
) -> int:
    """Give up tasks and their own units; tells first what that costs the other tasks."""
    return 0 if _give_up(_open(model), tasks, keep_shared, yes) else 1


def _open(path: Path) -> Model:
    from nispa.model import Model

    return Model.open(path)


def _give_up(model: Model, tasks: list[str], keep_shared: bool, yes: bool) -> bool:
    plan = model.release_preview(tasks, keep_shared)
    _show(plan)
    if not yes and not _asked("give up?"):
        out(f"{model.path} is as it was")
        return False
    model.release(tasks, keep_shared)
    out(f"gave up {', '.join(plan.names)}; nispa undo brings back the file as it was")
    return True


def _show(plan: Release) -> None:
    out(f"giving up {', '.join(plan.names)} frees {' '.join(map(str, plan.units))} hidden units")
    if not plan.losses:
        out("no other task loses anything: their answers stay what they are, bit for bit")
    for loss in plan.losses:
        out(f"  {loss.task[:30]:30} {loss.changed:6.1%} of its answers to random inputs change")
    if plan.losses:
        out("  (with --keep-shared no other task loses anything, and fewer units are freed)")


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        raise NispaError("nothing was changed; say --yes to give the task up")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


class Teaching:
    """One line that lives while a task is learned."""

    def __init__(self) -> None:
        self.live, self.text = sys.stdout.isatty(), ""

    def __call__(self, event: Event) -> None:
        getattr(self, f"_{event['event']}", self._other)(event)

    def _other(self, event: Event) -> None:
        pass

    def _warning(self, event: Event) -> None:
        self._keep(f"warning: {event['text']}")

    def _note(self, event: Event) -> None:
        self._keep(event["text"])

    def _begin(self, event: Event) -> None:
        chosen: dict[str, Any] = event["settings"]
        self.text = f"learning {event['name']}"[:30]
        self._keep(
            f"learning {event['name']!r}: {event['samples']} samples, {event['validation']} to validate;"
            f" lr {chosen['lr']}, batch {chosen['batch_size']}, {chosen['phase_epochs']} epochs a phase,"
            f" a_f {chosen['accuracy_loss']} points"
        )

    def _epoch(self, event: Event) -> None:
        self._now(
            f"{self.text}: phase {event['phase']}, epoch {event['epoch'] + 1},"
            f" validation {event['validation_accuracy']:.1%}"
        )

    def _phase(self, event: Event) -> None:
        protected = " ".join(str(n) for n in event["protected"])
        line = (
            f"  phase {event['phase']:2}  validation {event['validation_accuracy']:6.1%}"
            f"  tau {event['tau']:.2f}  protected {protected}"
        )
        self._keep(line[:79]) if self.live else out(line[:79])

    def _task(self, event: Event) -> None:
        self.done()

    def _now(self, text: str) -> None:
        if self.live:
            sys.stdout.write(f"\r\x1b[2K{text[:78]}")
            sys.stdout.flush()

    def _keep(self, text: str) -> None:
        for line in textwrap.wrap(text, 78, subsequent_indent="  ", drop_whitespace=False) or [""]:
            out(f"\r\x1b[2K{line.rstrip()}" if self.live else line.rstrip())

    def done(self) -> None:
        """Remove the living line."""
        if self.live:
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()
