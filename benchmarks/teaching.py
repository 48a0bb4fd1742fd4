"""Teach one model file task after task, beside a fresh model for every task alone.

    python benchmarks/teaching.py emnist --tasks 10 --classes 4 --each 300 --like mlp
    python benchmarks/teaching.py permuted-digits --tasks 10

Prints, per task: test accuracy when learned, at the end (it cannot differ), and of a fresh model; whether the
logits kept every bit; and how often the likeliest task, of all at the end, was the right one. Data sets are
looked for as `nispa run` does it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import nispa
from nispa.model import Model

Part = tuple[np.ndarray, np.ndarray]


def permuted_digits(tasks: int) -> list[tuple[Part, Part]]:
    """Half of the digits' classes in turn, every task with an order of pixels of its own."""
    stream, found = nispa.streams.digits(seed=0), []
    train = [np.concatenate([t.train.inputs.numpy(), t.validation.inputs.numpy()]) for t in stream]
    labels = [np.concatenate([t.train.labels.numpy(), t.validation.labels.numpy()]) for t in stream]
    tests = [t.test for t in stream]
    x, y = np.concatenate(train).reshape(-1, 64), np.concatenate(labels)
    tx = np.concatenate([t.inputs.numpy() for t in tests if t]).reshape(-1, 64)
    ty = np.concatenate([t.labels.numpy() for t in tests if t])
    for task in range(tasks):
        order = np.random.default_rng(task).permutation(64)
        low = 5 * (task % 2)
        rows, test_rows = (y >= low) & (y < low + 5), (ty >= low) & (ty < low + 5)
        found.append(((x[rows][:, order], y[rows] - low), (tx[test_rows][:, order], ty[test_rows] - low)))
    return found


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
    if given.data == "permuted-digits":
        data = permuted_digits(given.tasks)
    else:
        data = known(given.data, given.tasks, given.classes, given.each)
    with tempfile.TemporaryDirectory() as folder:
        rows = teach(data, given.like, Path(folder), given.seed, not given.no_fresh)
    print("mean: " + ", ".join(f"{k} {np.mean([r[k] for r in rows]):.4f}" for k in rows[0]))
    if not given.no_fresh:
        print(f"worst below a fresh model: {max(r['alone'] - r['end'] for r in rows):.4f}")


if __name__ == "__main__":
    main()
