"""CLNP, continual learning via neural pruning (Golkar, Kagan and Cho, 2019).

A task is trained with an L1 penalty, so that few units stay active. Then a threshold θ is raised in steps;
plastic units whose mean activation is not above θ are silenced, as long as validation accuracy stays
within ``margin`` points of the trained network's. Units that are left are *kept*: they become stable, their
connections from silenced units are dropped and the rest frozen. Silenced units start anew for the next task.

In the words of this project that is NISPA without phases and growth: stable units, ``drop``, freeze,
re-initialise. So earlier tasks are never forgotten, bit for bit, and the network gets sparser with every
task. A convolutional unit's activation is the sum of its map, as everywhere in the paper;
``unit_activation="mean"`` divides it by the map's size, so that one θ means the same for all layers.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=1)
    >>> learner = nispa.methods.method_class("clnp")(net, epochs=2, l1=1e-4, margin=5)
    >>> record = learner.learn(stream[0])
    >>> net.wiring.connections[1].density < 1
    True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from nispa.data.task import Task
from nispa.draws import REINIT, REWIRE, generator
from nispa.learner import Report, State, TaskRecord, silent
from nispa.methods.common import load_plain_state, plain_state, require, train_task
from nispa.methods.sequential import Sequential
from nispa.network import Network
from nispa.rewiring import drop
from nispa.training import EVALUATION_BATCH, Optimization, accuracy, mask_logits, task_loss
from nispa.wiring import Bits


class CLNP(Sequential):
    """l1              weight of Σ|θ| over all trainable weights and biases
    margin          m, in percentage points of validation accuracy
    threshold_step  by how much θ is raised at a time
    """

    name: ClassVar[str] = "clnp"
    forgets: ClassVar[bool] = False

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        l1: float = 1e-5,
        margin: float = 0.5,
        threshold_step: float = 0.02,
        unit_activation: Literal["sum", "mean"] = "sum",
        patience: int | None = None,
        masking: Literal["true", "zero", "none"] = "true",
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, how, epochs=epochs, patience=patience, masking=masking, seed=seed)
        require(l1 >= 0, "l1", l1, "0 or more")
        require(margin >= 0, "margin", margin, "percentage points, 0 or more")
        require(threshold_step > 0, "threshold_step", threshold_step, "a number above 0")
        self.l1, self.margin, self.threshold_step = l1, margin, threshold_step
        self.unit_activation = unit_activation

    def learn(
        self,
        task: Task,
        *,
        last: bool = False,
        report: Report = silent,
        checkpoint: Callable[[], None] | None = None,
    ) -> TaskRecord:
        self.admit(task)
        self.network.lay_out(self.network.wiring.stable[1:])
        return train_task(
            self,
            self.network,
            task,
            task_loss(task.classes, self.masking),
            self.how,
            epochs=self.epochs,
            patience=self.patience,
            report=report,
            adjust=self._shrink,
            after=lambda record, history: self._prune(task, record, report),
        )

    def _shrink(self) -> None:
        """The gradient of l1 · Σ|θ|."""
        for parameter in self.network.parameters():
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach().sign(), alpha=self.l1)

    def _prune(self, task: Task, record: TaskRecord, report: Report) -> None:
        network, wiring, number = self.network, self.network.wiring, len(self.tasks)
        before = [int(bits.sum()) for bits in wiring.stable]
        kept, threshold, record.validation_accuracy = self.choose(task)
        kept[-1][list(task.classes)] = True
        for g, bits in enumerate(kept):
            wiring.became[g][bits & ~wiring.stable[g]] = number
            wiring.stable[g] = bits
        drop(wiring, wiring.stable)
        for i in range(len(wiring.connections)):
            network.rewire(i, generator(self.seed, REWIRE, number))  # nothing is grown, so nothing is drawn
        network.reinitialize(generator(self.seed, REINIT, number), keep=wiring.stable[1:])
        network.lay_out(wiring.stable[1:])
        record.stable_units = [int(wiring.stable[g].sum()) for g in wiring.hidden]
        record.new_stable_units = [int(wiring.stable[g].sum()) - before[g] for g in wiring.hidden]
        record.plastic_units = [int((~wiring.stable[g]).sum()) for g in wiring.hidden]
        record.free_connections = wiring.free_connections()
        live, size = sum(c.live for c in wiring.connections), sum(c.mask.size for c in wiring.connections)
        report({"event": "pruned", "task": number, "threshold": threshold, "density": live / size})

    def choose(self, task: Task) -> tuple[list[Bits], float | None, float]:
        """The kept and stable units per group at the highest θ that validation allows; θ; the accuracy.

        θ runs through 0, step, 2 step, …; it is none if even silencing dead units costs too much.
        """
        network, wiring = self.network, self.network.wiring
        activations = self._mean_activations(task)
        stores = [layer.store.clone() for layer in network.sparse_layers]
        best = now = self._validate(task)
        chosen, chosen_threshold = [np.ones_like(bits) for bits in wiring.stable], None
        chosen[-1] = wiring.stable[-1].copy()
        silent_units, step = -1, 0
        while True:
            threshold = step * self.threshold_step
            kept = [bits.copy() for bits in wiring.stable]
            for g, activation in activations.items():
                kept[g] |= activation > threshold
            count = sum(int((~kept[g]).sum()) for g in wiring.hidden)
            if count > silent_units:  # otherwise the network is the one that was just measured
                silent_units = count
                self._silence(kept)
                a = self._validate(task)
                if best - a > self.margin / 100 + 1e-9:
                    break
                now = a
            chosen, chosen_threshold = kept, threshold
            higher = min(
                mean[kept[g] & ~wiring.stable[g]].min(initial=np.inf) for g, mean in activations.items()
            )
            if np.isinf(higher):
                break  # every plastic unit is silent, and accuracy is still good enough
            step = max(step + 1, int(np.ceil(higher / self.threshold_step)))
        with torch.no_grad():
            for layer, store in zip(network.sparse_layers, stores, strict=True):
                layer.store.copy_(store)
        return chosen, chosen_threshold, now

    def _mean_activations(self, task: Task) -> dict[int, NDArray[np.float64]]:
        """Per hidden group, every unit's activation on an average training sample."""
        network = self.network
        sums = network.engine.activation_sums(network, task.train.batches(EVALUATION_BATCH))
        maps = network.activations(task.train.batch(torch.tensor([0])))
        sizes = [m[0, 0].numel() if self.unit_activation == "mean" else 1 for m in maps]
        return {
            g: total / (len(task.train) * size)
            for g, total, size in zip(network.wiring.hidden, sums, sizes, strict=True)
        }

    def _silence(self, kept: list[Bits]) -> None:
        """Take the outgoing weights of units that are not kept to zero."""
        layers, wiring = self.network.sparse_layers, self.network.wiring
        with torch.no_grad():
            for g, layer in enumerate(layers):
                silent_columns = torch.from_numpy(~kept[g][wiring.connections[g].source_of])
                hit = silent_columns.to(layer.store.device)[layer.index.long()]
                layer.store[hit] = 0

    def _validate(self, task: Task) -> float:
        return accuracy(
            lambda batch: mask_logits(self.network(batch), task.classes, self.masking), task.validation
        )

    def state(self) -> State:
        return plain_state(self)

    def load_state(self, state: State) -> None:
        load_plain_state(self, state)
        self.network.lay_out(self.network.wiring.stable[1:])
