"""The paper's figures and tables, each run and drawn by ``nispa paper NAME``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nispa.errors import NispaError, nearest

if TYPE_CHECKING:
    from nispa.experiment.paper.grid import Experiment

EXPERIMENTS = {
    "activation": "how skewed activations are, and what removing the most active units costs",
    "stl": "NISPA between single-task learners with all and with a share of the connections",
    "baselines": "NISPA, CLNP, EWC, SI and MAS, with the table of deviations",
    "parameters": "learnable parameters and live FLOPs, and how CLNP's density falls",
    "density": "accuracy over the network's density",
    "similarity": "new stable units for a second task that is more or less like the first",
    "growth": "Random, Novel and Transfer growth on similar and on different tasks",
    "ablation": "re-initialisation and the schedule of tau",
    "schedule": "the schedules of tau",
    "cil": "class-incremental: NISPA-Replay, its rivals, and what goes beyond the paper",
    "sensitivity": "accuracy over e, a_f and k",
}
"""name -> one line for people; the module has the same name"""


def experiment(name: str) -> Experiment:
    """What an experiment runs and draws."""
    if name not in EXPERIMENTS:
        hint = nearest(name, EXPERIMENTS)
        raise NispaError(f"unknown experiment {name!r}{hint}; choose from {', '.join(EXPERIMENTS)}")
    found: Experiment = import_module(f"nispa.experiment.paper.{name}").EXPERIMENT
    return found
