"""Classes as Gaussians over the activations of stable units: means, and one covariance for all.

Stable units answer the same for ever, bit for bit, so what was measured of them stays true. With class
means m_c and a shared covariance S the log-density of x is, but for a constant that is the same for all
classes, linear in x (linear discriminant analysis; its nearest mean is that of Mahalanobis' distance):

    log p(x | c) = x · S⁻¹ m_c - ½ m_c · S⁻¹ m_c
"""

from __future__ import annotations

import torch
from torch import Tensor

from nispa.data.samples import Batch
from nispa.network import Network


def unit_activations(network: Network, x: Tensor | Batch, inputs: bool = False) -> Tensor:
    """``[N, units]``: all hidden units, a filter by the mean of its map; with ``inputs`` these first."""
    groups = network.activations(x)
    if inputs:
        pixels = x if isinstance(x, Tensor) else x.tensor(network.device)
        groups = [pixels if network.shape.convolutions else pixels.flatten(1), *groups]
    means = [group.flatten(2).mean(2) if group.dim() == 4 else group for group in groups]
    return torch.cat(means, dim=1).double()


def discriminant(means: Tensor, covariance: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """Weights ``[units, classes]`` and offsets of log p(x | c), for S + shrinkage · mean variance · 1.

    >>> weights, offsets = discriminant(torch.eye(2).double(), torch.eye(2).double(), shrinkage=0.0)
    >>> (torch.tensor([[3.0, 1.0]]).double() @ weights + offsets).argmax(1).tolist()
    [0]
    """
    variance = covariance.diagonal().mean() if len(covariance) else covariance.new_ones(())
    ridge = (shrinkage * variance).clamp(min=1e-9) * torch.eye(len(covariance), dtype=covariance.dtype)
    weights = torch.linalg.solve(covariance + ridge, means.T)
    return weights, -0.5 * (means.T * weights).sum(0)
