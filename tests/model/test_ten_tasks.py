"""Ten tasks taught in a row: every old answer keeps its bits, each task is as good as alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
WORST = 0.03


def benchmark() -> ModuleType:
    """benchmarks/teaching.py, which teaches, measures and prints."""
    spec = importlib.util.spec_from_file_location("teaching", ROOT / "benchmarks" / "teaching.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["teaching"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_ten_tasks_in_a_row(tmp_path: Path) -> None:
    teaching = benchmark()
    rows = teaching.teach(
        teaching.changed_digits(10, teaching.turned), "cnn-small", tmp_path, seed=0, fresh=True
    )
    for row in rows:
        assert row["same"] == 1
        assert row["end"] == row["learned"]
        assert row["end"] >= row["alone"] - WORST, rows
