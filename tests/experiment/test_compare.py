"""Tables over seeds: numbers by hand, widths, what is not counted, files read back, refusals."""

import csv
import io
import json
from pathlib import Path

import pytest
from stored_runs import store

from nispa.errors import NispaError
from nispa.experiment.collect import collect, group
from nispa.experiment.compare import as_csv, as_json, as_markdown, as_text, paper, rows
from nispa.experiment.statistics import spread

AUTHORS_LIKE = [96.9, 90.4, 94.6, 90.7, 85.9]


def test_mean_deviation_and_interval_by_hand(tmp_path: Path) -> None:
    for seed, first in enumerate([90.0, 92.0, 94.0]):
        store(tmp_path / f"run{seed}", [first, 80.0], seed)
    (one,) = group(collect([tmp_path]))
    table = {name: value for name, value, _, _ in rows(one)}
    assert table["1 digits 0 and 1"].mean == pytest.approx(92)
    assert table["1 digits 0 and 1"].std == pytest.approx(2)
    assert table["1 digits 0 and 1"].half == pytest.approx(4.3027 * 2 / 3**0.5, abs=1e-3)
    assert table["2 digits 2 and 3"].std == pytest.approx(0, abs=1e-9)
    assert table["average"].mean == pytest.approx(86)
    assert table["average"].std == pytest.approx(1)
    text = as_text([one])
    assert "3 seeds (0, 1, 2)" in text
    assert "92.00  2.00  87.03 to 96.97" in text


def test_an_incomplete_run_is_named_and_not_counted(tmp_path: Path) -> None:
    store(tmp_path / "a", [90.0, 80.0], 0)
    store(tmp_path / "b", None, 1)
    found = collect([tmp_path])
    left = [run for run in found if run.results is None]
    (one,) = group(found)
    assert one.seeds == [0]
    text = as_text([one], left)
    assert "seed 0" in text
    assert "one seed: no deviation, no interval" in text
    shown = " ".join(text.split())
    assert f"not complete, not counted: {tmp_path / 'b'} (task 1, phase 3)" in shown
    assert json.loads(as_json([one], left))["incomplete"][0]["run"] == str(tmp_path / "b")
    assert "`b`" in as_markdown([one], left, "nispa compare x")


def test_published_numbers_stand_beside_ours_in_80_columns(tmp_path: Path) -> None:
    for seed in range(5):
        store(tmp_path / f"n{seed}", [a + 3.3 * seed for a in AUTHORS_LIKE], seed, "ef-mnist")
        store(tmp_path / f"s{seed}", AUTHORS_LIKE, seed, "ef-mnist", "stl")
    groups = group(collect([tmp_path]))
    text = as_text(groups)
    assert max(map(len, text.splitlines())) <= 80
    average = next(line for line in text.splitlines() if line.startswith("average"))
    assert "91.6 ± 0.2" in average
    assert "91.72" in average  # the authors' four runs
    nispa = next(g for g in groups if g.method == "nispa")
    code = {name: theirs for name, _, theirs, _ in rows(nispa)}
    theirs = spread([96.725, 97.25, 96.90, 97.10])
    assert code["1 digits"] == f"{theirs.mean:.2f} ± {theirs.std:.2f}"
    assert "authors" not in text.split("ef-mnist, stl")[1].split("average over tasks")[0]


def test_altered_streams_get_no_published_numbers(tmp_path: Path) -> None:
    folder = store(tmp_path / "a", AUTHORS_LIKE, 0, "ef-mnist")
    for name in ("config.json", "results.json"):
        path = folder / name
        path.write_text(path.read_text().replace('"options": {}', '"options": {"subset": 0.1}'))
    assert "91.6" not in as_text(group(collect([folder])))


def test_settings_that_differ_make_groups_of_their_own(tmp_path: Path) -> None:
    store(tmp_path / "a", [90.0, 80.0], 0, lr=0.01)
    store(tmp_path / "b", [90.0, 80.0], 0, lr=0.03)
    store(tmp_path / "c", [90.0, 80.0], 1, lr=0.03)
    groups = group(collect([tmp_path]))
    assert [(g.label, g.seeds) for g in groups] == [("nispa lr=0.01", [0]), ("nispa lr=0.03", [0, 1])]


def test_csv_holds_every_number(tmp_path: Path) -> None:
    store(tmp_path / "a", [100 / 3, 80.0], 7)
    table = list(csv.DictReader(io.StringIO(as_csv(group(collect([tmp_path]))))))
    assert [(r["seed"], r["after_task"], r["task"]) for r in table] == [
        ("7", "1", "1"),
        ("7", "2", "1"),
        ("7", "2", "2"),
    ]
    assert float(table[0]["accuracy"]) == (100 / 3) / 100


def test_a_results_file_alone_is_a_run(tmp_path: Path) -> None:
    folder = store(tmp_path / "a", [90.0, 80.0], 0)
    (tmp_path / "kept").mkdir()
    (folder / "results.json").rename(tmp_path / "kept" / "seed0.results.json")
    for place in (tmp_path / "kept", tmp_path / "kept" / "seed0.results.json"):
        assert group(collect([place]))[0].seeds == [0]


def test_a_seed_counts_once(tmp_path: Path) -> None:
    store(tmp_path / "a", [90.0, 80.0], 0)
    assert len(collect([tmp_path, tmp_path / "a"])) == 1
    store(tmp_path / "b", [91.0, 80.0], 0)
    with pytest.raises(NispaError, match=r"same run \(seed 0\)"):
        group(collect([tmp_path]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", '{"recipe": {}}'),
        ("results.json", "{"),
        ("results.json", '{"accuracy": [[1]]}'),
        ("results.json", '{"accuracy": [[0.5]], "tasks": [1, 2]}'),
        ("results.json", "\x00\xff"),
    ],
)
def test_damaged_files_are_one_line_with_the_name(tmp_path: Path, name: str, text: str) -> None:
    folder = store(tmp_path / "a", [90.0, 80.0], 0)
    (folder / name).write_text(text)
    with pytest.raises(NispaError, match=name) as caught:
        collect([tmp_path])
    assert "\n" not in str(caught.value)


def test_places_without_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NispaError, match="holds no run"):
        collect([tmp_path])
    with pytest.raises(NispaError, match="does not exist"):
        collect([tmp_path / "nowhere"])


def test_dense_baselines_have_the_papers_name_and_number(tmp_path: Path) -> None:
    for name, density in (("sparse", 0.3), ("dense", 1.0)):
        folder = store(tmp_path / name, AUTHORS_LIKE, 0, "ef-mnist", "er", per_class=50)
        for path in folder.glob("*.json"):
            path.write_text(path.read_text().replace('"density": 0.2', f'"density": {density}'))
    groups = {g.label: g for g in group(collect([tmp_path]))}
    assert set(groups) == {"er", "er-d"}
    assert [str(number) for number in paper(groups["er"])] == ["70.0 ± 0.5"]
    assert [str(number) for number in paper(groups["er-d"])] == ["73.0 ± 0.4"]
