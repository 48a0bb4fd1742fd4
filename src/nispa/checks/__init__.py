"""The invariants of NISPA, and what every method has to do, as functions that raise when one is broken.

They raise a `NispaError` of one line that says what is broken and where. ``check_wiring`` looks at a
network as it stands, ``check_learning`` watches a NISPA learner through a whole task, ``check_learner``
puts any method through everything that the contract in learner.py promises.

    >>> import nispa
    >>> nispa.checks.check_wiring(nispa.mlp(8, [6], classes=4, density=0.5).wiring)
    >>> nispa.checks.check_learner("stl")
"""

from nispa.checks.learning import check_learning, check_same
from nispa.checks.methods import LEARNER_CHECKS, check_learner
from nispa.checks.wiring import (
    check_frozen,
    check_growth,
    check_no_path,
    check_selection,
    check_wiring,
)

__all__ = [
    "LEARNER_CHECKS",
    "check_frozen",
    "check_growth",
    "check_learner",
    "check_learning",
    "check_no_path",
    "check_same",
    "check_selection",
    "check_wiring",
]
