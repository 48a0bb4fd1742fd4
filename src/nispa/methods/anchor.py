"""The quadratic penalty of EWC, SI and MAS: it holds every weight near where earlier tasks left it.

    penalty = lambda · Σ_tasks Σ_i Ω_i (θ_i − θ*_i)²

lambda multiplies the whole sum, as in the authors' code (whose values of lambda are in the recipes); the
lambda of Kirkpatrick et al. is twice ours. However many tasks there are, two sums are all that is kept:

    gradient = 2 lambda · (ΣΩ · θ − ΣΩθ*)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nispa.network import Network
from nispa.state import Tensors, take


class Anchor:
    """ΣΩ and ΣΩθ*, one tensor each per parameter of the network; empty before the first task."""

    def __init__(self) -> None:
        self.importance: list[Tensor] = []
        self.pull: list[Tensor] = []

    def add(self, importance: Sequence[Tensor], network: Network) -> None:
        """One more term, anchored at the present weights; those before it stay where they are."""
        self._fit(network)
        for i, (parameter, more) in enumerate(zip(network.parameters(), importance, strict=True)):
            self.importance[i] += more
            self.pull[i].addcmul_(more, parameter.detach())

    def importance_of(self, network: Network) -> list[Tensor]:
        """ΣΩ for the network as it is now; zeros before the first task."""
        self._fit(network)
        return self.importance

    def replace(self, importance: Sequence[Tensor], network: Network) -> None:
        """One single term, anchored at the present weights."""
        self.importance = [tensor.clone() for tensor in importance]
        self.pull = [
            tensor * parameter.detach()
            for tensor, parameter in zip(importance, network.parameters(), strict=True)
        ]

    def add_gradient(self, network: Network, strength: float) -> None:
        """Add the penalty's gradient to what ``backward`` left in the parameters."""
        if not self.importance or strength == 0:
            return
        self._fit(network)
        for i, parameter in enumerate(network.parameters()):
            if parameter.grad is not None:
                force = torch.addcmul(-self.pull[i], self.importance[i], parameter.detach())
                parameter.grad.add_(force, alpha=2 * strength)

    def _fit(self, network: Network) -> None:
        """Follow the network to its device, and outputs that were added to it: they are free at first."""
        parameters = list(network.parameters())
        for sums in (self.importance, self.pull):
            sums += [torch.zeros_like(parameter) for parameter in parameters[len(sums) :]]
            for i, parameter in enumerate(parameters):
                old = sums[i].to(parameter.device)
                if len(old) < len(parameter):
                    old = torch.cat([old, old.new_zeros(len(parameter) - len(old), *old.shape[1:])])
                sums[i] = old.detach()

    def tensors(self) -> Tensors:
        kept = {f"importance.{i}": tensor.clone() for i, tensor in enumerate(self.importance)}
        return kept | {f"pull.{i}": tensor.clone() for i, tensor in enumerate(self.pull)}

    def load(self, tensors: Tensors, network: Network) -> None:
        self.importance, self.pull = [], []
        if "importance.0" in tensors:
            shapes = [parameter.shape for parameter in network.parameters()]
            # outputs that were added since the last task have no importance yet
            last = len(shapes) - 2
            for name, sums in (("importance", self.importance), ("pull", self.pull)):
                for i, shape in enumerate(shapes):
                    whole = take(tensors, f"{name}.{i}")
                    smaller = i >= last and len(whole) <= shape[0]
                    sums.append(take(tensors, f"{name}.{i}", whole.shape if smaller else shape).clone())
