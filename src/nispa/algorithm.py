"""NISPA: Neuro-Inspired Stability-Plasticity Adaptation (Gurbuz and Dovrolis, ICML 2022).

``learn`` is Algorithm 1; the numbers in its comments are the listing's lines. A task is trained in
phases. After each, the most active units become *candidates* to be stable, connections from plastic
into protected units are dropped, and as many are grown elsewhere at random. At the task's end the
candidates of the phase before the last rewiring are promoted, their inputs frozen, and everything else
starts anew. docs/algorithm.md walks through it; docs/fidelity.md lists where the paper leaves a choice.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [60, 60], classes=stream.classes, density=0.3)
    >>> learner = nispa.NISPA(net, phase_epochs=1, accuracy_loss=4, tau_period=4, batch_size=64)
    >>> record = learner.learn(stream[0])
    >>> bool(learner.wiring.stable[-1][0])       # output 0 is stable now
    True
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import ClassVar, Literal

from torch import Tensor

from nispa.data.samples import Batch
from nispa.data.task import Task
from nispa.draws import AUGMENT, BATCHES, REINIT, REWIRE, generator
from nispa.errors import NispaError, nearest
from nispa.learner import Event, Learner, Report, State, TaskRecord, plain_as, records, silent, warn
from nispa.network import Network, Part
from nispa.rewiring import GROWTHS, SELECTIONS, degrade, drop, grow, inputs_from, repair, select_candidates
from nispa.schedule import FLOOR, schedule
from nispa.state import (
    build_network,
    network_data,
    network_tensors,
    pack_groups,
    pack_parts,
    unpack_groups,
    unpack_parts,
)
from nispa.training import (
    MASKINGS,
    Beside,
    History,
    Optimization,
    accuracy,
    augmentation,
    fit,
    mask_logits,
    task_loss,
)
from nispa.wiring import Bits, Wiring


@dataclass(kw_only=True)
class Place:
    """Where learning a task stands, as plain JSON."""

    task: int
    name: str
    classes: list[int]
    phase: int = 1
    best: float = 0.0
    epochs: int = 0
    samples: int = 0
    seconds: float = 0.0
    tau: float = 1.0


@dataclass(kw_only=True)
class Progress(Place):
    """Where learning a task stands between two phases: all that a resumed run needs."""

    protected: list[Bits]
    """S[p-1]: stable units, candidates of the last phase, the task's outputs; rules the next phase."""
    previous: list[Part] | None = None
    """M[p-1]: the network at the end of the last phase, before its rewiring."""
    protected_before: list[Bits] | None = None
    """S[p-2]: what M[p-1] was trained with."""
    started: float = 0.0
    """When this process began the phase, by its clock."""


class NISPA(Learner):
    """Learns task after task in one sparse network of fixed density, and forgets nothing.

    phase_epochs   e, the epochs of a phase
    accuracy_loss  a_f, in percentage points of validation accuracy
    tau_period     k, the shape of the cosine schedule
    min_phases     the accuracy test starts after this many phases (2; the authors' code)
    """

    name: ClassVar[str] = "nispa"
    forgets: ClassVar[bool] = False

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        phase_epochs: int = 5,
        accuracy_loss: float = 0.75,
        tau_period: float = 30,
        tau_schedule: Literal["cosine", "linear"] = "cosine",
        growth: Literal["random", "novel", "transfer"] = "random",
        selection: Literal["paper", "all-units"] = "paper",
        masking: Literal["true", "zero", "none"] = "true",
        keep_epoch: Literal["best", "last"] = "best",
        reinitialize: bool = True,
        min_phases: int = 2,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        skip_idle: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(network, seed)
        self.lr, self.batch_size, self.optimizer = lr, batch_size, optimizer
        self.momentum, self.weight_decay = momentum, weight_decay
        self.phase_epochs, self.accuracy_loss, self.min_phases = phase_epochs, accuracy_loss, min_phases
        self.tau_period, self.tau_schedule = tau_period, tau_schedule
        self.growth, self.selection, self.masking = growth, selection, masking
        self.keep_epoch, self.reinitialize, self.skip_idle = keep_epoch, reinitialize, skip_idle
        self.progress: Progress | None = None
        self.schedule = schedule(tau_schedule, tau_period)
        self.how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        self._check_options()

    @property
    def wiring(self) -> Wiring:
        return self.network.wiring

    # Algorithm 1 -----------------------------------------------------------------------------------

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
        beside: Beside | None = None,
    ) -> TaskRecord:
        """Learn one more task. ``last=True`` gives it all free units (appendix, "The Last Task").

        ``beside`` is a second term of the loss (NISPA-Replay's memory batch).

        Interrupted learning goes on where it stood: call ``learn`` with the same task again.
        """
        now = self._begin(task, report)  #                                                      line 1
        while True:  #                                                                          line 2
            with self._whole_phase(now):
                history = self.train(task, now, report, beside)  #                              line 3
                model = self.network.snapshot()  #                                              line 4
                a, best_before = history.accuracy, now.best  #                                  line 5
                now.best = max(now.best, a)  #                                                  line 6
                if now.phase > self.min_phases and self._worse(a, best_before, last):  # lines 7 and 14
                    assert now.previous is not None  # min_phases >= 2, tau(1) is above the floor
                    assert now.protected_before is not None
                    now.tau = self.schedule(now.phase - 2)
                    return self._finish(task, now, now.previous, now.protected_before, report)  # 15-19
                tau = self.schedule(now.phase)  #                                               line 8
                if tau <= FLOOR:  #                            ends with M[p] and S[p-1]; lines 17 to 19
                    now.tau = self.schedule(now.phase - 1)
                    return self._finish(task, now, model, now.protected, report)
                now.protected_before, now.previous = now.protected, model
                now.protected = self.select(task, tau, last)  #                        lines 9 and 10
                now.tau, found = tau, self.rewire(now)  #                             lines 11 and 12
                report(self._phase_event(task, now, a, found))
                now.phase += 1  #                                                              line 13
            if checkpoint is not None:
                checkpoint()

    def _worse(self, a: float, best_before: float, last: bool) -> bool:
        """Line 7. The last task drops nothing, so that a_f has no say: it wants to get better."""
        if last:
            return a <= best_before
        # Shares of samples are compared with points: rounding must not decide when they are equal.
        return max(a, best_before) - self.accuracy_loss / 100 - a > 1e-9

    def train(self, task: Task, now: Progress, report: Report, beside: Beside | None = None) -> History:
        """Line 3: e epochs with a new optimizer, ending with the phase's best epoch (fidelity, row 5)."""
        history = fit(
            self.network,
            task.train,
            task_loss(task.classes, self.masking),
            self.how,
            epochs=self.phase_epochs,
            draws=lambda epoch: generator(self.seed, BATCHES, now.task, now.phase, epoch),
            validate=lambda: self._validate(task),
            keep=self.keep_epoch,
            beside=beside,
            augment=augmentation(
                task, lambda epoch: generator(self.seed, AUGMENT, now.task, now.phase, epoch)
            ),
            on_epoch=lambda epoch, a: report(
                {
                    "event": "epoch",
                    "task": now.task,
                    "phase": now.phase,
                    "epoch": epoch,
                    "validation_accuracy": a,
                }
            ),
        )
        now.epochs += len(history.accuracies)
        now.samples += history.samples
        return history

    def select(self, task: Task, tau: float, last: bool = False) -> list[Bits]:
        """Lines 9 and 10: S and its new candidates, by total activation on the training split."""
        protected = self._start_of_task(task)
        sums = self.network.engine.activation_sums(self.network, task.train.batches(512))
        for g, activation in zip(self.wiring.hidden, sums, strict=True):
            protected[g] |= select_candidates(activation, protected[g], tau, self.selection)
        if last:  # takes every free unit, also a silent one, and degrades none
            return [protected[g] | (g in self.wiring.hidden) for g in range(len(protected))]
        return degrade(self.wiring, protected)

    def rewire(self, now: Progress) -> Event:
        """Lines 11 and 12: drop everywhere, then repair and grow layer by layer."""
        rng = generator(self.seed, REWIRE, now.task, now.phase)
        dropped = drop(self.wiring, now.protected)
        shortfall = []
        for i in range(len(self.wiring.connections)):
            repair(self.wiring, i + 1, now.protected, rng)
            shortfall.append(grow(self.wiring, i + 1, now.protected, rng, self.growth))
            self.network.rewire(i, rng)
        self._lay_out(now)
        return {"dropped": dropped, "shortfall": shortfall}

    def _finish(
        self, task: Task, now: Progress, model: list[Part], stable: list[Bits], report: Report
    ) -> TaskRecord:
        """Lines 15 to 19: revert, promote the candidates, freeze their inputs, start the rest anew."""
        network, wiring = self.network, self.wiring
        before = [int(bits.sum()) for bits in wiring.stable]
        network.restore(model)
        for g, bits in enumerate(stable):
            wiring.became[g][bits & ~wiring.stable[g]] = now.task
            wiring.stable[g] = bits.copy()
        if self.reinitialize:
            network.reinitialize(generator(self.seed, REINIT, now.task), keep=wiring.stable[1:])
        network.lay_out(self._frozen())
        record = TaskRecord(
            name=task.name,
            classes=list(task.classes),
            class_names=list(task.class_names),
            phases=now.phase,
            epochs=now.epochs,
            samples=now.samples,
            final_tau=now.tau,
            stable_units=[int(wiring.stable[g].sum()) for g in wiring.hidden],
            new_stable_units=[int(wiring.stable[g].sum()) - before[g] for g in wiring.hidden],
            plastic_units=[int((~wiring.stable[g]).sum()) for g in wiring.hidden],
            free_connections=wiring.free_connections(),
            validation_accuracy=self._validate(task),
            seconds=now.seconds + time.monotonic() - now.started,
        )
        self.progress = None
        self.tasks.append(record)
        report({"event": "task", "task": now.task, **vars(record)})
        return record

    # Bookkeeping -----------------------------------------------------------------------------------

    def _begin(self, task: Task, report: Report) -> Progress:
        if self.progress is None:
            self.admit(task)
            if self.accuracy_loss < 100 / len(task.validation):
                warn(
                    f"task {task.name!r}: accuracy_loss is {self.accuracy_loss} points, but one of"
                    f" {len(task.validation)} validation samples is {100 / len(task.validation):.2f};"
                    " a single one can stop the task",
                    report,
                )
            self.progress = Progress(
                task=len(self.tasks),
                name=task.name,
                classes=list(task.classes),
                protected=self._start_of_task(task),
            )
        now = self.progress
        if (now.name, now.classes) != (task.name, list(task.classes)):
            raise NispaError(
                f"task {now.name!r} (classes {now.classes}) is half learned; learn it to its end before"
                f" {task.name!r}"
            )
        if len(now.protected[-1]) != self.network.classes:
            raise NispaError(f"outputs were added in the middle of task {now.name!r}; add them between tasks")
        self._lay_out(now)
        return now

    @contextlib.contextmanager
    def _whole_phase(self, now: Progress) -> Iterator[None]:
        """A phase happens whole or not at all: whatever interrupts it, the learner is back at its start."""
        now.started = time.monotonic()
        begin, parts = replace(now), self.network.snapshot()
        stable, became = self.wiring.copy_stable(), [log.copy() for log in self.wiring.became]
        try:
            yield
            now.seconds += time.monotonic() - now.started
        except BaseException:
            self.progress = begin
            del self.tasks[begin.task :]
            self.network.restore(parts)
            self.wiring.stable, self.wiring.became = stable, became
            self._lay_out(begin)
            raise

    def _start_of_task(self, task: Task) -> list[Bits]:
        """S at the task's start, and the outputs of the task (stable by definition)."""
        protected = self.wiring.copy_stable()
        protected[-1][list(task.classes)] = True
        return protected

    def _frozen(self) -> list[Bits]:
        """Per layer, the units whose inputs may not change; NISPA-Replay never freezes outputs."""
        frozen = self.wiring.copy_stable()[1:]
        if self.masking == "none":
            frozen[-1][:] = False
        return frozen

    def _lay_out(self, now: Progress) -> None:
        """After the first drop plastic units reach no output of the task: they are idle in training.

        The reference engine computes all rows whatever their order, so there it stays as it is: PyTorch's
        fused optimizers round a weight by where it lies in memory.
        """
        skips = self.skip_idle and self.network.engine.name != "reference"
        skip = skips and now.previous is not None and self.masking != "none"
        self.network.lay_out(self._frozen(), now.protected[1:] if skip else None)

    def _validate(self, task: Task) -> float:
        return accuracy(
            lambda batch: mask_logits(self.network(batch), task.classes, self.masking), task.validation
        )

    def _phase_event(self, task: Task, now: Progress, a: float, found: Event) -> Event:
        fed = inputs_from(self.wiring.connections[-1], now.protected[-2])
        return {
            "event": "phase",
            "task": now.task,
            "name": task.name,
            "phase": now.phase,
            "tau": now.tau,
            "validation_accuracy": a,
            "best": now.best,
            "protected": [int(now.protected[g].sum()) for g in self.wiring.hidden],
            "units": [len(now.protected[g]) for g in self.wiring.hidden],
            "outputs_without_input": [c for c in task.classes if not fed[c]],
            "seconds": now.seconds + time.monotonic() - now.started,
            **found,
        }

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        return self.network(x)

    def state(self) -> State:
        data = {"network": network_data(self.network), "tasks": [asdict(r) for r in self.tasks]}
        if (now := self.progress) is None:
            return State(network_tensors(self.network), {**data, "progress": None})
        plain = {name: getattr(now, name) for name in (field.name for field in fields(Place))}
        tensors = {
            **network_tensors(self.network),
            **pack_groups(now.protected, "protected."),
            **pack_groups(now.protected_before or [], "protected_before."),
            **pack_parts(now.previous or [], "previous."),
        }
        return State(tensors, {**data, "progress": plain})

    def load_state(self, state: State) -> None:
        network = build_network(state.tensors, state.data["network"]).to(self.network.device)
        tasks = records(state.data["tasks"], network.classes)
        progress = None
        if state.data["progress"] is not None:
            place = plain_as(Place, state.data["progress"], "progress")
            groups, tensors, later = network.wiring.groups, state.tensors, place.phase > 1
            progress = Progress(
                protected=unpack_groups(tensors, groups, "protected."),
                protected_before=unpack_groups(tensors, groups, "protected_before.") if later else None,
                previous=unpack_parts(tensors, network.shape, "previous.") if later else None,
                **asdict(place),
            )
            if progress.task != len(tasks):
                raise NispaError(f"task {progress.task} is half learned after {len(tasks)}; damaged")
        self.network, self.tasks, self.progress = network, tasks, progress
        self.network.lay_out(self._frozen())

    def _check_options(self) -> None:
        for option, value, known in (
            ("growth", self.growth, GROWTHS),
            ("selection", self.selection, SELECTIONS),
            ("masking", self.masking, MASKINGS),
            ("keep_epoch", self.keep_epoch, ("best", "last")),
        ):
            if value not in known:
                hint = nearest(str(value), known)
                raise NispaError(f"unknown {option} {value!r}{hint}; choose from {', '.join(known)}")
        if self.phase_epochs < 1:
            raise NispaError(f"phase_epochs is {self.phase_epochs}; want 1 or more")
        if self.min_phases < 2:
            raise NispaError(f"min_phases is {self.min_phases}; want 2 or more (S[0] does not exist)")
        if not self.accuracy_loss >= 0:
            raise NispaError(f"accuracy_loss is {self.accuracy_loss} percentage points; want 0 or more")
