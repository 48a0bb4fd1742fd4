"""A run's event log: a line of JSON per event, cut when a run resumes, read while a run writes it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import IO

from nispa.errors import NispaError
from nispa.experiment.folder import EVENTS
from nispa.learner import Event


def open_log(path: Path, length: int) -> IO[bytes]:
    """The event log, cut to the length that belongs to the checkpoint; a log that lost lines goes on."""
    try:
        log = path.open("r+b" if path.exists() else "w+b")
        log.truncate(min(length, path.stat().st_size))
        log.seek(0, os.SEEK_END)
    except OSError as error:
        raise NispaError(f"cannot write {path}: {error.strerror or error}; free some space") from None
    return log


def read_events(folder: Path) -> list[Event]:
    """All whole lines of a run's event log."""
    return Log(folder).more()


class Log:
    """A run's event log, read on while the run writes it."""

    def __init__(self, folder: Path) -> None:
        self.path, self.position = folder / EVENTS, 0

    def more(self) -> list[Event]:
        """The whole lines written since the last call; from the start if a resumed run cut the log."""
        try:
            with self.path.open("rb") as log:
                if os.fstat(log.fileno()).st_size < self.position:
                    self.position = 0
                log.seek(self.position)
                text = log.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NispaError(f"cannot read {self.path}: {error.strerror or error}") from None
        whole = text[: text.rfind(b"\n") + 1]
        self.position += len(whole)
        events: list[Event] = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict) and isinstance(found.get("event"), str):
                    events.append(found)
        return events
