"""``make bench``: how fast training in live connections is, beside masked dense PyTorch, in one run.

Every line compares two things measured alternately, round by round, after a warm-up, with the same
threads; medians. docs/performance.md says what P1 to P8 are and shows results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import nispa
from benchmarks.dense import MaskedDense
from nispa.data.samples import Samples
from nispa.draws import generator
from nispa.network import Network
from nispa.rewiring import drop, grow, repair
from nispa.training import Optimization, fit, make_optimizer, task_loss

TARGETS = {"P1": 9, "P2": 12, "P2b": 25, "P3": 4, "P4": 0.75, "P5": 3, "P6": 7, "P7": 3, "P8": 0.3}
Step = Callable[[], object]


TURN = 4
"""Steps in a row, as in training. The first finds the other side's data in the caches and is not counted."""


def alternate(steps: dict[str, Step], rounds: int, seconds: float, turn: int = TURN) -> dict[str, float]:
    """Median milliseconds of each step; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
        step()
    begun = time.perf_counter()
    while len(times[next(iter(steps))]) < rounds or time.perf_counter() - begun < seconds:
        for name, step in steps.items():
            for again in range(turn):
                started = time.perf_counter()
                step()
                if again or turn == 1:
                    times[name].append(1000 * (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in times.items()}


def live_step(network: Network, samples: Samples, batch: int, classes: list[int]) -> Step:
    """One training step of ours, gathering its batch from the uint8 data set."""
    optimizer = make_optimizer(network, Optimization(0.001, batch))
    loss, rng = task_loss(classes, "true"), np.random.default_rng(0)

    def step() -> None:
        rows = torch.from_numpy(rng.permutation(len(samples))[:batch])
        optimizer.zero_grad()
        loss(network(samples.batch(rows)), samples.labels[rows]).backward()
        optimizer.step()

    return step


def dense_step(
    network: Network, samples: Samples, batch: int, classes: list[int], best: bool = False
) -> Step:
    """One step of its masked dense twin: contiguous, default Adam; ``best``: PyTorch's fastest."""
    model = MaskedDense(network)
    x = samples.batch(torch.arange(batch)).tensor()
    if best:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=best or None)
    columns, labels = torch.tensor(classes), torch.searchsorted(torch.tensor(classes), samples.labels[:batch])

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x)[:, columns], labels).backward()
        optimizer.step()

    return step


def pictures(count: int = 1024, classes: int = 2, shape: tuple[int, ...] = (3, 32, 32)) -> Samples:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=draw)
    return Samples(inputs, torch.randint(0, classes, (count,), generator=draw))


def rewired(network: Network, frozen: float, candidates: float, idle: bool) -> Network:
    """After a drop and growth: so large random parts of every hidden layer frozen, and candidates."""
    wiring, rng = network.wiring, np.random.default_rng(1)
    protected = wiring.copy_stable()
    for g in wiring.hidden:
        units = rng.permutation(len(protected[g]))
        first, second = round(frozen * len(units)), round((frozen + candidates) * len(units))
        wiring.stable[g][units[:first]] = True
        protected[g][units[:second]] = True
    protected[-1][:2] = idle  # the outputs of the task
    drop(wiring, protected)
    for i in range(len(wiring.connections)):
        repair(wiring, i + 1, protected, rng)
        grow(wiring, i + 1, protected, rng)
        network.rewire(i, rng)
    network.lay_out(wiring.copy_stable()[1:], protected[1:] if idle else None)
    return network


def cnn() -> Network:
    return nispa.cnn((3, 32, 32), classes=10, density=0.1, engine="native")


class Bench:
    def __init__(self, threads: int, rounds: int) -> None:
        self.threads, self.rounds = threads, rounds
        self.found: dict[str, Any] = {}
        torch.set_num_threads(threads)

    def note(self, name: str, ours: float, dense: float, unit: str, text: str, **more: Any) -> None:
        ratio = dense / ours if unit in ("ms", "MB") else ours
        target = TARGETS[name]
        met = ratio <= target if name == "P8" else ratio >= target
        self.found[name] = {
            "ratio": round(ratio, 3), "ours": round(ours, 4), "dense": round(dense, 4), "target": target,
            "unit": unit, "met": met, **more,
        }  # fmt: skip
        print(
            text.format(ratio=ratio, ours=ours, dense=dense) + f"  {'met' if met else 'missed'}", flush=True
        )

    def compare(self, name: str, network: Network, batches: tuple[int, ...], samples: Samples) -> None:
        """One training step, ours and dense; the worst of the batch sizes counts."""
        classes = sorted(set(samples.labels.tolist()))
        rows = []
        for batch in batches:
            steps = {
                "ours": live_step(network, samples, batch, classes),
                "dense": dense_step(network, samples, batch, classes),
                "best dense": dense_step(network, samples, batch, classes, best=True),
            }
            times = alternate(steps, self.rounds, 3)
            rows.append((times["dense"] / times["ours"], batch, times))
            if len(batches) > 1:
                print(f"    batch {batch}: {times['dense'] / times['ours']:.1f}x")
        _, batch, times = min(rows)
        self.note(
            name, times["ours"], times["dense"], "ms",
            f"{name:3} {{ratio:.1f}}x  ours {{ours:.2f}} ms  dense {{dense:.1f}} ms  target {TARGETS[name]}x"
            f"  (batch {batch}; best dense {times['best dense']:.1f} ms,"
            f" {times['best dense'] / times['ours']:.1f}x)",
            best_dense=round(times["best dense"], 3), batch=batch,
            batches={b: round(r, 2) for r, b, _ in rows},
        )  # fmt: skip

    def p1(self) -> None:
        self.compare("P1", cnn(), (64, 128), pictures())

    def p2(self) -> None:
        self.compare("P2", rewired(cnn(), 0.5, 0, idle=False), (64, 128), pictures())

    def p2b(self) -> None:
        self.compare("P2b", rewired(cnn(), 0.25, 0.25, idle=True), (64, 128), pictures())

    def p3(self) -> None:
        network = nispa.mlp((1, 28, 28), [400, 400, 400], classes=57, density=0.2, engine="native")
        self.compare("P3", network, (512,), pictures(4096, 10, (1, 28, 28)))

    def p4(self) -> None:
        """The convolutions' share of the machine's GEMM rate."""
        network, samples = cnn(), pictures()
        step = live_step(network, samples, 64, [0, 1])
        a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
        plan = network.engine.plan(network)  # type: ignore[attr-defined]
        forward: list[list[float]] = []
        backward: list[list[float]] = []
        gemm: list[float] = []
        for _ in range(3):
            step()
            a @ b
        for _ in range(2 * self.rounds):
            plan.clear_times()
            step()
            one = plan.times()
            forward.append(one[0])
            backward.append(one[1])
            started = time.perf_counter()
            a @ b
            gemm.append(time.perf_counter() - started)
        rate = 2 * 2048**3 / statistics.median(gemm)
        side, work, seconds = 32, 0.0, 0.0
        print(f"    GEMM 2048: {rate / 1e9:.0f} GFLOP/s")
        shares = []
        for i in range(4):
            layer = network.sparse_layers[i]
            flops = 2.0 * layer.live * 9 * side * side * 64
            there = statistics.median(t[i] for t in forward)
            back = statistics.median(t[i] for t in backward)
            times = (2 if i else 1) * flops
            shares.append((flops / there / rate, times / back / rate))
            print(
                f"    convolution {i + 1}: forward {1000 * there:.2f} ms, {flops / there / rate:.2f} of GEMM;"
                f" gradients {1000 * back:.2f} ms, {times / back / rate:.2f} of GEMM"
            )
            work, seconds = work + flops + times, seconds + there + back
            side //= layer.pool
        share = work / seconds / rate
        self.note(
            "P4", share, 1.0, "share", f"P4  {share:.2f} of GEMM  target {TARGETS['P4']}",
            gemm_gflops=round(rate / 1e9, 1), layers=[[round(x, 3) for x in pair] for pair in shares],
        )  # fmt: skip

    def p5(self) -> None:
        network, samples = cnn(), pictures()
        model, x = MaskedDense(network, masked=False), pictures().batch(torch.arange(1)).tensor()
        one = samples.batch(torch.arange(1))
        with torch.no_grad():
            steps: dict[str, Step] = {"ours": lambda: network(one), "dense": lambda: model(x)}
            times = alternate(steps, 20 * self.rounds, 2)
        self.note(
            "P5", times["ours"], times["dense"], "ms",
            "P5  {ratio:.1f}x  ours {ours:.3f} ms  dense {dense:.2f} ms  target 3x  (one picture)",
        )  # fmt: skip

    def p6(self) -> None:
        """An epoch with its data: a DataLoader over tensors and masked dense, against fit."""
        from torch.utils.data import DataLoader, TensorDataset

        samples = pictures(21600, 10, (1, 28, 28))
        network = nispa.mlp((1, 28, 28), [400, 400, 400], classes=57, density=0.2, engine="native")
        model, how = MaskedDense(network), Optimization(0.01, 512)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        tensors = TensorDataset(samples.batch(torch.arange(len(samples))).tensor(), samples.labels)
        columns = torch.arange(10)

        def dense() -> None:
            for x, y in DataLoader(tensors, batch_size=512, shuffle=True):
                optimizer.zero_grad()
                F.cross_entropy(model(x)[:, columns], y).backward()
                optimizer.step()

        def ours() -> None:
            fit(
                network, samples, task_loss(range(10), "true"), how, epochs=1, draws=lambda e: generator(0, 1)
            )

        times = alternate({"ours": ours, "dense": dense}, max(3, self.rounds // 3), 3, turn=1)
        self.note(
            "P6", times["ours"], times["dense"], "ms",
            "P6  {ratio:.1f}x  ours {ours:.0f} ms  dense {dense:.0f} ms  target 7x  (epoch of 21,600)",
            images_per_second=round(1000 * len(samples) / times["ours"]),
        )  # fmt: skip

    def p7(self) -> None:
        """Peak memory of training, each side in a process of its own."""
        ours, dense = (memory(side, self.threads) for side in ("ours", "dense"))
        self.note(
            "P7", ours, dense, "MB", "P7  {ratio:.1f}x  ours {ours:.0f} MB  dense {dense:.0f} MB  target 3x"
        )

    def p8(self) -> None:
        command = [str(Path(sys.executable).parent / "nispa"), "--help"]
        taken = []
        for _ in range(self.rounds):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            taken.append(time.perf_counter() - started)
        self.note("P8", statistics.median(taken), 0.0, "s", "P8  {ours:.2f} s  nispa --help  target 0.3 s")


MEMORY = """
import sys, torch
from benchmarks.bench import cnn, dense_step, live_step, pictures

def kilobytes(name):  # VmRSS: now; VmHWM: the peak since it was reset
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

torch.set_num_threads(int(sys.argv[2]))
samples, small = pictures(), pictures(8, shape=(3, 8, 8))
import nispa
warm = nispa.cnn((3, 8, 8), [4], [4], classes=2, density=0.5, pool_after=[], engine="native")
for step in (live_step(warm, small, 8, [0, 1]), dense_step(warm, small, 8, [0, 1])):
    step()  # what either side imports and sets up
before = kilobytes("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
step = (live_step if sys.argv[1] == "ours" else dense_step)(cnn(), samples, 64, [0, 1])
for _ in range(5):
    step()
print((kilobytes("VmHWM") - before) / 1024)
"""


def memory(side: str, threads: int) -> float:
    command = [sys.executable, "-c", MEMORY, side, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="for example P1,P3")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    arguments = parser.parse_args()
    from nispa.engine import _native

    bench = Bench(arguments.threads, arguments.rounds)
    print(f"{arguments.threads} threads, {_native.isa()}, torch {torch.__version__}")
    for name in TARGETS:
        if not arguments.only or name in arguments.only.split(","):
            getattr(bench, name.lower())()
    about = {"threads": arguments.threads, "isa": _native.isa(), "torch": torch.__version__}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=arguments.out.parent, delete=False) as file:
        json.dump({**bench.found, "about": about}, file, indent=1)
    os.replace(file.name, arguments.out)
    print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
