"""What the terminal shows of one run: progress that lives on one line, and the results."""

import sys
from typing import Any

import pytest

from nispa.cli.show import Progress, show_results

EVENTS: list[dict[str, Any]] = [
    {"event": "begin", "task": 1, "name": "cats and dogs", "tasks": 5},
    {"event": "epoch", "task": 1, "phase": 3, "epoch": 0, "validation_accuracy": 0.875},
    {"event": "phase", "task": 1, "tau": 0.905, "protected": [210, 35], "outputs_without_input": [3]},
]
TASK = {
    "event": "task",
    "task": 1,
    "name": "cats and dogs",
    "phases": 12,
    "validation_accuracy": 0.9,
    "final_tau": 0.75,
    "stable_units": [180, 22],
}


def test_progress_tells_phase_accuracy_tau_and_units_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    progress, said = Progress(), []
    for event in EVENTS:
        progress(event)
        said.append(capsys.readouterr().out)
    assert all(text.startswith("\r") for text in said), "each overwrites the line before"
    assert "task 2/5" in said[0]
    assert "cats and dogs" in said[0]
    assert "phase 3, epoch 1, validation 87.5%" in said[1]
    assert "tau 0.91, protected 210 35" in said[2]
    assert "outputs [3] have no input left" in said[2]


def test_a_learned_task_stays_as_a_line_also_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for event in (*EVENTS[:2], TASK):
        progress(event)
    assert capsys.readouterr().out == (
        "task 2/5 cats and dogs    12 phases, val  90.0%, tau 0.75, stable 180 22\n"
    )


def test_results_tell_what_was_kept_and_what_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    results: dict[str, Any] = {
        "method": "nispa",
        "seed": 0,
        "engine": "native",
        "accuracy": [[0.991, None], [0.991, 0.952]],
        "average_accuracy": 0.9715,
        "forgetting": 0.0,
        "logits_unchanged": [True, True],
        "tasks": [
            {"name": "a", "plastic_units": [9, 8], "free_connections": [90, 80, 7]},
            {"name": "b", "plastic_units": [5, 4], "free_connections": [55, 44, 3]},
        ],
        "density": {"after": [0.2, 0.1999, 0.198]},
        "parameters": {"live": 1000, "dense": 5000},
        "seconds": 1.5,
        "threads": 2,
    }
    show_results(results)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for line in (
        "after task 2 99.1 95.2",
        "average accuracy 97.15 %",
        "forgetting 0.00 %",
        "verified every task's logits are unchanged bit for bit",
        "layer 1 2 out",
        "density 0.200 0.200 0.198",
        "plastic units 5 4",
        "free connections 55 44 3",
        "parameters 1,000 live of 5,000",
    ):
        assert line in lines
    show_results({**results, "logits_unchanged": [False, True]})
    assert "logits changed for 1 of 2 tasks" in capsys.readouterr().out
