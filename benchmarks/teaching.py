"""Teach one model file task after task, beside a fresh model for every task alone.

    python benchmarks/teaching.py emnist --tasks 10 --classes 4 --each 300 --like mlp
    python benchmarks/teaching.py turned-digits --tasks 10 --like cnn-small

Prints, per task: test accuracy when learned, at the end (it cannot differ), and of a fresh model; whether the
logits kept every bit; and how often the likeliest task, of all at the end, was the right one. Data sets are
looked for as `nispa run` does it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nispa
from nispa.data.samples import Samples
from nispa.model import Model

Part = tuple[np.ndarray, np.ndarray]


def digits() -> tuple[Part, Part]:
    """All embedded digits as pictures [N, 1, 8, 8] of 0 to 255: (train, test)."""
    train, test = [], []
    for task in nispa.streams.digits(seed=0):
        assert task.test is not None
        train += [task.train, task.validation]
        test += [task.test]

    def joined(parts: list[Samples]) -> Part:
        values = np.concatenate([part.inputs.numpy().reshape(-1, 1, 8, 8) for part in parts])
        top = max(float(part.inputs.max()) for part in parts)
        return (values * (255 / top)).astype(np.uint8), np.concatenate([p.labels.numpy() for p in parts])

    return joined(train), joined(test)


def changed_digits(tasks: int, change: Callable[[int, np.ndarray], np.ndarray]) -> list[tuple[Part, Part]]:
    """Half of the digits' classes in turn, changed in a way of each task's own."""
    found = []
    for task in range(tasks):
        low, parts = 5 * (task % 2), []
        for x, y in digits():
            rows = (y >= low) & (y < low + 5)
            parts.append((np.ascontiguousarray(change(task, x[rows])), y[rows] - low))
        found.append((parts[0], parts[1]))
    return found


def permuted(task: int, x: np.ndarray) -> np.ndarray:
    """Every task with an order of pixels of its own: nothing that a task learns is of use to another."""
    order = np.random.default_rng(task).permutation(64)
    return x.reshape(-1, 64)[:, order].reshape(x.shape)


def turned(task: int, x: np.ndarray) -> np.ndarray:
    """Turned by a quarter, a half, three quarters; then mirrored as well."""
    kind = task // 2
    return np.rot90(x if kind < 4 else x[..., ::-1], kind % 4, axes=(2, 3))


def known(name: str, tasks: int, classes: int, each: int) -> list[tuple[Part, Part]]:
    """The classes of a data set in their order, in groups."""
    from nispa.data import catalog

    whole, found = catalog.load(name), []
    assert whole.test is not None
    for task in range(tasks):
        parts = []
        for part, count in ((whole.train, each), (whole.test, 200)):
            wanted = range(task * classes, (task + 1) * classes)
            rows = np.concatenate([np.flatnonzero(part.labels == c)[:count] for c in wanted])
            parts.append((np.asarray(part.images[rows]), part.labels[rows] - task * classes))
        found.append((parts[0], parts[1]))
    return found


def teach(
    data: list[tuple[Part, Part]], like: str, folder: Path, seed: int, fresh: bool
) -> list[dict[str, float]]:
    """One row of numbers a task."""
    shape = data[0][0][0].shape[1:]
    size = "x".join(map(str, shape)) if len(shape) == 3 and like.startswith("cnn") else int(np.prod(shape))
    flat = isinstance(size, int)
    outputs = sum(int(train[1].max()) + 1 for train, _ in data)

    def ready(part: Part) -> Part:
        return (part[0].reshape(len(part[0]), -1) if flat else part[0]), part[1]

    def new(name: str) -> Model:
        return nispa.new(folder / name, like=like, input=size, classes=outputs, seed=seed)

    model, rows, logits = new("all.nispa"), [], []
    for number, (train, test) in enumerate(data):
        started = time.monotonic()
        info = model.learn(ready(train), name=f"task{number}")
        row = {"learned": model.evaluate(ready(test), f"task{number}").accuracy, "phases": info.phases}
        row["seconds"] = time.monotonic() - started
        logits.append(model.predict(ready(test)[0], f"task{number}"))
        if fresh:
            alone = new(f"alone{number}.nispa")
            alone.learn(ready(train), name="alone")
            row["alone"] = alone.evaluate(ready(test), "alone").accuracy
        rows.append(row)
        print(f"task {number}: " + ", ".join(f"{k} {v:.3f}" for k, v in row.items()), info.units, flush=True)
    model = Model.open(model.path)
    for number, (_, test) in enumerate(data):
        result = model.evaluate(ready(test), f"task{number}")
        same = model.predict(ready(test)[0], f"task{number}") == logits[number]
        rows[number] |= {"end": result.accuracy, "same": float(same), "found": result.task_found}
    assert all(finding.kept for finding in model.verify())
    return rows


CHANGES = {"permuted-digits": permuted, "turned-digits": turned}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--classes", type=int, default=4, help="a task")
    parser.add_argument("--each", type=int, default=300, help="training samples of a class")
    parser.add_argument("--like", default="mlp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-fresh", action="store_true")
    given = parser.parse_args()
    if given.data in CHANGES:
        data = changed_digits(given.tasks, CHANGES[given.data])
    else:
        data = known(given.data, given.tasks, given.classes, given.each)
    with tempfile.TemporaryDirectory() as folder:
        rows = teach(data, given.like, Path(folder), given.seed, not given.no_fresh)
    print("mean: " + ", ".join(f"{k} {np.mean([r[k] for r in rows]):.4f}" for k in rows[0]))
    if not given.no_fresh:
        print(f"worst below a fresh model: {max(r['alone'] - r['end'] for r in rows):.4f}")


if __name__ == "__main__":
    main()
