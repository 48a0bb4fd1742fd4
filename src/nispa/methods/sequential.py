"""What Finetune, EWC, SI, MAS and CLNP share: one network, trained on one task after the other."""

from __future__ import annotations

from torch import Tensor

from nispa.data.samples import Batch
from nispa.errors import NispaError, nearest
from nispa.learner import Learner
from nispa.methods.common import require
from nispa.network import Network
from nispa.training import MASKINGS, Optimization


class Sequential(Learner):
    """Holds the hyperparameters of training; what a method does with them is its own ``learn``."""

    def __init__(
        self,
        network: Network,
        how: Optimization,
        *,
        epochs: int,
        patience: int | None,
        masking: str,
        seed: int,
    ) -> None:
        super().__init__(network, seed)
        self.lr, self.batch_size, self.optimizer = how.lr, how.batch_size, how.optimizer
        self.momentum, self.weight_decay = how.momentum, how.weight_decay
        self.how, self.epochs, self.patience, self.masking = how, epochs, patience, masking
        require(epochs >= 1, "epochs", epochs, "1 or more")
        require(patience is None or patience >= 1, "patience", patience, "1 epoch or more, or none")
        if masking not in MASKINGS:
            hint = nearest(masking, MASKINGS)
            raise NispaError(f"unknown masking {masking!r}{hint}; choose from {', '.join(MASKINGS)}")

    def answer(self, x: Tensor | Batch, task: int) -> Tensor:
        return self.network(x)
