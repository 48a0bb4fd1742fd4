"""What the documents show runs, and what they name exists."""

import re
import subprocess
import sys
import types
from pathlib import Path
from xml.etree import ElementTree

import pytest
from experiment.stored_runs import store

import nispa
from nispa.checks import check_learner
from nispa.experiment.wiring_log import WiringLog

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_readmes_python_runs(tmp_path: Path) -> None:
    """In one process, one block after the other, as a reader would paste them."""
    code = "\n".join(blocks(README, "python"))
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    accuracy, forgetting = map(float, done.stdout.splitlines()[0].split())
    assert accuracy > 0.9
    assert forgetting == 0
    assert (tmp_path / "digits.nispa").is_file()


def test_the_readmes_commands_exist() -> None:
    from nispa.cli import app

    named = set(re.findall(r"^nispa (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE))
    assert {"run", "resume", "compare", "streams", "methods", "data"} <= named
    for name in named:
        assert app[name] is not None


def test_the_readme_tells_what_every_file_is_for() -> None:
    """All files of the package and the benchmarks, and none that is gone; a folder stands for its files."""
    named = re.findall(r"^\| \[`[^`]+`\]\(([^)]+)\) \| (.+) \|$", README, re.MULTILINE)
    paths = [path for path, _ in named]
    assert len(paths) == len(set(paths))
    for path, line in named:
        assert (ROOT / path).exists(), f"README names {path}, which does not exist"
        assert 10 < len(line) < 140, path
    folders = tuple(path for path in paths if path.endswith("/"))
    files = [*(ROOT / "src" / "nispa").rglob("*"), *(ROOT / "benchmarks").glob("*")]
    for file in files:
        path = file.relative_to(ROOT).as_posix()
        hidden = "__pycache__" in path or file.suffix in (".so", ".pyc") or not file.is_file()
        assert hidden or path in paths or path.startswith(folders), f"README does not list {path}"


def test_the_readmes_picture_can_be_drawn_again(tmp_path: Path) -> None:
    learned = [store(tmp_path / method, [90.0, 40.0], method=method) for method in ("nispa", "finetune")]
    wiring, log = nispa.mlp(6, [45, 7], classes=4, density=0.5).wiring, WiringLog(learned[0], 0)
    for task in (0, 1):
        wiring.became[1][20 * task : 20 * task + 10] = task
        log.record("task", task, 0, wiring, wiring.stable)
    command = [
        sys.executable,
        "-m",
        "benchmarks.picture",
        *map(str, learned),
        "--out",
        str(tmp_path / "p.svg"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "p.svg").read_text(encoding="utf-8")
    kept = ROOT / "docs" / "images" / "forgetting.svg"
    assert {"90.0 %", "40.0 %"} <= {text.text for text in ElementTree.fromstring(drawn).iter() if text.text}
    assert ElementTree.parse(kept).getroot().get("width") == ElementTree.fromstring(drawn).get("width")
    assert kept.stat().st_size < 60_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for line in "\n".join(blocks(page.read_text(encoding="utf-8"), "sh")).splitlines():
            if line.startswith("make "):
                assert set(line.split("#")[0].split()[1:]) <= targets, line


def test_the_method_of_the_page_on_adding_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
    module = types.ModuleType("nispa.methods.l2")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(blocks(text, "python")[0], module.__dict__)
    name, entry = next(iter(eval("{" + blocks(text, "text")[0] + "}").items()))
    monkeypatch.setitem(nispa.methods.METHODS, name, entry)
    check_learner(name)
