"""The tutorial's commands and Python run as written, on pictures that the example draws."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nispa

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "draw_pictures.py", tmp_path / "examples")
    bin_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "NISPA_CACHE": str(tmp_path / "cache"),
    }
    said: dict[str, str] = {}
    for line in filter(None, "\n".join(blocks("sh")).splitlines()):
        done = subprocess.run(
            shlex.split(line), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        said[line] = done.stdout
        if "--json" not in line:
            assert max(map(len, done.stdout.splitlines()), default=0) <= 80, done.stdout
    inspected = next(text for line, text in said.items() if "--verify" in line)
    assert "verified: all 3 tasks are what they were when learned, bit for bit" in inspected
    evaluated = next(text for line, text in said.items() if "evaluate" in line)
    right = float(re.search(r"([\d.]+)% of \d+ samples right", evaluated)[1])  # type: ignore[index]
    assert right > 80, evaluated
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks("python"))],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "['pets', 'farm', 'garden']" in run.stdout
    model = nispa.open(tmp_path / "animals.nispa")
    assert all(finding.kept for finding in model.verify())
    if keep := os.environ.get("KEEP_TUTORIAL"):  # to look at what it made
        shutil.copytree(tmp_path, keep, dirs_exist_ok=True)
