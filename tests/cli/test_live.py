"""The table of several runs: what it says, that it fits the window, and lines where there is no terminal."""

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from nispa.cli.live import Board
from nispa.experiment.many import Status

EVENTS: list[dict[str, Any]] = [
    {"event": "begin", "task": 0, "name": "first", "tasks": 3},
    {"event": "epoch", "task": 0, "phase": 1, "epoch": 0, "validation_accuracy": 0.5},
    {"event": "phase", "task": 0, "phase": 1, "tau": 0.97},
    {"event": "warning", "text": "careful"},
    {"event": "task", "task": 0, "phases": 2, "validation_accuracy": 0.75},
    {"event": "begin", "task": 1, "name": "second", "tasks": 3},
    {"event": "epoch", "task": 1, "phase": 4, "epoch": 0, "validation_accuracy": 0.875},
]


def log(folder: Path, events: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    return folder


def shown(board: Board, runs: list[Status], width: int = 80, height: int = 24) -> list[str]:
    text = io.StringIO()
    board.console = Console(file=text, width=width, height=height)
    board.console.print(board.table(runs))
    return text.getvalue().splitlines()


def test_the_table_says_where_every_run_stands(tmp_path: Path) -> None:
    running = Status(log(tmp_path / "digits-nispa-seed0", EVENTS), "running", started=0.0)
    end = {"event": "end", "average_accuracy": 0.9172}
    done = Status(log(tmp_path / "digits-nispa-seed1", [*EVENTS, end]), "complete", started=5.0, ended=70.0)
    failed = Status(log(tmp_path / "digits-nispa-seed2", []), "failed", "no space left")
    waiting = Status(log(tmp_path / "digits-nispa-seed3", []))
    lines = shown(Board(tmp_path, Console()), [running, done, failed, waiting], width=120)
    rows = {line.split()[0]: line for line in lines if "seed" in line}
    assert "1/3" in rows["digits-nispa-seed0"]
    assert "87.5%" in rows["digits-nispa-seed0"]
    assert " 4 " in rows["digits-nispa-seed0"]
    assert "learns task 2" in rows["digits-nispa-seed0"]
    assert "average 91.72%" in rows["digits-nispa-seed1"]
    assert "1:05" in rows["digits-nispa-seed1"]
    assert "failed: no space left" in rows["digits-nispa-seed2"]
    assert "waiting" in rows["digits-nispa-seed3"]
    assert "1 failed, 1 running, 1 complete, 1 waiting" in lines[0]


def test_many_runs_fit_a_small_window_failures_first(tmp_path: Path) -> None:
    runs = [
        Status(log(tmp_path / f"a-long-name-of-a-stream-nispa-replay-seed{i}", EVENTS)) for i in range(60)
    ]
    runs[59].state, runs[59].error = "failed", "a long explanation of what went wrong " * 5
    lines = shown(Board(tmp_path, Console()), runs)
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    first = next(line for line in lines if "a-long-name" in line)
    assert "failed" in first
    assert "and 43 more" in lines[-1]


def test_lines_come_once_and_follow_the_log(tmp_path: Path) -> None:
    run = Status(log(tmp_path / "one", EVENTS[:1]), "running", started=0.0)
    board = Board(tmp_path, Console())
    assert board.lines([run]) == ["one: started"]
    assert board.lines([run]) == []
    log(run.folder, EVENTS[1:])
    assert board.lines([run]) == ["one: task 1/3 learned, 2 phases, validation 75.0%"]
    with (run.folder / "events.jsonl").open("a") as file:
        file.write('{"event": "en')  # a line still being written
    assert board.lines([run]) == []
    with (run.folder / "events.jsonl").open("a") as file:
        file.write('d", "average_accuracy": 0.5}\n')
    run.state = "complete"
    assert board.lines([run]) == ["one: complete, average accuracy 50.00%"]
    assert board.standings[run.folder].warnings == ["careful"]


def test_a_log_cut_by_resuming_is_read_again(tmp_path: Path) -> None:
    run = Status(log(tmp_path / "one", EVENTS), "running", started=0.0)
    board = Board(tmp_path, Console())
    board.lines([run])
    (run.folder / "events.jsonl").write_text(json.dumps(EVENTS[0]) + "\n")
    board.read([run])
    standing = board.standings[run.folder]
    assert (standing.task, standing.learned, standing.phase) == (0, 0, 1)
