"""``make bench-sparseprop``: P9, a training step of the paper's CNN beside SparseProp (ICML 2023).

SparseProp lives in an environment of its own, so its steps run in a process of their own, in turns with ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

import torch

from benchmarks.bench import TURN, cnn, live_step, pictures

TARGET = 5


class Worker:
    def __init__(self, python: str, threads: int) -> None:
        script = Path(__file__).with_name("sparseprop_worker.py")
        self.process = subprocess.Popen(
            [python, str(script), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def step(self, batch: int) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{batch}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:  # it prints its own choices too
            if line.startswith("ms "):
                return float(line.split()[1])
        raise SystemExit("the SparseProp process ended early")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="the interpreter that has sparseprop")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    worker, found = Worker(arguments.python, arguments.threads), {}
    for batch in (64, 128):
        step = live_step(cnn(), pictures(), batch, [0, 1])
        ours, theirs = [], []
        for turn in range(arguments.rounds + 1):
            for again in range(TURN):
                started = time.perf_counter()
                step()
                taken = 1000 * (time.perf_counter() - started)
                if turn and again:
                    ours.append(taken)
            for again in range(TURN):
                taken = worker.step(batch)
                if turn and again:
                    theirs.append(taken)
        a, b = statistics.median(ours), statistics.median(theirs)
        found[batch] = {"ratio": round(b / a, 2), "ours": round(a, 2), "sparseprop": round(b, 1)}
        print(f"    batch {batch}: {b / a:.1f}x  ours {a:.1f} ms  SparseProp {b:.0f} ms")
    worst = min(row["ratio"] for row in found.values())
    print(f"P9  {worst:.1f}x  target {TARGET}x  {'met' if worst >= TARGET else 'missed'}")
    out = Path("build/bench-sparseprop.json")
    out.write_text(
        json.dumps({"P9": {"ratio": worst, "target": TARGET, "unit": "ms", "batches": found}}, indent=1)
    )


if __name__ == "__main__":
    main()
