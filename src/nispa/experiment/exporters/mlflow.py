"""Runs for MLflow: into a SQLite file, or to a server by its URL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nispa.errors import NispaError
from nispa.experiment.collect import Found
from nispa.experiment.exporters import name_of, needed, points, settings, summary

FOLDER = "nispa.folder"
"""The tag by which an earlier export of the same run is found and replaced."""
METRICS, PARAMETERS = 900, 90
"""How many a call may hold (the server's limits are 1000 and 100)."""


def copy(runs: Sequence[Found], where: str) -> list[str]:
    """``where`` is a path (a SQLite file) or a URL."""
    mlflow = needed("mlflow", "mlflow")
    entities = needed("mlflow.entities", "mlflow")
    uri = where if "://" in where else f"sqlite:///{Path(where).resolve()}"
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        for run in runs:
            _copy(run, client, entities)
    except mlflow.exceptions.MlflowException as error:
        raise NispaError(f"MLflow at {uri}: {str(error).splitlines()[0]}") from None
    return [f"{len(runs)} in {uri}; look at them with: mlflow ui --backend-store-uri {uri}"]


def _copy(run: Found, client: Any, entities: Any) -> None:
    found = client.get_experiment_by_name(run.stream)
    experiment = client.create_experiment(run.stream) if found is None else found.experiment_id
    folder = str(run.path.resolve())
    earlier = client.search_runs([experiment], f"tags.`{FOLDER}` = '{folder}'")
    history = list(points(run.path))
    begun = round(1000 * history[0].time) if history else None
    made = client.create_run(experiment, begun, {FOLDER: folder}, name_of(run)).info.run_id
    listed = [entities.Param(name, json.dumps(value)[:5000]) for name, value in settings(run).items()]
    for i in range(0, len(listed), PARAMETERS):
        client.log_batch(made, params=listed[i : i + PARAMETERS])
    metrics = [
        entities.Metric(name, value, round(1000 * point.time), point.step)
        for point in history
        for name, value in point.values.items()
    ]
    ended = round(1000 * history[-1].time) if history else 0
    metrics += [entities.Metric(name, value, ended, 0) for name, value in summary(run).items()]
    for i in range(0, len(metrics), METRICS):
        client.log_batch(made, metrics=metrics[i : i + METRICS])
    client.set_terminated(made, "FINISHED" if run.results is not None else "KILLED", ended or None)
    for old in earlier:
        client.delete_run(old.info.run_id)
