"""One page of everything that was drawn: figures, tables, what they lack, and the commands that made them."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path

from nispa import atomic
from nispa.errors import NispaError
from nispa.experiment.paper import EXPERIMENTS
from nispa.experiment.paper.grid import Found
from nispa.experiment.run import versions

DRAWN = "drawn.json"


def note(folder: Path, made: Sequence[Path], command: str, found: Found) -> None:
    """Beside the files: how they came about."""
    every = [results for runs in found.results.values() for results in runs]
    plain = {
        "format": "nispa-drawn",
        "files": [path.name for path in made],
        "command": command,
        "runs": len(every),
        "missing": found.missing,
        "hours": round(sum(float(results["seconds"]) for results in every) / 3600, 2),
        "engines": sorted({str(results["engine"]) for results in every}),
        "threads": sorted({int(results["threads"]) for results in every}),
        "versions": versions(),
        "processor": platform.machine(),
    }
    atomic.write(folder / DRAWN, json.dumps(plain, indent=1))


def write(roots: Sequence[Path], into: Path) -> Path:
    """README.md in a folder, with copies of all figures and tables; experiments without any are not named."""
    sections: list[str] = []
    for name, line in EXPERIMENTS.items():
        for folder in [root / name for root in roots if (root / name / DRAWN).exists()]:
            sections += _section(name, line, folder, into)
    if not sections:
        raise NispaError("nothing was drawn yet; run an experiment first, for example: nispa paper schedule")
    head = [
        "# Results",
        "",
        "Made by `nispa paper --page DIR` from the folders of the experiments; every figure and table says",
        "how many seeds it has, and what is missing. Accuracies are on test data, averaged over tasks after",
        "the last one; ± is one standard deviation over seeds. Experiments that are not here were not run.",
        "",
    ]
    path = atomic.make_folder(into) / "README.md"
    atomic.write(path, "\n".join([*head, *sections]).rstrip() + "\n")
    return path


def _section(name: str, line: str, folder: Path, into: Path) -> list[str]:
    try:
        plain = json.loads((folder / DRAWN).read_text())
        files, missing = [str(file) for file in plain["files"]], list(plain["missing"])
        about = [f"{plain['runs']} runs, {plain['hours']} hours of computing on {_list(plain['threads'])}"]
        about += [f"engine {' and '.join(plain['engines'])}, nispa {plain['versions']['nispa']}"]
        about += [f"torch {plain['versions']['torch']}, {plain['processor']}"]
        made = str(plain["command"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NispaError(f"{folder / DRAWN} is not readable ({error}); draw the experiment again") from None
    place = atomic.make_folder(into / name)
    lines = [f"## {name}", "", f"{line[0].upper()}{line[1:]}.", "", "```sh", made, "```", ""]
    if plain["runs"]:
        lines += [f"{', '.join(about)}.", ""]
    if missing:
        listed = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        lines += [f"**Incomplete**: {len(missing)} runs are missing ({listed}).", ""]
    for file in files:
        content = (folder / file).read_bytes()
        atomic.write(place / file, content)
        if file.endswith(".png"):
            lines += [f"![{name}]({name}/{file})", ""]
        elif file.endswith(".md"):
            lines += [content.decode().strip(), ""]
    return lines


def _list(threads: Sequence[int]) -> str:
    return f"{' or '.join(map(str, threads))} thread{'s' if list(threads) != [1] else ''} a run"
