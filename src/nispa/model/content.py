"""A model file's contents as a learner and what is known of its tasks, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nispa.algorithm import NISPA
from nispa.capacity import part_for
from nispa.data.samples import Batch
from nispa.errors import NispaError, nearest
from nispa.model.file import Contents, Inputs, Taught, describe
from nispa.model.guess import WIDTH, Guess, RandomFeatures
from nispa.model.proof import PROBES, Finding, compare, digest, draw_probes, fingerprint, made_here, uses
from nispa.network import Network
from nispa.state import build_network, take


@dataclass
class Known:
    """Everything about a model: the learner, its probes, and what was kept of every task."""

    learner: NISPA
    seed: int
    inputs: Inputs
    tasks: list[Taught]
    probes: Tensor
    logits: list[Tensor]
    """Per task, its outputs' logits on the probes, ``[probes, classes]``, when it was learned."""
    gram: Tensor
    sums: list[Tensor]
    """For guess.py: G, and every task's S."""
    origin: str = ""
    undo: bytes | None = None
    change: str = ""

    @property
    def network(self) -> Network:
        return self.learner.network

    def alive(self) -> list[int]:
        """The numbers of the tasks that were not given up."""
        return [i for i, task in enumerate(self.tasks) if not task.released]

    def number(self, name: str) -> int:
        """The number of the task of this name."""
        names = {self.learner.tasks[i].name: i for i in self.alive()}
        if name not in names:
            known = ", ".join(names) or "none yet"
            raise NispaError(f"no task {name!r}{nearest(name, names)} in the model (it has: {known})")
        return names[name]

    def outputs(self, task: int) -> list[int]:
        return list(self.learner.tasks[task].classes)

    def part(self, task: int) -> Network:
        """The part of the network that answers for a task; what comes later does not touch it."""
        if task not in self._parts:
            self._parts[task] = part_for(self.network, self.outputs(task))
        return self._parts[task]

    @cached_property
    def _parts(self) -> dict[int, Network]:
        return {}

    def batch(self, values: Tensor) -> Batch:
        """Inputs with the file's scaling."""
        scale, shift = (
            torch.tensor(numbers, dtype=torch.float32) for numbers in (self.inputs.scale, self.inputs.shift)
        )
        return Batch(values, torch.arange(len(values)), scale, shift)

    @cached_property
    def features(self) -> RandomFeatures:
        return RandomFeatures(self.inputs.shape, self.seed)

    @cached_property
    def guess(self) -> Guess:
        """The rule that tells the likeliest task."""
        return Guess(self.features, self.gram, {i: self.sums[i] for i in self.alive()})

    def verify(self) -> list[Finding]:
        """Every task's units and answers against what was kept when it was learned."""
        here = made_here(self.network)
        now = {i: digest(self.network, i) for i in self.alive()}
        broken = {i for i in now if now[i] != self.tasks[i].digest}
        hidden = {i for i in now if now[i].split()[0] != self.tasks[i].digest.split()[0]}
        found = []
        for i in self.alive():
            exact = self.tasks[i].made == here
            answers = fingerprint(part_for(self.network, self.outputs(i)), self.probes)
            alike, difference = compare(self.logits[i], answers, exact)
            through = [t for t in uses(self.network, i, self.outputs(i)) if t in hidden]
            names = [self.learner.tasks[t].name for t in through]
            found.append(
                Finding(self.learner.tasks[i].name, i not in broken, alike, difference, exact, names)
            )
        return found


def fresh(network: Network, inputs: Inputs, seed: int) -> Known:
    """A model that has learned nothing."""
    probes = draw_probes(inputs.shape, seed)
    gram = torch.zeros(WIDTH, WIDTH)
    return Known(NISPA(network, seed=seed), seed, inputs, [], probes, [], gram, [], change="made")


def contents(known: Known) -> Contents:
    """What goes into the file."""
    state = known.learner.state()
    tensors = {**state.tensors, "probes": known.probes, "gram": known.gram}
    for i in known.alive():
        tensors[f"task.{i}.logits"] = known.logits[i]
        tensors[f"task.{i}.sums"] = known.sums[i]
    description = describe(
        known.change,
        known.seed,
        known.inputs,
        known.tasks,
        known.learner.hyperparameters(),
        state.data,
    )
    return Contents(description, tensors, known.undo)


def known(found: Contents) -> Known:
    """A file's contents, built and checked against each other."""
    description = found.description
    try:
        learner = build_learner(found, description.hyperparameters)
        result = Known(
            learner,
            description.seed,
            description.inputs,
            list(description.tasks),
            take(found.tensors, "probes", (PROBES, *description.inputs.shape)),
            [],
            take(found.tensors, "gram", (WIDTH, WIDTH)),
            [],
            found.origin,
            found.undo,
            description.change,
        )
        _tasks(result, found.tensors)
    except NispaError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        OverflowError,
        RuntimeError,
    ) as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise NispaError(f"its description does not fit ({text}); the file is damaged") from None
    return result


def build_learner(found: Contents, hyperparameters: Mapping[str, object]) -> NISPA:
    """A learner of these hyperparameters that has learned what the file holds."""
    network = build_network(found.tensors, found.description.state["network"])
    learner = NISPA(network, **hyperparameters)  # type: ignore[arg-type]
    learner.load_state(found.state)
    return learner


def _tasks(result: Known, tensors: dict[str, Tensor]) -> None:
    learner, network = result.learner, result.learner.network
    if len(result.tasks) != len(learner.tasks) or learner.progress is not None:
        raise ValueError("its two task logs differ")
    channels = result.inputs.shape[0]
    if len(result.inputs.scale) != channels or len(result.inputs.shift) != channels:
        raise ValueError("its scaling does not fit its inputs")
    if not bool(torch.isfinite(torch.tensor(result.inputs.scale + result.inputs.shift)).all()):
        raise ValueError("its scaling is not finite")
    owner: set[int] = set()
    for i, (record, taught) in enumerate(zip(learner.tasks, result.tasks, strict=True)):
        outputs = record.classes
        if taught.released:
            result.logits.append(torch.zeros(0))
            result.sums.append(torch.zeros(0))
            continue
        right = all(type(c) is int and 0 <= c < network.classes for c in outputs)
        named = all(isinstance(name, str) for name in (record.name, *record.class_names))
        if not right or not named or not outputs or owner & set(outputs) or sorted(outputs) != outputs:
            raise ValueError(f"the classes of task {i}")
        if len(record.class_names) != len(outputs):
            raise ValueError(f"the class names of task {i}")
        owner |= set(outputs)
        result.logits.append(take(tensors, f"task.{i}.logits", (PROBES, len(outputs))))
        result.sums.append(take(tensors, f"task.{i}.sums", (WIDTH, len(outputs))))
