"""One run in one folder: config, event log, checkpoints, results. Killed anywhere, it can be resumed.

    config.json                 the recipe, seed, engine, threads and data root; written first
    events.jsonl                one line per epoch, phase and task
    wiring.jsonl                the wiring after every phase (NISPA; wiring_log.py)
    checkpoint.nispa            the learner, after the last phase; the one before it beside it
    results.json, model.nispa   when the run is complete

A checkpoint knows how long the two logs were, so a resumed run leaves the logs that an uninterrupted one
would have left. Random draws have addresses (draws.py), so it also ends in the same bits.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nispa import atomic
from nispa.data.task import Stream
from nispa.errors import NispaError
from nispa.experiment.events import open_log
from nispa.experiment.folder import (
    CHECKPOINT,
    EVENTS,
    MODEL,
    PREVIOUS,
    RESULTS,
    Config,
    is_complete,
    locked,
    read_config,
    read_results,
)
from nispa.experiment.results import Results
from nispa.experiment.wiring_log import WiringLog, rewiring_learner
from nispa.learner import Bound, Event, Learner, Report, silent

WITH_PARENT = "--end-with-parent"


def build(config: Config) -> tuple[Stream, Learner]:
    """The stream and a new learner of a config."""
    stream = build_stream(config)
    return stream, build_learner(config, stream)


def build_stream(config: Config) -> Stream:
    from nispa.data import streams

    asked = config.recipe.stream
    return streams.build(asked.name, data=config.data, seed=config.seed, **asked.options)


def build_learner(config: Config, stream: Stream) -> Learner:
    """A new learner for the stream; bounds are shown it."""
    from nispa.methods import method_class
    from nispa.network import cnn, mlp

    recipe, network = config.recipe, config.recipe.network
    common: dict[str, Any] = {
        "classes": stream.classes,
        "density": network.density,
        "init": network.init,
        "engine": config.engine,
        "seed": config.seed,
    }
    if network.kind == "mlp":
        net = mlp(stream.input_shape, network.hidden, **common)
    else:
        shape: dict[str, Any] = {"kernel": network.kernel, "pool_after": network.pool_after}
        net = cnn(stream.input_shape, network.filters, network.hidden, **shape, **common)
    learner = method_class(recipe.method_name)(net, seed=config.seed, **recipe.hyperparameters)
    if isinstance(learner, Bound):
        learner.foresee(stream)
    return learner


def run(folder: Path, report: Report = silent) -> dict[str, Any]:
    """Start, resume, or (if it is complete) just read the run of a folder; returns its results."""
    with locked(folder):
        if is_complete(folder):
            return read_results(folder)
        try:
            for left in atomic.leftovers(folder):
                left.unlink()
            return _Run(folder, report).go()
        except OSError as error:
            raise NispaError(
                f"cannot write in {folder}: {error.strerror or error}; free some space"
            ) from None


class _Run:
    def __init__(self, folder: Path, report: Report) -> None:
        import torch

        self.folder, self.report = folder, report
        self.config = read_config(folder)
        if self.config.threads:
            torch.set_num_threads(self.config.threads)
        self.threads = torch.get_num_threads()
        self.stream, self.learner = build(self.config)
        self.results = Results(self.stream)
        self.digests: list[str] = []
        self.begun = 0
        self.before, self.started = 0.0, time.monotonic()
        length, wiring_length = self._restore()
        self.events = open_log(folder / EVENTS, length)
        self.rewiring = rewiring_learner(self.learner)
        self.wiring = WiringLog(folder, wiring_length) if self.rewiring is not None else None

    def go(self) -> dict[str, Any]:
        tasks = list(self.stream)
        for number, task in enumerate(tasks[len(self.learner.tasks) :], len(self.learner.tasks)):
            if number == self.begun:  # not if the log of a resumed run already says so
                self.begun += 1
                self._tell({"event": "begin", "task": number, "name": task.name, "tasks": len(tasks)})
            self.learner.learn(task, report=self._tell, checkpoint=self._checkpoint)
            self.results.add(self.learner)
            self.digests.append(self._digest(number))
            self._tell({"event": "tested", "task": number, "accuracy": self.results.accuracy[-1]})
            self._checkpoint()
        results = self._summary()
        from nispa.files import save

        save(self.learner, self.folder / MODEL)
        self._tell({"event": "end", "average_accuracy": results["average_accuracy"]})
        self.events.close()
        atomic.write(self.folder / RESULTS, json.dumps(results, indent=1))  # last: now the run is complete
        return results

    def _tell(self, event: Event) -> None:
        """Events are logged and shown; a crash may lose the last ones, a resumed run writes them again."""
        line = {**event, "time": round(time.time(), 3)}
        self.events.write((json.dumps(line) + "\n").encode())
        self.events.flush()
        self._record_wiring(event)
        self.report(event)

    def _record_wiring(self, event: Event) -> None:
        if self.wiring is None or self.rewiring is None:
            return
        kind, wiring, now = event["event"], self.rewiring.wiring, self.rewiring.progress
        if kind == "begin" and event["task"] == 0:
            self.wiring.record("start", 0, 0, wiring, wiring.stable)
        elif kind == "phase" and now is not None:
            self.wiring.record(kind, event["task"], event["phase"], wiring, now.protected)
        elif kind == "task":
            self.wiring.record(kind, event["task"], event["phases"], wiring, wiring.stable)

    def _checkpoint(self) -> None:
        from nispa.files import save

        self.events.flush()
        current, previous = self.folder / CHECKPOINT, self.folder / PREVIOUS
        if current.exists():
            os.replace(current, previous)
        save(
            self.learner,
            current,
            accuracy=self.results.accuracy,
            chance=self.results.chance,
            ahead=self.results.ahead,
            digests=self.digests,
            begun=self.begun,
            seconds=self._seconds(),
            events=self.events.tell(),
            wiring=self.wiring.tell() if self.wiring is not None else 0,
        )

    def _restore(self) -> tuple[int, int]:
        """Take up the newest readable checkpoint; the lengths of the logs that belong to it."""
        from nispa.files import read

        for name in (CHECKPOINT, PREVIOUS):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                state, metadata = read(path)
                self.learner.load_state(state)
                extra = metadata["extra"]
                self.results.accuracy, self.results.chance = extra["accuracy"], extra["chance"]
                self.results.ahead, self.digests = extra["ahead"], extra["digests"]
                self.before = float(extra["seconds"])
                self.begun, lengths = int(extra["begun"]), (int(extra["events"]), int(extra["wiring"]))
            except (NispaError, KeyError, TypeError, ValueError) as error:
                self.report({"event": "warning", "text": f"{error}; going back to the checkpoint before it"})
                self.stream, self.learner = build(self.config)
                self.results, self.digests, self.begun = Results(self.stream), [], 0
                continue
            self.report({"event": "resumed", "tasks": len(self.learner.tasks), "path": str(path)})
            return lengths
        return 0, 0

    def _seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def _digest(self, number: int) -> str:
        """A hash of the logits on a task's test set, bit for bit."""
        test = self.stream[number].test
        assert test is not None
        digest = hashlib.sha256()
        for batch in test.batches(512):
            digest.update(self.learner.logits(batch, number).cpu().numpy().tobytes())
        return digest.hexdigest()

    def _summary(self) -> dict[str, Any]:
        results, learner, network = self.results, self.learner, self.learner.network
        unchanged = [self._digest(i) == digest for i, digest in enumerate(self.digests)]
        records = learner.tasks
        return {
            "method": self.config.recipe.label,
            "stream": self.stream.name,
            "seed": self.config.seed,
            "engine": network.engine.name,
            "config": json.loads(self.config.to_json()),
            "accuracy": results.accuracy,
            "average_accuracy": results.average_accuracy,
            "forgetting": results.forgetting,
            "backward_transfer": results.backward_transfer,
            "forward_transfer": results.forward_transfer,
            "logits_unchanged": unchanged,
            "tasks": [vars(record) for record in records],
            "density": {
                "before": network.initial_density(),
                "after": [c.density for c in network.wiring.connections],
            },
            **network.cost(),
            "samples_trained": sum(record.samples for record in records),
            "train_seconds": sum(record.seconds for record in records),
            "seconds": self._seconds(),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "threads": self.threads,
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    import numpy
    import torch

    import nispa

    return {
        "nispa": nispa.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def main(argument: str, *options: str) -> None:
    """Entry of a worker process: run one folder, leave errors in one line on stderr."""
    if WITH_PARENT in options:
        threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        run(Path(argument))
    except NispaError as error:
        print(f"nispa: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def end_with_parent() -> None:
    """Wait for the end of standard input. A run can be cut off anywhere, so this is as good as kill -9."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
