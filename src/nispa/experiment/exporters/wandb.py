"""Runs for Weights & Biases, offline: folders that ``wandb sync`` sends when their owner wants it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from nispa import atomic
from nispa.experiment.collect import Found
from nispa.experiment.exporters import name_of, needed, points, settings, summary


def copy(runs: Sequence[Found], where: str) -> list[str]:
    """One offline run each under ``where``/wandb."""
    wandb = needed("wandb", "wandb")
    folder = atomic.make_folder(where)
    for run in runs:
        # The same run has the same id wherever it is exported, so a second sync replaces the first.
        number = hashlib.sha256(str(run.path.resolve()).encode()).hexdigest()[:12]
        earlier = list((folder / "wandb").glob(f"offline-run-*-{number}"))
        made = wandb.init(
            mode="offline",
            dir=str(folder),
            project=run.stream,
            name=name_of(run),
            group=run.method,
            id=number,
            config=settings(run),
            settings=wandb.Settings(console="off", silent=True, save_code=False, x_disable_stats=True),
        )
        step, values = 0, dict[str, float]()
        for point in points(run.path):
            if point.step != step and values:
                made.log(values, step=step)
                values = {}
            step, values = point.step, {**values, **point.values, "_timestamp": point.time}
        if values:
            made.log(values, step=step)
        made.summary.update(summary(run))
        made.finish(exit_code=0 if run.results is not None else 1)
        for path in earlier:
            if Path(made.dir).parent != path.resolve():
                shutil.rmtree(path, ignore_errors=True)
    return [f"{len(runs)} in {folder / 'wandb'}; send them with: wandb sync {folder / 'wandb'}/offline-run-*"]
