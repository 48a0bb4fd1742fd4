"""NI, non-incremental: all classes at once, the upper bound of class-incremental methods (paper).

It is ``joint`` with the softmax over all outputs.

    >>> import nispa
    >>> stream = nispa.streams.digits()
    >>> net = nispa.mlp(stream.input_shape, [40, 40], classes=stream.classes, density=0.3)
    >>> learner = nispa.methods.method_class("ni")(net, epochs=1)
    >>> learner.foresee(stream)
    >>> [learner.learn(task).samples for task in stream]
    [1295, 0, 0, 0, 0]
"""

from typing import ClassVar

from nispa.methods.joint import AllAtOnce


class NI(AllAtOnce):
    """All classes at once, told apart by one softmax.

    patience  early stopping: so many epochs without a better validation accuracy end the training
    """

    name: ClassVar[str] = "ni"
    masking: str = "none"
