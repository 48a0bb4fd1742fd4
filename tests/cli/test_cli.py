"""The command as a user meets it: a process, its output, its exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = "network.hidden=[20,20] network.density=0.4 phase_epochs=1 tau_period=5 accuracy_loss=20".split()


def nispa(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nispa", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def settings() -> list[str]:
    return [part for setting in SMALL for part in ("--set", setting)]


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; sys.argv = ['nispa', '--help']\nfrom nispa.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout


def test_run_shows_and_writes_results_and_resume_finds_it_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = nispa("run", "digits", "--out", out, "--engine", "reference", "--threads", 1, *settings())
    assert done.returncode == 0, done.stderr
    assert "forgetting        0.00 %" in done.stdout
    assert "unchanged bit for bit" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 80
    results = json.loads((out / "results.json").read_text())
    assert results["threads"] == 1
    assert f"{100 * results['average_accuracy']:.2f}" in done.stdout
    again = nispa("resume", out)
    assert again.returncode == 0
    assert "is complete" in again.stdout


def test_data_check_looks_where_it_is_told(tmp_path: Path) -> None:
    done = nispa("data", "check", "--data", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mnist: not found; get it with `nispa data get mnist`" in done.stdout


def test_lists() -> None:
    assert "digits" in nispa("streams").stdout
    assert "stl" in nispa("methods").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "digts"], ["digts", "did you mean 'digits'"]),
        (["run", "digits", "--method", "nipsa"], ["nipsa", "did you mean 'nispa'"]),
        (["run", "digits", "--set", "network.density=1.5"], ["density", "1.5"]),
        (["run", "digits", "--set", "network.density=0"], ["density", "0"]),
        (["run", "digits", "--set", "tau_period=1"], ["tau_period", "1"]),
        (["run", "digits", "--set", "lr=-1"], ["lr", "-1"]),
        (["run", "digits", "--seed", "x"], ["'x'"]),
        (["run", "digits", "--seed", "1,-2"], ["-2"]),
        (["run", "digits", "--threads", "0"], ["--threads", "0"]),
        (["run", "digits", "--jobs", "0"], ["--jobs", "0"]),
        (["run", "/nowhere/x.toml"], ["/nowhere/x.toml"]),
        (["run", "digits", "--out", "/proc/nispa"], ["/proc/nispa"]),
        (["resume", "/nowhere"], ["/nowhere"]),
    ],
)
def test_bad_input_is_one_line_and_a_non_zero_exit(
    arguments: list[str], words: list[str], tmp_path: Path
) -> None:
    if arguments[0] == "run" and "--out" not in arguments:
        arguments = [*arguments, "--out", str(tmp_path / "out")]
    done = nispa(*arguments)
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_a_mistyped_option_names_itself() -> None:
    done = nispa("run", "digits", "--sed", "1")
    assert done.returncode != 0
    assert "--sed" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_images_is_a_stream(tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    for number, name in enumerate(("apple", "bear", "cat", "dog")):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for i in range(12):
            pixels = rng.integers(0, 60, (8, 8, 3), dtype=np.uint8) + np.uint8(48 * number)
            Image.fromarray(pixels).save(folder / f"{i}.png")
    out = tmp_path / "out"
    asked = ["--set", "stream.tasks=2", "--set", 'stream.augment={"flip": true}', *settings()]
    done = nispa("run", tmp_path / "photos", "--out", out, "--engine", "reference", *asked)
    assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    assert [task["class_names"] for task in results["tasks"]] == [["apple", "bear"], ["cat", "dog"]]
    assert results["config"]["recipe"]["stream"]["options"]["augment"] == {"flip": True}
    missing = nispa("run", tmp_path / "nothing")
    assert missing.returncode == 2
    assert "does not exist" in missing.stderr
    bare = nispa("run", tmp_path / "photos", "--out", tmp_path / "bare")
    assert "--set stream.tasks=2" in bare.stderr
