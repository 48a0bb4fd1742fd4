"""An independent, slow NISPA: dictionaries, loops and NumPy in double precision.

Written from the paper (Algorithm 1, sections 3.2 to 3.8, the appendix on dead units and on CNNs) and from
the list of draws in docs/algorithm.md; it shares no line with the package. A connection is an entry
``(target, column) -> weight`` of a dictionary, the weight a number or a 2D kernel.
"""

import math
from dataclasses import dataclass, field

import numpy as np

Key = tuple[int, int]
INIT, BATCHES, REWIRE, REINIT = 0, 1, 2, 3


def draw(seed, purpose, task=0, phase=0, epoch=0):
    return np.random.default_rng([seed, purpose, task, phase, epoch])


@dataclass
class SlowLayer:
    units: int
    sources: int
    area: int
    """Columns that one source unit owns: 1, or the positions of a map before a linear layer."""
    kernel: int = 0
    """0 for a linear layer."""
    pool: int = 1
    relu: bool = True
    target: int = 0
    weights: dict[Key, np.ndarray] = field(default_factory=dict)
    biases: list[float] = field(default_factory=list)

    @property
    def columns(self):
        return self.sources * self.area

    @property
    def shape(self):
        return (self.kernel, self.kernel) if self.kernel else ()

    @property
    def sigma(self):
        return np.float32(math.sqrt(2 / (self.columns * max(self.kernel, 1) ** 2)))

    def source(self, column):
        return column // self.area

    def initial(self, rng, count):
        return rng.standard_normal((count, *self.shape), dtype=np.float32) * self.sigma


@dataclass
class SlowTask:
    classes: list[int]
    train: np.ndarray
    train_labels: np.ndarray
    validation: np.ndarray
    validation_labels: np.ndarray


class SlowNISPA:
    def __init__(
        self,
        input_shape,
        convolutions,
        hidden,
        classes,
        density,
        *,
        seed=0,
        lr=0.01,
        batch_size=16,
        phase_epochs=2,
        accuracy_loss=1.0,
        tau_period=30,
        tau_schedule="cosine",
        growth="random",
        selection="paper",
        min_phases=2,
        reinitialize=True,
        optimizer="adam",
        momentum=0.0,
        weight_decay=0.0,
    ):
        self.seed, self.lr, self.batch_size, self.epochs = seed, lr, batch_size, phase_epochs
        self.a_f, self.k, self.linear = accuracy_loss / 100, tau_period, tau_schedule == "linear"
        self.growth, self.selection, self.min_phases = growth, selection, min_phases
        self.reinitialize, self.optimizer = reinitialize, optimizer
        self.momentum, self.weight_decay = momentum, weight_decay
        self.layers = []
        if convolutions:
            sources, height, width = input_shape
            for filters, kernel, pool in convolutions:
                self.layers.append(SlowLayer(filters, sources, 1, kernel, pool))
                sources, height, width = filters, height // pool, width // pool
            area = height * width
        else:
            sources, area = math.prod(input_shape), 1
        for units in [*hidden, classes]:
            self.layers.append(SlowLayer(units, sources, area))
            sources, area = units, 1
        self.layers[-1].relu = False
        # Section "Weight Initialization and Sparsification": every layer but a first convolution is pruned.
        rng = draw(seed, INIT)
        for i, layer in enumerate(self.layers):
            size = layer.units * layer.columns
            layer.target = size if i == 0 and convolutions else round(density * size)
            if layer.target < size:
                chosen = sorted(rng.choice(size, layer.target, replace=False, shuffle=False).tolist())
            else:
                chosen = list(range(size))
            for at, weight in zip(chosen, layer.initial(rng, layer.target), strict=True):
                layer.weights[at // layer.columns, at % layer.columns] = weight.astype(np.float64)
            layer.biases = [0.0] * layer.units
        # S: the inputs and nothing else. Group g holds the units of layer g - 1.
        groups = [self.layers[0].sources] + [layer.units for layer in self.layers]
        self.groups = groups
        self.stable = [set(range(groups[0]))] + [set() for _ in groups[1:]]
        self.tasks = 0
        self.log = []

    # The network ------------------------------------------------------------------------------------

    def forward(self, x):
        """Per layer: the columns it read, what it summed, and what came out, per unit."""
        x = np.asarray(x, dtype=np.float64)
        h = [x[:, c] for c in range(x.shape[1])]
        trace = []
        for layer in self.layers:
            if not layer.kernel:
                h = self.flatten(layer, h)
            total = [self.sum_up(layer, unit, h) for unit in range(layer.units)]
            out = [np.maximum(t, 0) if layer.relu else t for t in total]
            trace.append((h, total, out))
            h = [pooled(o) for o in out] if layer.pool == 2 else out
            trace[-1] += (h,)
        return trace

    @staticmethod
    def flatten(layer, h):
        return (
            [values for unit in h for values in unit.reshape(len(unit), -1).T]
            if layer.area > 1
            else [unit.reshape(len(unit)) for unit in h]
        )

    @staticmethod
    def sum_up(layer, unit, h):
        total = np.full(h[0].shape, layer.biases[unit], dtype=np.float64)
        for (target, column), weight in layer.weights.items():
            if target != unit:
                continue
            if layer.kernel:
                for a, b, moved in taps(h[column], layer.kernel):
                    total += weight[a, b] * moved
            else:
                total += weight * h[column]
        return total

    def gradients(self, x, labels, classes):
        """Mean cross-entropy over the task's outputs; gradients of all weights and biases."""
        trace = self.forward(x)
        n = len(labels)
        logits = np.stack([trace[-1][2][c] for c in classes], axis=1)
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        share[np.arange(n), [classes.index(y) for y in labels]] -= 1
        up = [np.zeros(n) for _ in range(self.layers[-1].units)]
        for position, c in enumerate(classes):
            up[c] = share[:, position] / n
        found = []
        for i in range(len(self.layers) - 1, -1, -1):
            layer, (h, total, out, _) = self.layers[i], trace[i]
            if layer.pool == 2:
                up = [unpooled(g, o) for g, o in zip(up, out, strict=True)]
            if layer.relu:
                up = [g * (t > 0) for g, t in zip(up, total, strict=True)]
            bias = [g.sum() for g in up]
            down = [np.zeros(column.shape) for column in h]
            weights = {}
            for (target, column), weight in layer.weights.items():
                if not layer.kernel:
                    weights[target, column] = float(up[target] @ h[column])
                    down[column] += up[target] * weight
                    continue
                inner = np.zeros((layer.kernel, layer.kernel))
                for a, b, moved in taps(h[column], layer.kernel):
                    inner[a, b] = (up[target] * moved).sum()
                    spread(down[column], up[target] * weight[a, b], a, b, layer.kernel)
                weights[target, column] = inner
            found.append((weights, bias))
            if i and not layer.kernel:
                below = trace[i - 1][3]
                down = [
                    np.stack(down[u * layer.area : (u + 1) * layer.area], axis=1).reshape(below[u].shape)
                    for u in range(layer.sources)
                ]
            up = down
        return found[::-1]

    def accuracy(self, x, labels, classes):
        out = self.forward(x)[-1][2]
        logits = np.stack([out[c] for c in classes], axis=1)
        return sum(classes[int(k)] == y for k, y in zip(logits.argmax(1), labels, strict=True)) / len(labels)

    def activation_sums(self, x):
        """Equation 1, after pooling: the sum of a map for a filter."""
        return [[float(unit.sum()) for unit in layer[3]] for layer in self.forward(x)[:-1]]

    # Training ---------------------------------------------------------------------------------------

    def train(self, task, phase):
        frozen = self.stable  # gradients and optimizer go by the units that were stable at the start
        moments: dict = {}
        step = 0
        accuracies, best, kept = [], None, 0
        for epoch in range(self.epochs):
            order = draw(self.seed, BATCHES, self.tasks, phase, epoch).permutation(len(task.train))
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                step += 1
                found = self.gradients(task.train[rows], task.train_labels[rows].tolist(), task.classes)
                for g, (layer, (weights, biases)) in enumerate(zip(self.layers, found, strict=True), 1):
                    for key, gradient in weights.items():
                        if key[0] not in frozen[g]:
                            layer.weights[key] = self.moved(
                                moments, (g, key), layer.weights[key], gradient, step
                            )
                    for unit, gradient in enumerate(biases):
                        if unit not in frozen[g]:
                            layer.biases[unit] = self.moved(
                                moments, (g, unit), layer.biases[unit], gradient, step
                            )
            accuracies.append(self.accuracy(task.validation, task.validation_labels.tolist(), task.classes))
            if accuracies[-1] >= max(accuracies):
                best, kept = self.copy(), epoch
        self.restore(best)
        return accuracies, accuracies[kept]

    def moved(self, moments, name, value, gradient, step):
        gradient = gradient + self.weight_decay * value
        if self.optimizer == "sgd":
            before = moments.get(name)
            velocity = gradient if before is None else self.momentum * before + gradient
            moments[name] = velocity
            return value - self.lr * velocity
        m, v = moments.get(name, (0.0, 0.0))
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        moments[name] = m, v
        return value - self.lr * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)

    def copy(self):
        return [(dict(layer.weights), list(layer.biases)) for layer in self.layers]

    def restore(self, copied):
        for layer, (weights, biases) in zip(self.layers, copied, strict=True):
            layer.weights, layer.biases = dict(weights), list(biases)

    # Selection and rewiring -------------------------------------------------------------------------

    def tau(self, phase):
        return 1 - 0.05 * phase if self.linear else 0.5 * (1 + math.cos(phase * math.pi / self.k))

    def select(self, sums, tau, classes):
        """S and S_c of every group, after degrading; the outputs of the task belong to it."""
        protected = [set(group) for group in self.stable]
        protected[-1] |= set(classes)
        for g, activation in enumerate(sums, 1):
            total = math.fsum(activation)
            plastic = [u for u in range(len(activation)) if u not in self.stable[g]]
            candidates: set[int] = set()
            if self.selection == "paper":
                have = math.fsum(activation[u] for u in self.stable[g])
                queue = sorted(plastic, key=lambda u: (-activation[u], u))
            else:
                have = 0.0
                queue = sorted(range(len(activation)), key=lambda u: (-activation[u], u))
            while have < tau * total and queue:
                unit = queue.pop(0)
                candidates.add(unit)
                have += activation[unit]
            protected[g] |= candidates
        self.chosen = [set(group) for group in protected]
        # "Dead Units", second rule: a candidate that no protected unit feeds is plastic again.
        for g, layer in enumerate(self.layers[:-1], 1):
            for unit in sorted(protected[g] - self.stable[g]):
                feeding = [s for (t, c) in layer.weights if t == unit for s in [layer.source(c)]]
                if not any(s in protected[g - 1] for s in feeding):
                    protected[g].discard(unit)
        return protected

    def rewire(self, protected, rng):
        dropped = 0
        for g, layer in enumerate(self.layers, 1):
            for target, column in list(layer.weights):
                if target in protected[g] and layer.source(column) not in protected[g - 1]:
                    del layer.weights[target, column]
                    dropped += 1
        shortfall, self.repaired = [], 0
        for g, layer in enumerate(self.layers, 1):
            existing = np.array(list(layer.weights.values()), dtype=np.float64)
            new = self.repair(g, layer, protected, rng)
            self.repaired += len(new)
            grown, missing = self.grow(g, layer, protected, rng, new)
            shortfall.append(missing)
            new = sorted(new + grown)
            if len(existing):
                weights = rng.standard_normal((len(new), *layer.shape)) * existing.std() + existing.mean()
            else:
                weights = layer.initial(rng, len(new))
            for key, weight in zip(new, weights, strict=True):
                layer.weights[key] = np.float64(np.float32(weight))
        return dropped, shortfall

    def repair(self, g, layer, protected, rng):
        """ "Dead Units", first rule: a plastic unit without outputs is connected to a random plastic unit."""
        targets = [u for u in range(layer.units) if u not in protected[g]]
        if g == 1 or not targets:
            return []
        alive = {layer.source(column) for _, column in layer.weights}
        dead = [u for u in range(layer.sources) if u not in protected[g - 1] and u not in alive]
        budget = max(layer.target - len(layer.weights), 0)
        dead = rng.permutation(np.array(dead, dtype=np.int64))[:budget]
        into = rng.integers(len(targets), size=len(dead))
        place = rng.integers(layer.area, size=len(dead))
        return [(targets[t], int(u) * layer.area + int(a)) for u, t, a in zip(dead, into, place, strict=True)]

    def grow(self, g, layer, protected, rng, repaired):
        live = set(layer.weights) | set(repaired)
        wanted = layer.target - len(live)
        targets = [u for u in range(layer.units) if u not in protected[g]]
        grown: list[Key] = []
        if wanted <= 0 or not targets:
            return grown, max(wanted, 0)
        free = [(t, c) for t in targets for c in range(layer.columns) if (t, c) not in live]
        type_1 = [slot for slot in free if layer.source(slot[1]) not in protected[g - 1]]
        type_2 = [slot for slot in free if layer.source(slot[1]) in protected[g - 1]]
        pools = {"random": [free], "novel": [type_1, type_2], "transfer": [type_2, type_1]}[self.growth]
        for pool in pools:
            count = min(wanted, len(pool))
            if count:
                picked = rng.choice(len(pool), count, replace=False, shuffle=False)
                grown += [pool[int(i)] for i in picked]
            wanted -= count
        return grown, wanted

    def reinit(self, rng):
        for g, layer in enumerate(self.layers, 1):
            anew = sorted(key for key in layer.weights if key[0] not in self.stable[g])
            for key, weight in zip(anew, layer.initial(rng, len(anew)), strict=True):
                layer.weights[key] = weight.astype(np.float64)
            for unit in range(layer.units):
                if unit not in self.stable[g]:
                    layer.biases[unit] = 0.0

    # Algorithm 1 ------------------------------------------------------------------------------------

    def learn(self, task):
        t = self.tasks
        best, p = 0.0, 1
        start = [set(group) for group in self.stable]
        start[-1] |= set(task.classes)
        cache_m, cache_s, epochs = {}, {0: start}, 0
        while True:
            accuracies, a = self.train(task, p)
            epochs += len(accuracies)
            cache_m[p] = self.copy()
            best = max(best, a)
            if p > self.min_phases and not best - self.a_f <= a + 1e-12:
                keep, tau = p - 1, self.tau(p - 2)
                break
            if self.tau(p) <= 0.05:
                keep, tau = p, self.tau(p - 1)
                break
            cache_s[p] = self.select(self.activation_sums(task.train), self.tau(p), task.classes)
            self.rewire(cache_s[p], draw(self.seed, REWIRE, t, p))
            p += 1
        self.restore(cache_m[keep])
        self.stable = [set(group) for group in cache_s[keep - 1]]
        if self.reinitialize:
            self.reinit(draw(self.seed, REINIT, t))
        self.tasks += 1
        self.log.append({"phases": p, "epochs": epochs, "final_tau": tau})
        return self.log[-1]


def taps(maps, kernel):
    """(row, column, input seen through that element of the kernel) with same padding."""
    half = kernel // 2
    height, width = maps.shape[1:]
    wide = np.zeros((len(maps), height + 2 * half, width + 2 * half))
    wide[:, half : half + height, half : half + width] = maps
    for a in range(kernel):
        for b in range(kernel):
            yield a, b, wide[:, a : a + height, b : b + width]


def spread(into, values, a, b, kernel):
    """The reverse of a tap: what an input gets back through one element of the kernel."""
    half = kernel // 2
    height, width = into.shape[1:]
    for y in range(height):
        for x in range(width):
            if 0 <= y + a - half < height and 0 <= x + b - half < width:
                into[:, y + a - half, x + b - half] += values[:, y, x]


def pooled(maps):
    height, width = maps.shape[1] // 2, maps.shape[2] // 2
    out = np.zeros((len(maps), height, width))
    for y in range(height):
        for x in range(width):
            out[:, y, x] = maps[:, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].reshape(len(maps), -1).max(axis=1)
    return out


def unpooled(gradient, maps):
    out = np.zeros(maps.shape)
    for y in range(gradient.shape[1]):
        for x in range(gradient.shape[2]):
            window = maps[:, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].reshape(len(maps), -1)
            first = window.argmax(axis=1)
            out[np.arange(len(maps)), 2 * y + first // 2, 2 * x + first % 2] = gradient[:, y, x]
    return out
