"""The commands of a model file, as a user meets them: what they say in 80 columns, exit codes."""

from __future__ import annotations

import io
import json
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from model.material import blobs
from nispa.cli import main


def nispa(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command, in this process: importing torch anew each time takes longer than the work."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        with pytest.raises(SystemExit) as end:
            main([*map(str, arguments)])
    code = end.value.code
    return subprocess.CompletedProcess(
        [], code if isinstance(code, int) else 1, out.getvalue(), err.getvalue()
    )


def good(*arguments: object, cwd: Path) -> str:
    done = nispa(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines()), default=0) <= 80, done.stdout
    return done.stdout


def csv(path: Path, task: int, words: list[str]) -> Path:
    x, y = blobs(task)
    lines = [",".join([*(f"f{i}" for i in range(x.shape[1])), "class"])]
    lines += [",".join([*(f"{v:.5f}" for v in row), words[c]]) for row, c in zip(x, y, strict=True)]
    path.write_text("\n".join(lines))
    return path


def test_from_new_to_undo_with_tables(tmp_path: Path) -> None:
    good("new", "a.nispa", "--like", "mlp", "--input", 12, "--classes", 4, cwd=tmp_path)
    fruit = csv(tmp_path / "fruit.csv", 0, ["apple", "pear"])
    text = good("learn", "a.nispa", fruit.name, "--minutes", 0.01, cwd=tmp_path)
    assert "learned 'fruit': apple, pear" in text
    assert "verified: all 1 tasks" in text
    assert "bit for bit" in text
    tools = csv(tmp_path / "tools.csv", 1, ["hammer", "saw"])
    good("learn", "a.nispa", tools.name, "--name", "shed", "--minutes", 0.01, cwd=tmp_path)
    shown = good("inspect", "a.nispa", "--verify", "--html", "page.html", cwd=tmp_path)
    for words in ("fruit", "apple, pear", "shed", "free outputs       0/4", "answers alike bit for bit"):
        assert words in shown
    assert "<svg" in (tmp_path / "page.html").read_text()
    about = json.loads(good("inspect", "a.nispa", "--json", "--verify", cwd=tmp_path))
    assert all(found["kept"] for found in about["verify"])
    result = json.loads(good("evaluate", "a.nispa", tools.name, "--task", "shed", "--json", cwd=tmp_path))
    assert result["accuracy"] > 0.9
    assert "right" in good("evaluate", "a.nispa", tools.name, "--task", "shed", cwd=tmp_path)
    told = good("predict", "a.nispa", fruit.name, cwd=tmp_path)
    assert "apple" in told
    lines = nispa("predict", "a.nispa", fruit.name, "--task", "fruit", "--json", cwd=tmp_path).stdout
    assert json.loads(lines.splitlines()[0])["label"] == "apple"
    full = nispa("learn", "a.nispa", csv(tmp_path / "more.csv", 2, ["x", "y"]).name, cwd=tmp_path)
    assert full.returncode == 2
    assert "is full" in full.stderr
    asked = nispa("release", "a.nispa", "fruit", cwd=tmp_path)
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert "gave up fruit" in good("release", "a.nispa", "fruit", "--yes", "--keep-shared", cwd=tmp_path)
    assert "taken back: gave up fruit; tasks now: fruit, shed" in good("undo", "a.nispa", cwd=tmp_path)
    assert "outputs 4 -> 6" in good("grow", "a.nispa", cwd=tmp_path)


def test_pictures_of_any_size_in_folders(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, colour in (("red", (200, 30, 30)), ("blue", (30, 30, 200))):
        (tmp_path / "colours" / name).mkdir(parents=True)
        for i in range(12):
            size = int(rng.integers(10, 40)), int(rng.integers(10, 40))
            Image.new("RGB", size, colour).save(tmp_path / "colours" / name / f"{i}.png")
    good("new", "c.nispa", "--like", "cnn-small", "--input", "3x8x8", "--classes", 4, cwd=tmp_path)
    text = good("learn", "c.nispa", "colours", "--minutes", 0.05, cwd=tmp_path)
    assert "warning" in text  # a handful of validation samples
    told = good("predict", "c.nispa", "colours/red/0.png", "colours/blue/3.png", cwd=tmp_path)
    assert "red" in told.splitlines()[0]
    assert "blue" in told.splitlines()[1]
    again = nispa("learn", "c.nispa", "colours", cwd=tmp_path)
    assert again.returncode == 2
    assert "is learned and cannot change" in again.stderr
    wrong = nispa("predict", "c.nispa", "colours", cwd=tmp_path)
    assert wrong.returncode == 2
    assert wrong.stderr == "nispa: colours: not a file; give a picture\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["learn", "none.nispa", "x"], "none.nispa does not exist"),
        (["new", "a.nispa", "--like", "cnnn", "--input", "3x8x8"], "did you mean 'cnn'"),
        (["new", "a.nispa", "--input", "8x8"], "is no size"),
        (["new", "a.nispa", "--input", "3x8x8", "--density", "2"], "density is 2"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = nispa(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert words in done.stderr
