"""Run folders with results of one's own choosing, in the format that a run writes."""

import json
from pathlib import Path
from typing import Any

TASKS = {
    "ef-mnist": ["digits", "letters A-M", "letters N-Z", "lower-case letters", "fashion"],
    "digits": ["digits 0 and 1", "digits 2 and 3"],
}


def store(
    folder: Path,
    final: list[float] | None,
    seed: int = 0,
    stream: str = "digits",
    method: str = "nispa",
    **settings: Any,
) -> Path:
    """A complete run whose tasks keep their final accuracy (in percent); without, one that is half way."""
    recipe = {
        "stream": {"name": stream, "options": {}},
        "network": {"kind": "mlp", "hidden": [4], "density": 0.2},
        "method": {"name": method, **settings},
        "note": "",
    }
    config = {"format": "nispa-run", "version": 1, "recipe": recipe, "seed": seed, "engine": "reference"}
    config |= {"threads": 1, "data": None}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    events = [
        {"event": "begin", "task": 0, "name": "first", "tasks": 2},
        {"event": "epoch", "task": 0, "phase": 3, "epoch": 1, "validation_accuracy": 0.5},
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    if final is None:
        return folder
    values = [value / 100 for value in final]
    names = TASKS[stream][: len(final)]
    results = {
        "method": method,
        "stream": stream,
        "seed": seed,
        "engine": "reference",
        "config": config,
        "accuracy": [
            values[: i + 1] + [None] * (len(values) - i - 1)  # type: ignore[list-item]
            for i in range(len(values))
        ],
        "average_accuracy": sum(values) / len(values),
        "forgetting": 0.0,
        "backward_transfer": 0.0,
        "forward_transfer": None,
        "logits_unchanged": [True] * len(values),
        "tasks": [{"name": name, "phases": 4, "epochs": 20, "seconds": 1.0} for name in names],
        "parameters": {"live": 20, "dense": 100},
        "seconds": 10.0,
        "threads": 1,
    }
    (folder / "results.json").write_text(json.dumps(results))
    return folder
