"""Continual learning in sparse networks: learns task after task, forgets nothing, computes live weights only.

Importing this package is cheap; torch is imported with the first name that needs it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nispa.errors import NispaError

if TYPE_CHECKING:
    from nispa import checks, methods
    from nispa.algorithm import NISPA
    from nispa.data import streams
    from nispa.data.task import Stream, Task
    from nispa.experiment.results import Results
    from nispa.files import load, save
    from nispa.learner import Learner
    from nispa.model import Model, new, open
    from nispa.network import Network, cnn, mlp

__all__ = [
    "NISPA",
    "Learner",
    "Model",
    "Network",
    "NispaError",
    "Results",
    "Stream",
    "Task",
    "__version__",
    "checks",
    "cnn",
    "load",
    "methods",
    "mlp",
    "new",
    "open",
    "save",
    "streams",
]
__version__ = "0.1.0"

# A thread that waits for another spins for a moment, then sleeps. GNU OpenMP by itself spins so long that
# beside other work two threads are twenty times slower than one. It reads this when torch is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

_HOME = {
    "NISPA": "nispa.algorithm",
    "Learner": "nispa.learner",
    "Model": "nispa.model",
    "Network": "nispa.network",
    "Results": "nispa.experiment.results",
    "Stream": "nispa.data.task",
    "Task": "nispa.data.task",
    "checks": "nispa",
    "cnn": "nispa.network",
    "load": "nispa.files",
    "methods": "nispa",
    "mlp": "nispa.network",
    "new": "nispa.model",
    "open": "nispa.model",
    "save": "nispa.files",
    "streams": "nispa.data",
}
_MODULES = ("checks", "methods", "streams")


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nispa' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"{home}.{name}") if name in _MODULES else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
