"""Watch a NISPA learner through one task and check every invariant at every phase.

It sees what any caller sees: the events, the moments at which a checkpoint may be taken, the learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nispa.checks.wiring import check_frozen, check_growth, check_no_path, check_selection, check_wiring
from nispa.data.task import Task
from nispa.errors import NispaError
from nispa.learner import Event, State, TaskRecord
from nispa.network import Network, Part
from nispa.rewiring import select_candidates
from nispa.schedule import FLOOR
from nispa.training import EVALUATION_BATCH
from nispa.wiring import Bits

if TYPE_CHECKING:
    from nispa.algorithm import NISPA

TIMES = ("seconds", "train_seconds")


def check_learning(learner: NISPA, task: Task, *, last: bool = False) -> TaskRecord:
    """Let the learner learn a task from its start, and raise at the first invariant that is broken.

    Checked are 1 to 7 and 9 of docs/fidelity.md; 8, determinism and resuming, is a matter of two runs
    (``check_same``). Costs a few times the learning itself.
    """
    if learner.progress is not None:
        raise NispaError("check_learning wants a learner that stands between two tasks")
    watch = _Watch(learner, task, last)
    record = learner.learn(task, last=last, report=watch.hear, checkpoint=watch.after_phase)
    watch.at_end(record)
    return record


def check_same(one: State, other: State) -> None:
    """Two learned states are the same bit for bit, times aside (8)."""
    if one.tensors.keys() != other.tensors.keys():
        raise NispaError(f"tensors {sorted(one.tensors.keys() ^ other.tensors.keys())} are in one state only")
    for name, tensor in one.tensors.items():
        same = tensor.dtype == other.tensors[name].dtype and tensor.shape == other.tensors[name].shape
        if not same or tensor.cpu().numpy().tobytes() != other.tensors[name].cpu().numpy().tobytes():
            raise NispaError(f"tensor {name!r} differs between the two states")
    if _timeless(one.data) != _timeless(other.data):
        raise NispaError("the two states' descriptions differ")


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in TIMES}
    return [_timeless(v) for v in value] if isinstance(value, (list, tuple)) else value


class _Watch:
    def __init__(self, learner: NISPA, task: Task, last: bool) -> None:
        self.learner, self.task, self.last = learner, task, last
        self.number = len(learner.tasks)
        self.before = learner.network.snapshot()
        self.stable = learner.wiring.copy_stable()
        self.frozen = self.stable[1:]
        if learner.masking == "none":  # NISPA-Replay never freezes output rows
            self.frozen = [*self.frozen[:-1], np.zeros_like(self.frozen[-1])]
        start = learner.wiring.copy_stable()
        start[-1][list(task.classes)] = True
        self.protected: dict[int, list[Bits]] = {0: start}
        """S[p], by phase."""
        self.models: dict[int, list[Part]] = {}
        """M[p], by phase."""
        self.accuracies: dict[int, float] = {}
        self.masks = [part[0] for part in self.before]
        self.answers = [self._answer(learner.network, j) for j in range(self.number)]

    def _answer(self, network: Network, task: int) -> bytes:
        """The logits of a finished task's outputs on this task's inputs, to the bit."""
        classes = list(self.learner.record(task).classes) if task < self.number else list(self.task.classes)
        batches = self.task.validation.batches(EVALUATION_BATCH)
        with torch.no_grad():
            return b"".join(network(batch)[:, classes].cpu().numpy().tobytes() for batch in batches)

    def hear(self, event: Event) -> None:
        """After every epoch: the phase's model is that of the best epoch, the latest among equals."""
        if event["event"] != "epoch":
            return
        phase, accuracy = int(event["phase"]), float(event["validation_accuracy"])
        better = accuracy >= self.accuracies.get(phase, -1.0)
        if better or self.learner.keep_epoch == "last":
            self.accuracies[phase] = accuracy
            self.models[phase] = self.learner.network.snapshot()

    def after_phase(self) -> None:
        now, learner, wiring = self.learner.progress, self.learner, self.learner.wiring
        assert now is not None
        phase = now.phase - 1
        if self._worse(phase):
            raise NispaError(f"phase {phase} was worse than accuracy_loss allows, learning went on")
        if now.previous is None or not _same(now.previous, self.models[phase]):
            raise NispaError(f"phase {phase} did not end with its best epoch")
        self._check_training(phase, now.previous)
        self._check_choice(phase, now.previous, now.protected)
        check_growth([part[0] for part in now.previous], wiring, now.protected, learner.growth)
        _check_carried_over(now.previous, learner.network.snapshot())
        check_wiring(wiring, now.protected)
        self._check_old(learner.network)
        learned = [c for record in learner.tasks for c in record.classes]
        check_no_path(wiring, now.protected, [*self.task.classes, *learned])
        self.protected[phase] = [bits.copy() for bits in now.protected]
        self.masks = [c.mask.copy() for c in wiring.connections]

    def _check_training(self, phase: int, model: list[Part]) -> None:
        check_frozen(self.before, self.frozen, model)
        for i, (mask, part) in enumerate(zip(self.masks, model, strict=True)):
            if not np.array_equal(mask, part[0]):
                raise NispaError(f"layer {i + 1}: training in phase {phase} changed the connections")

    def _check_choice(self, phase: int, model: list[Part], protected: list[Bits]) -> None:
        """Candidates are a minimal choice (5); exactly those that nothing protected feeds were degraded."""
        learner, network = self.learner, self.learner.network
        scratch = Network(network.shape, engine=network.engine_choice, parts=model).to(network.device)
        sums = scratch.engine.activation_sums(scratch, self.task.train.batches(EVALUATION_BATCH))
        tau = learner.schedule(phase)
        if not np.array_equal(protected[-1], self.protected[0][-1]):
            raise NispaError(f"phase {phase}: outputs other than the task's were protected")
        for g, activation in zip(learner.wiring.hidden, sums, strict=True):
            if self.last:
                if not protected[g].all():
                    raise NispaError(f"phase {phase}: the last task left a unit of group {g} plastic")
                continue
            chosen = select_candidates(activation, self.stable[g], tau, learner.selection)
            if learner.selection == "paper":
                check_selection(activation, self.stable[g], chosen, tau)
            feeding = protected[g - 1][scratch.wiring.connections[g - 1].source_of]
            fed = (model[g - 1][0] & feeding[None]).any(axis=1)
            if not np.array_equal(protected[g], self.stable[g] | (chosen & fed)):
                raise NispaError(f"phase {phase}: group {g} protects other units than its fed candidates")

    def _worse(self, phase: int) -> bool:
        """Line 7 of Algorithm 1, from the accuracies that were reported."""
        a, earlier = self.accuracies[phase], [self.accuracies[p] for p in range(1, phase)]
        if phase <= self.learner.min_phases:
            return False
        if self.last:
            return a <= max(earlier)
        return round(max(*earlier, a) - self.learner.accuracy_loss / 100 - a, 9) > 0

    def _check_old(self, network: Network) -> None:
        """What finished tasks answer has not changed by one bit (4)."""
        if self.learner.masking == "none":
            return
        for j, answer in enumerate(self.answers):
            if self._answer(network, j) != answer:
                raise NispaError(f"task {j}'s logits changed while task {self.number} was learned")

    def at_end(self, record: TaskRecord) -> None:
        """M[p-1] with S[p-2] after a worse phase, M[p] with S[p-1] at the floor of tau (7)."""
        learner, network, phase = self.learner, self.learner.network, record.phases
        worse = self._worse(phase)
        if not worse and learner.schedule(phase) > FLOOR:
            raise NispaError(f"learning stopped in phase {phase}, neither worse nor at the floor of tau")
        kept = phase - 1 if worse else phase
        model, stable = self.models[kept], self.protected[kept - 1]
        self._check_training(kept, self.models[phase])
        if record.final_tau != learner.schedule(kept - 1):
            raise NispaError(f"final tau is {record.final_tau}, want that of phase {kept - 1}")
        if not _equal(learner.wiring.stable, stable):
            raise NispaError(f"the stable units are not those of phase {kept - 1}")
        if not _equal([c.mask for c in learner.wiring.connections], [part[0] for part in model]):
            raise NispaError(f"the connections are not those of phase {kept}")
        check_frozen(model, stable[1:], network.snapshot())
        if not learner.reinitialize and not _same(model, network.snapshot()):
            raise NispaError("plastic weights changed at the end of the task")
        check_wiring(learner.wiring)
        self._check_old(network)
        scratch = Network(network.shape, engine=network.engine_choice, parts=model).to(network.device)
        if learner.masking != "none" and self._answer(scratch, self.number) != self._answer(
            network, self.number
        ):
            raise NispaError("the task's logits changed when plastic units started anew")


def _check_carried_over(before: Sequence[Part], after: Sequence[Part]) -> None:
    """Rewiring leaves the weights of connections that stay, and all biases, as they were."""
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        both = old[0] & new[0]
        one, other = old[1][both[old[0]]], new[1][both[new[0]]]
        if one.tobytes() != other.tobytes() or old[2].tobytes() != new[2].tobytes():
            raise NispaError(f"layer {i + 1}: rewiring changed a weight or a bias that stays")


def _same(one: Sequence[Part], other: Sequence[Part]) -> bool:
    return all(
        a.tobytes() == b.tobytes()
        for parts in zip(one, other, strict=True)
        for a, b in zip(*parts, strict=True)
    )


def _equal(one: Sequence[Bits], other: Sequence[Bits]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
