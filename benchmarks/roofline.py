"""``make roofline``: where each layer's kernels stand between the memory's and the multipliers' limits.

Writes docs/images/roofline.svg (needs matplotlib: the extra ``plots``) and prints the numbers behind it.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import torch

import nispa
from benchmarks.bench import Step, cnn, live_step, pictures
from nispa.layers import SparseConv2d
from nispa.network import Network

OUT = Path("docs/images/roofline.svg")


def points(name: str, network: Network, step: Step, batch: int) -> list[tuple[str, float, float]]:
    """(what, live FLOPs per byte, GFLOP/s). Bytes: inputs, outputs, weights and index, each moved once."""
    for _ in range(5):
        step()
    plan = network.engine.plan(network)  # type: ignore[attr-defined]
    rounds = []
    for _ in range(15):
        plan.clear_times()
        step()
        rounds.append(plan.times())
    found, side = [], list(network.shape.input[1:]) if network.shape.convolutions else []
    for i, layer in enumerate(network.sparse_layers):
        area, pixels = int(np.prod(layer.kernel)), int(np.prod(side)) if side else 1
        flops = 2.0 * layer.live * area * (pixels if isinstance(layer, SparseConv2d) else 1) * batch
        inputs = layer.columns * (pixels if isinstance(layer, SparseConv2d) else 1) * batch
        if isinstance(layer, SparseConv2d):
            side = [n // layer.pool for n in side]
        outputs = layer.targets * (int(np.prod(side)) if isinstance(layer, SparseConv2d) else 1) * batch
        moved = 4 * (inputs + outputs + layer.live * (area + 1))
        seconds = statistics.median(r[0][i] for r in rounds)
        found.append((f"{name} {i + 1} forward", flops / moved, flops / seconds / 1e9))
        if isinstance(layer, SparseConv2d):  # of linear layers all weight gradients are one parallel region
            passes = 2 if i else 1
            seconds = statistics.median(r[1][i] for r in rounds)
            found.append(
                (f"{name} {i + 1} gradients", passes * flops / (2 * moved), passes * flops / seconds / 1e9)
            )
    return found


def roofs() -> tuple[float, float]:
    """GFLOP/s of a large matrix product, GB/s of a sum over memory that fits no cache."""
    a, b, big = torch.randn(2048, 2048), torch.randn(2048, 2048), torch.randn(64_000_000)
    product, stream = [], []
    for _ in range(7):
        started = time.perf_counter()
        a @ b
        product.append(2 * 2048**3 / (time.perf_counter() - started) / 1e9)
        started = time.perf_counter()
        big.sum()
        stream.append(big.numel() * 4 / (time.perf_counter() - started) / 1e9)
    return statistics.median(product), statistics.median(stream)


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    torch.set_num_threads(2)
    network = cnn()
    found = points("conv/linear", network, live_step(network, pictures(), 64, [0, 1]), 64)
    mlp = nispa.mlp((1, 28, 28), [400, 400, 400], classes=57, density=0.2, engine="native")
    found += points("MLP", mlp, live_step(mlp, pictures(4096, 10, (1, 28, 28)), 512, list(range(10))), 512)
    gemm, memory = roofs()
    print(f"GEMM 2048: {gemm:.0f} GFLOP/s; memory: {memory:.0f} GB/s")
    figure, axes = pyplot.subplots(figsize=(7.5, 4.6))
    x = np.geomspace(0.3, 150, 200)
    axes.plot(x, np.minimum(x * memory, gemm), color="0.35", lw=1.2)
    axes.text(145, gemm * 1.03, f"PyTorch's GEMM, {gemm:.0f} GFLOP/s", ha="right", va="bottom", fontsize=8)
    axes.text(0.36, 0.36 * memory * 0.5, f"memory, {memory:.0f} GB/s", fontsize=8)
    styles = {"conv": ("o", "#0072b2"), "MLP": ("s", "#d55e00")}
    for what, intensity, rate in found:
        print(f"{what:24} {intensity:7.1f} FLOP/byte {rate:7.0f} GFLOP/s")
        marker, color = styles[what.split("/")[0].split()[0]]
        filled = "forward" in what
        axes.scatter(
            intensity, rate, marker=marker, s=30, color=color if filled else "none", edgecolor=color, zorder=3
        )
        label = what.split()[1] + ("" if filled else "'")
        place = (5, 3) if marker == "o" else (-4, -12)
        axes.annotate(
            label, (intensity, rate), xytext=place, textcoords="offset points", fontsize=8, color=color
        )
    axes.set(xscale="log", yscale="log", xlabel="live FLOPs per byte that must move", ylabel="live GFLOP/s")
    axes.set_title(
        "Two threads. Circles: the paper's CNN (1-4 convolutions, 5-6 linear), batch 64;\n"
        "squares: its MLP, batch 512. Filled: forward; open, with a prime: gradients.",
        fontsize=9, loc="left",
    )  # fmt: skip
    ticks = [10, 20, 50, 100, 200, 400]
    axes.set_yticks(ticks, [str(t) for t in ticks])
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT, metadata={"Date": None})
    print(f"written: {OUT}")


if __name__ == "__main__":
    main()
