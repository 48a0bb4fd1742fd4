"""docs/fidelity.md points at code that exists, and names switches that exist."""

import ast
import re
from pathlib import Path

from nispa.algorithm import NISPA
from nispa.experiment.recipe import AUTHORS, find

PAGE = Path(__file__).parents[1] / "docs" / "fidelity.md"
TEXT = PAGE.read_text(encoding="utf-8")


def names_of(path: Path) -> set[str]:
    """Functions and classes of a module, with the class's name before a method's."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return found


def test_every_link_leads_to_a_function_of_that_name() -> None:
    links = re.findall(r"\[`([^`]+)`\]\((\.\./[^)]+\.py)\)", TEXT)
    assert len(links) > 30
    for name, target in links:
        path = (PAGE.parent / target).resolve()
        assert path.is_file(), target
        assert name in names_of(path), f"{name} is not in {target}"


def test_all_rows_are_there() -> None:
    rows = [int(n) for n in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)]
    assert rows == [*range(1, 26), *range(1, 10)]  # choices, then what is exactly true


def test_as_authors_sets_every_switch_that_the_page_names_for_them() -> None:
    named = {"selection": "all-units", "masking": "zero", "init": "authors"}
    for name, value in named.items():
        assert f'`{name}="{value}"' in TEXT
    recipe = find("digits", None, as_authors=True)
    assert recipe.network.init == "authors"
    assert recipe.method["selection"] == "all-units"
    assert recipe.method["masking"] == "zero"
    assert {key.split(".")[1] for key in AUTHORS} == set(named)


def test_other_switches_are_arguments() -> None:
    known = NISPA.__init__.__kwdefaults__
    assert known is not None
    for name in ("keep_epoch", "tau_schedule", "growth", "min_phases", "selection", "masking"):
        assert f"`{name}" in TEXT
        assert name in known
