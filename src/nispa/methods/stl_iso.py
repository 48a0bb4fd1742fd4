"""STL-ISO: a single-task learner per task with its share of the connections (paper, "Comparison with STL").

All T networks together have as many connections as one NISPA network of density d: each has density d/T.
It is the lower bound: a network split into T equal parts that share nothing.

T is known in one of two ways: the runner shows the stream (``foresee``), or the caller says ``shares=5``.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("stl-iso")(net, epochs=2)
    >>> learner.foresee(stream)
    >>> learner.network.shape.density            # 0.3 for five tasks
    0.06
    >>> learner.learn(stream[0]).epochs
    2
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from nispa.data.task import Stream
from nispa.errors import NispaError
from nispa.learner import Bound
from nispa.methods.common import require
from nispa.methods.single import SingleTask
from nispa.network import Network
from nispa.training import Optimization


class STLIso(SingleTask, Bound):
    """Learns every task in a network of its own, of density d/T.

    shares  T, among how many tasks the connections are shared out; by default the stream's tasks
    """

    name: ClassVar[str] = "stl-iso"
    forgets: ClassVar[bool] = False

    def __init__(
        self,
        network: Network,
        *,
        lr: float = 0.01,
        batch_size: int = 64,
        epochs: int = 20,
        shares: int | None = None,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        how = Optimization(lr, batch_size, optimizer, momentum, weight_decay)
        super().__init__(network, how, epochs, seed)
        self.shares: int | None = None
        if shares is not None:
            self._share(shares)

    def foresee(self, stream: Stream) -> None:
        """A number that the caller gave goes before the stream's."""
        if self.shares is None:
            self._share(len(stream))

    def _share(self, shares: int) -> None:
        require(shares >= 1, "shares", shares, "1 or more")
        self.shares, old = shares, self.network
        shape = replace(old.shape, density=old.shape.density / shares)
        self.network = Network(shape, seed=old.seed, init=old.init, engine=old.engine_choice).to(old.device)

    def check(self) -> None:
        if self.shares is None:
            raise NispaError(
                "stl-iso shares the density among the stream's tasks: show it the stream,"
                " learner.foresee(stream), or say how many there are (shares=5)"
            )
