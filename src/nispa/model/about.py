"""What `nispa inspect` says, as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nispa.model.model import Model


def about(model: Model) -> dict[str, Any]:
    network, room = model.network, model.room()
    wiring = network.wiring
    return {
        "path": str(model.path),
        "bytes": model.path.stat().st_size if model.path.exists() else None,
        "inputs": {"kind": model.inputs.kind, "shape": model.inputs.shape},
        "network": {
            "convolutions": [list(c) for c in network.shape.convolutions],
            "hidden": list(network.shape.hidden),
            "outputs": network.classes,
            "density": [c.density for c in wiring.connections],
            **network.cost(),
        },
        "engine": network.engine.name,
        "last_change": model.last_change,
        "can_undo": model.can_undo,
        "tasks": [asdict(task) for task in model.tasks],
        "room": {**asdict(room), "fits": room.fits},
    }
