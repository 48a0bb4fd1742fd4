"""Event files for TensorBoard, written by its own package: neither torch nor TensorFlow is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nispa import atomic
from nispa.experiment.collect import Found
from nispa.experiment.exporters import name_of, needed, points, settings, summary

SUFFIX = ".nispa"
"""Ends the names of our event files, so that an export can replace its own and nobody else's."""


def copy(runs: Sequence[Found], where: str) -> list[str]:
    """One folder per run under ``where``."""
    writing = needed("tensorboard.summary.writer.event_file_writer", "tensorboard")
    event_pb2 = needed("tensorboard.compat.proto.event_pb2", "tensorboard")
    summary_pb2 = needed("tensorboard.compat.proto.summary_pb2", "tensorboard")
    text = needed("tensorboard.plugins.text.summary_v2", "tensorboard")
    for run in runs:
        folder = atomic.make_folder(Path(where) / name_of(run))
        earlier = list(folder.glob(f"events.out.tfevents.*{SUFFIX}"))
        writer = writing.EventFileWriter(str(folder), filename_suffix=SUFFIX)
        step, when = 0, 0.0
        for point in points(run.path):
            step, when = point.step, point.time
            values = [summary_pb2.Summary.Value(tag=tag, simple_value=v) for tag, v in point.values.items()]
            about = summary_pb2.Summary(value=values)
            writer.add_event(event_pb2.Event(wall_time=when, step=step, summary=about))
        listed = "\n".join(f"    {name} = {json.dumps(value)}" for name, value in settings(run).items())
        about = text.text_pb("settings", listed)
        about.value.extend(
            summary_pb2.Summary.Value(tag=f"summary/{name}", simple_value=value)
            for name, value in summary(run).items()
        )
        writer.add_event(event_pb2.Event(wall_time=when, step=step, summary=about))
        writer.close()
        for path in earlier:
            path.unlink()
    return [f"{len(runs)} in {where}; look at them with: tensorboard --logdir {where}"]
