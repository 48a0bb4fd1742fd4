"""How full a model is, how many tasks like those so far still fit, and what to do when none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nispa.capacity import grown, own_units, released, used_by
from nispa.draws import ROOM, generator
from nispa.errors import NispaError
from nispa.model.content import Known, contents
from nispa.model.content import known as build
from nispa.model.proof import digest, fingerprint, made_here
from nispa.wiring import Bits

LEAST = 0.1
"""A layer is full when it has less than this share of what the last tasks took there on the average."""
RECENT = 3
"""Tasks that the average is over, without the first: it finds nothing to reuse and takes the most."""
GROWTH = 0.5
"""`grow` adds this share of every hidden layer, and of the outputs."""


MEASURED = 512
"""Random inputs on which a release is measured."""


@dataclass(frozen=True)
class Room:
    """Units of the hidden layers and outputs: all, free, and what the last tasks took on the average."""

    units: list[int]
    free: list[int]
    taken: list[float]
    outputs: int
    free_outputs: int
    taken_outputs: float

    @property
    def fits(self) -> float | None:
        """How many more tasks like those so far; unknown before the first."""
        if not self.taken_outputs:
            return None
        layers = [free / taken for free, taken in zip(self.free, self.taken, strict=True) if taken]
        return min([self.free_outputs / self.taken_outputs, *layers])

    def lacks(self, classes: int) -> str | None:
        """Why a task of so many classes does not fit, or None."""
        if self.free_outputs < classes:
            return f"{classes} classes need {classes} outputs, {self.free_outputs} of {self.outputs} are free"
        for i, (free, taken) in enumerate(zip(self.free, self.taken, strict=True), 1):
            if free < max(1.0, LEAST * taken):
                return (
                    f"hidden layer {i} has {free} free units of {self.units[i - 1]}, a task took {taken:.0f}"
                )
        return None


def room(known: Known) -> Room:
    wiring = known.network.wiring
    hidden, alive = list(wiring.hidden), known.alive()[1:][-RECENT:] or known.alive()

    def taken(g: int) -> float:
        return float(np.mean([int((wiring.became[g] == i).sum()) for i in alive])) if alive else 0.0

    return Room(
        units=[wiring.groups[g] for g in hidden],
        free=[int((~wiring.stable[g]).sum()) for g in hidden],
        taken=[taken(g) for g in hidden],
        outputs=wiring.groups[-1],
        free_outputs=int((~wiring.stable[-1]).sum()),
        taken_outputs=taken(-1),
    )


def grow(known: Known, classes: int = 0) -> dict[str, Any]:
    """Half as many units again in every hidden layer, and outputs for ``classes`` more at least."""
    network, now = known.network, room(known)
    units = [max(1, round(GROWTH * n)) for n in now.units]
    outputs = max(round(GROWTH * now.outputs), classes - now.free_outputs)
    known.learner.network = grown(network, units, outputs)
    known.network.lay_out(known.network.wiring.copy_stable()[1:])
    known.change = "grown"
    return {"event": "note", "text": f"grown by {' '.join(map(str, units))} units and {outputs} outputs"}


@dataclass(frozen=True)
class Loss:
    """What giving up a task costs another one, measured on random inputs."""

    task: str
    changed: float
    """Share of the random inputs for which the task's answer (its highest class) is another one."""
    difference: float
    """Largest difference of a logit, beside the logits' standard deviation."""


@dataclass(frozen=True)
class Release:
    """A model without some tasks' own units, and what that costs the other tasks."""

    known: Known
    names: list[str]
    units: list[int]
    """Given back, per hidden layer."""
    losses: list[Loss]


def release(known: Known, names: list[str], keep_shared: bool = False) -> Release:
    """What the model would be without these tasks; nothing is changed yet.

    ``keep_shared``: units that a remaining task uses stay, so that no remaining task loses anything.
    """
    numbers = sorted({known.number(name) for name in names})
    rest = [i for i in known.alive() if i not in numbers]
    wiring = known.network.wiring
    units: list[Bits] = [np.zeros(n, dtype=bool) for n in wiring.groups]
    for i in numbers:
        for g, own in enumerate(own_units(wiring, i)):
            units[g] |= own
    if keep_shared:
        shared = used_by(wiring, [c for i in rest for c in known.outputs(i)])
        units = [own & ~other for own, other in zip(units, shared, strict=True)]
    after = _without(known, numbers, units)
    losses = _losses(known, after, rest)
    for loss in losses:
        text = f"{loss.changed:.0%} of answers changed when {', '.join(names)} was given up"
        after.tasks[known.number(loss.task)].notes.append(text)
    given = [int(units[g].sum()) for g in wiring.hidden]
    return Release(after, [known.learner.tasks[i].name for i in numbers], given, losses)


def _without(known: Known, numbers: list[int], units: list[Bits]) -> Known:
    after = build(contents(known))
    done = sum(task.released for task in known.tasks) + 1
    after.learner.network = released(known.network, units, 1_000_000 + done)
    after.network.lay_out(after.network.wiring.copy_stable()[1:])
    for i in numbers:
        after.tasks[i] = after.tasks[i].model_copy(update={"released": True})
        after.learner.tasks[i].classes = []
    for i in after.alive():
        after.logits[i] = fingerprint(after.part(i), after.probes)
        after.tasks[i] = after.tasks[i].model_copy(
            update={"digest": digest(after.network, i), "made": made_here(after.network)}
        )
    after.change = f"gave up {', '.join(known.learner.tasks[i].name for i in numbers)}"
    return after


def _losses(known: Known, after: Known, rest: list[int]) -> list[Loss]:
    """Tasks whose logits on many random inputs are no longer the same."""
    rng = generator(known.seed, ROOM, 1, 1)
    noise = rng.standard_normal((MEASURED, *known.inputs.shape), dtype=np.float32)
    inputs = torch.from_numpy(noise)
    losses = []
    for i in rest:
        old, new = fingerprint(known.part(i), inputs), fingerprint(after.part(i), inputs)
        if torch.equal(old, new):
            continue
        changed = float((old.argmax(1) != new.argmax(1)).float().mean())
        size = max(float(old.std()), 1e-9)
        losses.append(Loss(known.learner.tasks[i].name, changed, float((old - new).abs().max()) / size))
    return losses


def check(known: Known, classes: int) -> None:
    """Refuse a task for which there is no room, and say what can be done."""
    lack = room(known).lacks(classes)
    if lack is not None:
        raise NispaError(f"the model is full: {lack}; give --grow, or --release TASK")
