"""STL, the single-task learner: one fresh network per task (paper, section "Comparison with STL").

With NISPA's density it is the upper bound, since every task has all connections for itself.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("stl")(net, epochs=2)
    >>> len(learner.learn(stream[0]).classes)
    2
"""

from __future__ import annotations

from typing import ClassVar, Literal

from nispa.methods.single import SingleTask
from nispa.network import Network
from nispa.training import Optimization


class STL(SingleTask):
    """Learns every task in a network of its own; the best validation epoch counts."""

    name: ClassVar[str] = "stl"
    forgets: ClassVar[bool] = False

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, how, epochs, seed)

    def check(self) -> None:
        """There is nothing that it has to know beforehand."""
