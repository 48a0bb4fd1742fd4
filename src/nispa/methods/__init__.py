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
    "stl-iso": (
        "nispa.methods.stl_iso",
        "STLIso",
        "one network of density d/T per task: the lower bound with as many connections in all",
    ),
    "joint": ("nispa.methods.joint", "Joint", "all tasks at once: the upper bound of one network for all"),
    "finetune": ("nispa.methods.finetune", "Finetune", "task after task, nothing done against forgetting"),
    "ewc": ("nispa.methods.ewc", "EWC", "elastic weight consolidation: Fisher information holds weights"),
    "si": ("nispa.methods.si", "SI", "synaptic intelligence: a weight's share in the training holds it"),
    "mas": ("nispa.methods.mas", "MAS", "memory aware synapses: the logits' sensitivity holds weights"),
    "clnp": ("nispa.methods.clnp", "CLNP", "neural pruning: L1, then freeze the active units"),
    "nispa-replay": (
        "nispa.methods.replay",
        "NISPAReplay",
        "the paper's class-incremental variant: a memory, the last layer never frozen",
    ),
    "nispa-replay+": (
        "nispa.methods.replay_plus",
        "NISPAReplayPlus",
        "NISPA-Replay that answers by its exemplars' statistics on stable units",
    ),
    "nispa-free": (
        "nispa.methods.free",
        "NISPAFree",
        "NISPA for classes without a memory: statistics of stable units tell tasks apart",
    ),
    "ni": ("nispa.methods.ni", "NI", "class-incremental: all classes at once, the upper bound"),
    "er": ("nispa.methods.er", "ER", "class-incremental: experience replay with a class-balanced memory"),
    "der": ("nispa.methods.der", "DER", "class-incremental: replays the logits that were stored"),
    "der++": ("nispa.methods.derpp", "DERPlusPlus", "class-incremental: DER and the labels"),
    "icarl": ("nispa.methods.icarl", "ICaRL", "class-incremental: nearest mean of exemplars, distillation"),
    "a-gem": ("nispa.methods.agem", "AGEM", "class-incremental: gradients projected by the memory's"),
}
"""name -> (module, class, one line for people)"""


def method_class(name: str) -> type[Learner]:
    """The class of a method."""
    if name not in METHODS:
        raise NispaError(f"unknown method {name!r}{nearest(name, METHODS)}; choose from {', '.join(METHODS)}")
    module, cls, _ = METHODS[name]
    found: type[Learner] = getattr(import_module(module), cls)
    return found
