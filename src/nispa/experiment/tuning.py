"""``nispa tune``: hyperparameters by validation accuracy, with Optuna; test data is never touched.

    tune.json     what is tuned: the recipe, the seed, the number of trials; written first
    study.db      Optuna's study (SQLite), unless its storage is a URL
    best.toml     the recipe of the best trial, for ``nispa run``
    trials.csv    every finished trial

A trial learns the whole stream once and is judged by the mean validation accuracy over all tasks at its
end. Workers share nothing but the study, so there can be any number, on any machines that reach the URL. A
worker that dies leaves a trial that its heart no longer beats for; it does not count, and is run again.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nispa import atomic
from nispa.errors import NispaError
from nispa.experiment.folder import Config
from nispa.experiment.many import spawn
from nispa.experiment.recipe import Recipe, apply, validate
from nispa.experiment.run import WITH_PARENT, build_learner, build_stream, end_with_parent
from nispa.experiment.spaces import space
from nispa.experiment.toml import as_toml

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

TUNING, STUDY, BEST, TRIALS = "tune.json", "study.db", "best.toml", "trials.csv"
STORAGE = "NISPA_STORAGE"
"""The environment variable for the storage's URL: it may hold a password, so no file ever does."""
HEARTBEAT, GRACE = 5, 30


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how long."""

    config: Config
    """The recipe where the search starts; its own values are the first trial."""
    trials: int

    @property
    def method(self) -> str:
        return self.config.recipe.method_name

    @property
    def name(self) -> str:
        return f"tune-{self.config.name}"

    def to_json(self) -> str:
        plain = {"format": "nispa-tune", "version": 1, "trials": self.trials}
        return json.dumps({**plain, "config": json.loads(self.config.to_json())}, indent=1)


def prepare(folder: Path, tuning: Tuning) -> None:
    """Claim a folder; the same search may go on, for more trials too."""
    space(tuning.method)
    _optuna()
    path = atomic.make_folder(folder) / TUNING
    if path.exists():
        if read_tuning(folder).config != tuning.config:
            raise NispaError(f"{folder} holds another search (see {path}); choose another --out")
    elif any(folder.iterdir()):
        raise NispaError(f"{folder} is not empty and holds no search; choose another --out")
    atomic.write(path, tuning.to_json())


def is_tuning(folder: Path) -> bool:
    return (folder / TUNING).exists()


def read_tuning(folder: Path) -> Tuning:
    path = folder / TUNING
    try:
        plain = json.loads(path.read_text())
        inner = plain["config"]
        recipe = validate(inner["recipe"], str(path))
        config = Config(recipe, inner["seed"], inner["engine"], inner["threads"], inner["data"])
        return Tuning(config, int(plain["trials"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NispaError(f"{path} is not readable ({error})") from None


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise NispaError("nispa tune needs Optuna; install it with: pip install 'nispa[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(folder: Path) -> Study:
    """The folder's study, made if it is not there yet."""
    optuna = _optuna()
    url = os.environ.get(STORAGE)
    options = {} if url else {"connect_args": {"timeout": 60}}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls the heartbeat experimental, at length
            storage = optuna.storages.RDBStorage(
                url or f"sqlite:///{(folder / STUDY).resolve()}",
                engine_kwargs=options,
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
            )
        study: Study = optuna.create_study(
            storage=storage,
            study_name=read_tuning(folder).name if url else "nispa",
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
        )
    except Exception as error:  # SQLAlchemy's and every driver's own errors have no common class
        if isinstance(error, ModuleNotFoundError):
            raise NispaError(f"the storage needs the module {error.name!r}; install it with pip") from None
        said = str(error).strip().splitlines()
        raise NispaError(f"cannot open the study's storage: {said[0] if said else error!r}") from None
    return study


def tune(
    folder: Path, jobs: int, threads: int | None, watch: Callable[[list[FrozenTrial]], None]
) -> FrozenTrial:
    """Run the trials that are missing, ``jobs`` side by side, and write the best one's recipe."""
    tuning = read_tuning(folder)
    with _locked(folder / ".lock", f"{folder} is being tuned by another process; wait for it"):
        study = open_study(folder)
        _begin(study, tuning, alone=STORAGE not in os.environ)
        per_job = max(1, (threads or os.cpu_count() or 1) // jobs)
        workers = [_worker(folder, i, per_job) for i in range(jobs) if not _enough(study, tuning)]
        try:
            while any(worker.poll() is None for worker in workers):
                watch(study.get_trials(deepcopy=False))
                time.sleep(0.5)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        watch(study.get_trials(deepcopy=False))
        for i, worker in enumerate(workers):
            if worker.returncode != 0 and not _enough(study, tuning):
                lines = (folder / f"worker{i}.txt").read_text(errors="replace").strip().splitlines()
                said = lines[-1].removeprefix("nispa: ") if lines else f"exit code {worker.returncode}"
                raise NispaError(f"a worker ended early: {said} (see {folder / f'worker{i}.txt'})")
        for path in folder.glob("worker*.txt"):
            path.unlink()
        return _finish(folder, study, tuning)


def _begin(study: Study, tuning: Tuning, alone: bool) -> None:
    """The recipe's own values come first; trials that a dead process left behind come next."""
    from optuna.trial import TrialState

    if not study.get_trials(deepcopy=False):
        plain, known = tuning.config.recipe.model_dump(), {}
        for name, where in space(tuning.method).items():
            value = plain["network"][name.split(".")[1]] if "." in name else plain["method"][name]
            if value in where:
                known[name] = value
        study.enqueue_trial(known)
    if alone:  # in a shared storage others may be running; there the missing heartbeat tells
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params)


def _counted(study: Study) -> int:
    from optuna.trial import TrialState

    return len(
        study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING))
    )


def _enough(study: Study, tuning: Tuning) -> bool:
    return _counted(study) >= tuning.trials


def _worker(folder: Path, number: int, threads: int) -> subprocess.Popen[bytes]:
    module = ["nispa.experiment.tuning", str(folder), WITH_PARENT]
    return spawn(module, folder / f"worker{number}.txt", threads)


def work(folder: Path) -> None:
    """One worker: trial after trial, until there are enough."""
    optuna = _optuna()
    tuning, study = read_tuning(folder), open_study(folder)
    stream = build_stream(tuning.config)

    def objective(trial: Trial) -> float:
        gate.close()  # the trial is on record: the next worker may count
        config = Config(suggest(tuning, trial), tuning.config.seed, tuning.config.engine, None)
        started = time.monotonic()
        try:
            learner = build_learner(config, stream)
            value = 0.0
            for number, task in enumerate(stream):
                learner.learn(task)
                seen = [learner.accuracy(stream[j].validation, j) for j in range(number + 1)]
                value = sum(seen) / len(seen)
                trial.report(value, number)
                if trial.should_prune():
                    raise optuna.TrialPruned
        except NispaError as error:  # values that do not go together
            trial.set_user_attr("error", str(error))
            raise optuna.TrialPruned from None
        trial.set_user_attr("seconds", time.monotonic() - started)
        return value

    while True:
        gate = contextlib.ExitStack()
        gate.enter_context(_locked(folder / ".count", None))
        with gate:
            count = _counted(study)
            if count >= tuning.trials:
                return
            study.sampler = optuna.samplers.TPESampler(seed=tuning.config.seed * 100_003 + count)
            study.optimize(objective, n_trials=1)


def suggest(tuning: Tuning, trial: Trial) -> Recipe:
    """The recipe with this trial's values."""
    plain = tuning.config.recipe.model_dump()
    chosen = {name: where.suggest(trial, name) for name, where in space(tuning.method).items()}
    return validate(apply(plain, [f"{k}={json.dumps(v)}" for k, v in chosen.items()]), "trial")


def _finish(folder: Path, study: Study, tuning: Tuning) -> FrozenTrial:
    """best.toml and trials.csv."""
    from optuna.trial import FixedTrial, TrialState

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    names = list(space(tuning.method))
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["trial", "state", "validation_accuracy", *names])
    for trial in finished:
        value = "" if trial.value is None else repr(trial.value)
        table.writerow([trial.number, trial.state.name.lower(), value, *(trial.params.get(n) for n in names)])
    atomic.write(folder / TRIALS, text.getvalue())
    complete = [trial for trial in finished if trial.state == TrialState.COMPLETE]
    if not complete:
        raise NispaError(f"no trial in {folder} ended with an accuracy; see {folder / TRIALS}")
    best = max(complete, key=lambda trial: (trial.value, -trial.number))
    recipe = suggest(tuning, FixedTrial(best.params))  # type: ignore[arg-type]
    assert best.value is not None
    note = (
        f"nispa tune: trial {best.number}, the best of {len(finished)} by validation accuracy"
        f" ({100 * best.value:.2f} %, seed {tuning.config.seed})."
    )
    atomic.write(folder / BEST, as_toml(recipe.model_copy(update={"note": note})))
    return best


@contextlib.contextmanager
def _locked(path: Path, refusal: str | None) -> Iterator[None]:
    """Hold a file; if another does, wait, or refuse in one line. It goes with the process."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
        yield
    except BlockingIOError:
        raise NispaError(str(refusal)) from None
    finally:
        os.close(handle)


def main(argument: str, *options: str) -> None:
    if WITH_PARENT in options:
        threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        work(Path(argument))
    except NispaError as error:
        print(f"nispa: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None


if __name__ == "__main__":
    main(*sys.argv[1:])
