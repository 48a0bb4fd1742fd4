"""Every method by its name on the command line; modules are imported only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nispa.errors import NispaError, nearest

if TYPE_CHECKING:
    from nispa.learner import Learner

METHODS: dict[str, tuple[str, str, str]] = {
    "nispa": ("nispa.algorithm", "NISPA", "the paper's method: forgets nothing, fixed density"),
    "stl": ("nispa.methods.stl", "STL", "one fresh network of the same density per task: the upper bound"),
    "nispa-replay": (
        "nispa.methods.replay",
        "NISPAReplay",
        "the paper's class-incremental variant: a memory, the last layer never frozen",
    ),
}
"""name -> (module, class, one line for people)"""


def method_class(name: str) -> type[Learner]:
    """The class of a method."""
    if name not in METHODS:
        raise NispaError(f"unknown method {name!r}{nearest(name, METHODS)}; choose from {', '.join(METHODS)}")
    module, cls, _ = METHODS[name]
    found: type[Learner] = getattr(import_module(module), cls)
    return found
