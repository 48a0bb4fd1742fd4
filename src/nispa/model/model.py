"""`Model`: a network on disk that learns one more task whenever there is one, and keeps what it knew."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nispa import atomic
from nispa.errors import NispaError
from nispa.learner import Report, silent
from nispa.model import ask, file, teach
from nispa.model.ask import Evaluation, Prediction, TaskInfo
from nispa.model.content import Known, contents, fresh, known
from nispa.model.inputs import convert
from nispa.model.lock import locked
from nispa.model.proof import Finding
from nispa.model.room import Release, Room, check, release, room
from nispa.model.room import grow as grow_inside
from nispa.model.sources import material
from nispa.model.start import start
from nispa.network import Network


class Model:
    """An open model file. `nispa.new` and `nispa.open` make one.

    Every change is written to the file before the method returns; if it fails or is killed, file and
    object are as they were.
    """

    def __init__(self, path: str | Path, inside: Known) -> None:
        self.path, self._known = Path(path), inside

    @classmethod
    def open(cls, path: str | Path, whole: bool = True) -> Model:
        """Read a model file; ``whole=False`` also one whose checksum does not fit, to inspect it."""
        path = Path(path).expanduser()
        found = file.read(path, whole)
        try:
            return cls(path, known(found))
        except NispaError as error:
            raise NispaError(f"{path}: {error}") from None

    @classmethod
    def new(
        cls,
        path: str | Path,
        like: str | Network | torch.nn.Module = "cnn",
        input: str | int | Sequence[int] | None = None,
        classes: int = 100,
        density: float | None = None,
        seed: int = 0,
    ) -> Model:
        """Make a model file for one of the paper's networks (start.py), or for one like a torch chain."""
        path = Path(path).expanduser()
        network, inputs = start(like, input, classes, density, seed)
        file.check_sizes(network.shape)
        inside = fresh(network, inputs, seed)
        atomic.make_folder(path.parent)
        with locked(path):
            if path.exists():
                raise NispaError(f"{path} exists; choose another name, or move it away first")
            teach.write_known(path, inside)
        return cls(path, inside)

    @property
    def tasks(self) -> list[TaskInfo]:
        """The learned tasks in their order, without those that were given up."""
        return ask.learned(self._known)

    @property
    def task_numbers(self) -> list[int]:
        """The numbers that ``wiring.became`` knows these tasks by."""
        return self._known.alive()

    @property
    def network(self) -> Network:
        return self._known.network

    @property
    def inputs(self) -> file.Inputs:
        return self._known.inputs

    @property
    def last_change(self) -> str:
        """What was done last, and what `undo` takes back if there is something to take back."""
        return self._known.change

    @property
    def can_undo(self) -> bool:
        return self._known.undo is not None

    def learn(
        self,
        data: Any,
        *,
        name: str | None = None,
        classes: Sequence[str] | None = None,
        minutes: float | None = None,
        augment: bool = True,
        grow: bool = False,
        restart: bool = False,
        report: Report = silent,
    ) -> TaskInfo:
        """Learn one more task: a folder of class folders, .npz, parquet, a table, a Dataset, or arrays.

        Interrupted, the file is as it was, and the same call goes on after the last whole phase.
        """
        with self._changing():
            given = material(data, self.inputs, name, classes)
            inside = self._copy()
            self._admit(given.name, given.classes)
            undo = teach.plain_bytes(inside)
            broken = [f.task for f in inside.verify() if not f.kept]
            if broken:
                raise NispaError(
                    f"{self.path}: task {broken[0]!r} is not what it was; see nispa inspect --verify"
                )
            if grow and room(inside).lacks(len(given.classes)):
                report(grow_inside(inside, len(given.classes)))
            check(inside, len(given.classes))
            self._known = teach.learn(
                self.path,
                inside,
                given,
                minutes=minutes,
                augment=augment,
                restart=restart,
                undo=undo,
                report=report,
            )
        return self.tasks[-1]

    def predict(self, data: Any, task: str | None = None) -> list[Prediction]:
        """What each picture or sample is: by one task, or by every task with the likeliest first."""
        return self.predict_values(convert(self.inputs, data), task)

    def predict_values(self, values: Tensor, task: str | None = None) -> list[Prediction]:
        """As `predict`, for what `inputs.convert` made."""
        return ask.predict(self._some(), values, task)

    def evaluate(self, data: Any, task: str) -> Evaluation:
        """How often a task is right on samples with known classes (their test part, if they have one)."""
        inside = self._some()
        return ask.evaluate(inside, inside.number(task), material(data, self.inputs, task))

    def verify(self) -> list[Finding]:
        """Compare every task with what was kept of it when it was learned."""
        return self._known.verify()

    def room(self) -> Room:
        """How full the model is."""
        return room(self._known)

    def undo(self) -> str:
        """Bring back the file as it was before the last change, byte for byte (its own undo apart)."""
        with self._changing():
            if self._known.undo is None:
                raise NispaError(f"{self.path}: nothing to take back; only the last change can be")
            taken = self._known.change
            before = known(file.parse(self._known.undo))
            atomic.write(self.path, self._known.undo)
            teach.learning_file(self.path).unlink(missing_ok=True)
            self._known = before
        return taken

    def grow(self) -> None:
        """Half as many units again, plastic ones, and outputs; no bit of an old answer changes."""
        with self._changing():
            inside = self._copy()
            undo = teach.plain_bytes(inside)
            grow_inside(inside)
            inside.undo = undo
            teach.write_known(self.path, inside)
            self._known = inside

    def release_preview(self, tasks: Sequence[str], keep_shared: bool = False) -> Release:
        """What giving up these tasks would cost the others; nothing is changed."""
        return release(self._copy(), list(tasks), keep_shared)

    def release(self, tasks: Sequence[str], keep_shared: bool = False) -> Release:
        """Give up tasks and their own units; ``keep_shared`` spares units that other tasks use."""
        with self._changing():
            plan = self.release_preview(tasks, keep_shared)
            plan.known.undo = teach.plain_bytes(self._known)
            teach.write_known(self.path, plan.known)
            self._known = plan.known
        return plan

    def copy_to(self, path: str | Path) -> Model:
        """The same model under another name, to be taught on its own."""
        target = Path(path).expanduser()
        atomic.make_folder(target.parent)
        with locked(target):
            if target.exists():
                raise NispaError(f"{target} exists; choose another name, or move it away first")
            atomic.write(target, self.path.read_bytes())
        return Model.open(target)

    def export_onnx(self, path: str | Path, task: str | None = None) -> dict[str, Any]:
        """Write an ONNX graph of all tasks, or of one; returns what is noted in it (export.py)."""
        from nispa.model.export import export_onnx

        return export_onnx(self, path, task)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the files of a Hugging Face repository into a folder."""
        from nispa.model.hub import mixin

        mixin()(self).save_pretrained(atomic.make_folder(folder))

    def push(self, repository: str, **options: Any) -> str:
        """Upload to the Hugging Face hub, as ``USER/NAME``; the page's address."""
        from nispa.model.hub import mixin

        return str(mixin()(self).push_to_hub(repository, **options))

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> Model:
        """A model from the Hugging Face hub (``USER/NAME``), or from a folder that `save_pretrained` made."""
        from nispa.model.hub import mixin

        opened: Model = mixin().from_pretrained(str(source), **options).model
        return opened

    def inspect(self) -> dict[str, Any]:
        """Everything that there is to say about the model, as plain data."""
        from nispa.model.about import about

        return about(self)

    # Inside ----------------------------------------------------------------------------------------

    def _changing(self) -> Any:
        return _unchanged_and_locked(self)

    def _copy(self) -> Known:
        """The same contents in an object of its own, so that nothing half-done is ever seen."""
        copy = known(contents(self._known))
        copy.origin = self._known.origin
        return copy

    def _some(self) -> Known:
        if not self._known.alive():
            raise NispaError(
                f"{self.path} has learned nothing yet; teach it with: nispa learn {self.path} FOLDER"
            )
        return self._known

    def _admit(self, name: str, classes: Sequence[str]) -> None:
        """More data or another class for a learned task: refused, a new task offered."""
        for task in self.tasks:
            if task.name == name:
                raise NispaError(
                    f"task {name!r} is learned and cannot change; teach the new data as a task of its own"
                    f" (--name {name}-2), or take the last task back with `nispa undo`"
                )


@contextlib.contextmanager
def _unchanged_and_locked(model: Model) -> Iterator[None]:
    """The lock, and the certainty that nobody changed the file since it was opened."""
    with locked(model.path):
        if file.fingerprint(model.path) != model._known.origin:
            raise NispaError(f"{model.path} was changed by another process; open it again")
        yield
