"""Training steps of the paper's CNN with SparseProp's layers, in an environment that has SparseProp only.

Reads batch sizes, one a line, and answers each with the milliseconds of one training step.
"""

import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = sys.argv[1]

import torch
import torch.nn.functional as F
from sparseprop.utils import swap_modules_with_sparse
from torch import nn

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)


def sparse(layer: nn.Module, density: float) -> nn.Module:
    """Whole 2D kernels, or single weights, set to zero."""
    weight = layer.weight.data
    weight *= (
        (torch.rand(weight.shape[:2]) < density).float().view(*weight.shape[:2], *([1] * (weight.dim() - 2)))
    )
    return layer


def build(batch: int) -> nn.Module:
    network = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(),
        sparse(nn.Conv2d(64, 64, 3, padding=1), 0.1), nn.ReLU(), nn.MaxPool2d(2),
        sparse(nn.Conv2d(64, 128, 3, padding=1), 0.1), nn.ReLU(),
        sparse(nn.Conv2d(128, 128, 3, padding=1), 0.1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        sparse(nn.Linear(8192, 1024), 0.1), nn.ReLU(),
        sparse(nn.Linear(1024, 10), 0.1),
    )  # fmt: skip
    # Its own choice between its two variants, layer by layer, for this batch size; the first stays dense.
    return swap_modules_with_sparse(network, (batch, 3, 32, 32), inplace=True, skip_modules="0")


made = {}
for line in sys.stdin:
    batch = int(line)
    if batch not in made:
        network = build(batch)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.001)
        made[batch] = network, optimizer, torch.rand(batch, 3, 32, 32), torch.randint(0, 2, (batch,))
    network, optimizer, x, y = made[batch]
    started = time.perf_counter()
    optimizer.zero_grad()
    F.cross_entropy(network(x)[:, :2], y).backward()
    optimizer.step()
    print("ms", 1000 * (time.perf_counter() - started), flush=True)
