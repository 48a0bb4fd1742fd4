"""The other side of every comparison: masked dense networks in plain PyTorch, as the authors have them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nispa.layers import SparseConv2d
from nispa.network import Network


class MaskedDense(nn.Module):
    """A dense twin of a sparse network: every weight is there, and multiplied by a float mask at each step.

    ``masked=False`` leaves the masks out: the plain dense network.
    """

    def __init__(self, network: Network, masked: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.pools: list[int] = []
        for i, layer in enumerate(network.sparse_layers):
            made: nn.Conv2d | nn.Linear
            if isinstance(layer, SparseConv2d):
                made = nn.Conv2d(layer.columns, layer.targets, layer.size, padding=layer.size // 2)
                self.pools.append(layer.pool)
            else:
                made = nn.Linear(layer.columns, layer.targets)
            mask = torch.from_numpy(network.wiring.connections[i].mask).float()
            mask = mask.view(*mask.shape, *([1] * len(layer.kernel))).expand_as(made.weight).contiguous()
            made.register_buffer("mask", mask if masked else None)
            self.layers.append(made)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            weight = layer.weight if layer.mask is None else layer.weight * layer.mask
            if isinstance(layer, nn.Conv2d):
                x = F.relu(F.conv2d(x, weight, layer.bias, padding=layer.padding))
                if self.pools[i] == 2:
                    x = F.max_pool2d(x, 2)
            else:
                x = F.linear(x.flatten(1), weight, layer.bias)
                x = F.relu(x) if i + 1 < len(self.layers) else x
        return x
