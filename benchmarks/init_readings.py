"""Which reading of "variance inversely proportional to each layer's width"? Measured on validation sets.

    python benchmarks/init_readings.py digits --seeds 0,1,2,3,4
    python benchmarks/init_readings.py ef-mnist --data DIR --seeds 0,1,2

Runs NISPA with the stream's recipe under every reading of docs/fidelity.md, row 12, and prints the mean
validation accuracy over tasks (mean and standard deviation over seeds), the mean number of phases, and
the share of hidden units that are still plastic at the end. No test sample is looked at.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from nispa.experiment import recipe
from nispa.experiment.folder import Config
from nispa.experiment.run import build
from nispa.network import INITS


def measure(stream_name: str, init: str, seed: int, data: str | None, settings: list[str]) -> list[float]:
    """Validation accuracy in percent, phases per task, plastic share at the end, seconds."""
    started = time.monotonic()
    found = recipe.find(stream_name, None, [f"network.init={init}", *settings])
    stream, learner = build(Config(found, seed, "auto", None, data))
    records = [learner.learn(task) for task in stream]
    wiring = learner.network.wiring
    plastic = np.mean([float((~wiring.stable[g]).mean()) for g in wiring.hidden])
    accuracy = np.mean([record.validation_accuracy or 0.0 for record in records])
    phases = np.mean([record.phases for record in records])
    return [100 * float(accuracy), float(phases), 100 * float(plastic), time.monotonic() - started]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stream")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--readings", default=",".join(INITS))
    parser.add_argument("--data")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    print(
        f"| init | validation accuracy, {len(seeds)} seeds | phases a task | plastic at the end | seconds |"
    )
    print("| --- | --- | --- | --- | --- |")
    for init in arguments.readings.split(","):
        runs = np.array(
            [measure(arguments.stream, init, s, arguments.data, arguments.settings) for s in seeds]
        )
        accuracy, phases, plastic, seconds = runs.mean(axis=0)
        deviation = runs[:, 0].std(ddof=1) if len(seeds) > 1 else 0.0
        print(
            f"| `{init}` | {accuracy:.2f} ± {deviation:.2f} % | {phases:.1f} | {plastic:.0f} % |"
            f" {seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
