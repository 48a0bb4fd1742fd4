"""The report: what its page holds, and that a browser shows it on a desk, on a phone and on paper."""

import html.parser
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, find_chromium
from stored_runs import store

from nispa.errors import NispaError
from nispa.experiment import recipe, report
from nispa.experiment.collect import collect
from nispa.experiment.folder import Config, prepare
from nispa.experiment.picture import DRAWN, course, picture
from nispa.experiment.run import run
from nispa.experiment.wiring_log import read_wiring

SMALL = [
    "network.hidden=[90,60]",
    "phase_epochs=1",
    "tau_period=6",
    "accuracy_loss=30",
    "network.density=0.3",
]
EVIL = "</script><script>alert(1)</script><b onload='x'>&"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of NISPA and one of STL on digits, and a run that is not complete."""
    root = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        config = Config(recipe.find("digits", None, SMALL), seed, "reference", 1)
        prepare(root / config.name, config)
        run(root / config.name)
    stl = Config(recipe.find("digits", "stl", ["network.hidden=[20]", "epochs=2"]), 0, "reference", 1)
    prepare(root / stl.name, stl)
    run(root / stl.name)
    store(root / "half", None, 9)
    return root


@pytest.fixture(scope="module")
def page(runs: Path) -> Path:
    report.write([runs], runs / "report.html")
    return runs / "report.html"


def data_of(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found.group(1)))


def test_the_page_is_whole_light_and_loads_nothing(page: Path) -> None:
    text = page.read_text()
    assert len(text) < 1_000_000
    assert "{{" not in text
    assert not re.findall(r"""(?:src|href)=["'](?!data:)[^"']*""", text)
    assert "http" not in text.replace("http-equiv", "")
    assert len(data_of(text)["runs"]) == 3  # type: ignore[arg-type]
    assert "half" in text
    assert "Not complete, not counted" in text


def test_the_page_has_the_numbers_of_the_runs(page: Path, runs: Path) -> None:
    text = page.read_text()
    finals = [
        json.loads((runs / f"digits-nispa-seed{seed}" / "results.json").read_text())["average_accuracy"]
        for seed in (0, 1)
    ]
    assert f"{50 * sum(finals):.2f} ±" in text


def test_elements_are_closed(page: Path) -> None:
    class Balance(html.parser.HTMLParser):
        open_elements: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in ("meta", "link", "input", "br"):
                self.open_elements.append(tag)

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            assert self.open_elements.pop() == tag

    balance = Balance()
    balance.feed(page.read_text())
    assert balance.open_elements == []


def test_names_of_any_kind_stay_text(tmp_path: Path) -> None:
    folder = store(tmp_path / "a", [90.0, 80.0], 0)
    for name in ("results.json", "config.json", "events.jsonl"):
        path = folder / name
        evil = json.dumps(EVIL)[1:-1]
        path.write_text(path.read_text().replace("digits 0 and 1", evil).replace('"first"', f'"{evil}"'))
    text = report.page(collect([folder]))
    assert "<script>alert" not in text
    assert "<b onload" not in text
    assert data_of(text)["runs"][0]["course"][0]["name"] == EVIL  # type: ignore[index]


def test_nothing_complete_is_one_line(tmp_path: Path) -> None:
    store(tmp_path / "a", None)
    with pytest.raises(NispaError, match="no run here is complete"):
        report.write([tmp_path], tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_the_course_is_the_event_log(runs: Path) -> None:
    tasks = course(runs / "digits-nispa-seed0")
    results = json.loads((runs / "digits-nispa-seed0" / "results.json").read_text())
    assert [len(task["phases"]) for task in tasks] == [task["phases"] for task in results["tasks"]]
    assert sum(len(phase) for task in tasks for phase in task["phases"]) == sum(
        task["epochs"] for task in results["tasks"]
    )


def test_the_picture_counts_everything_and_draws_a_fair_sample(runs: Path) -> None:
    folder = runs / "digits-nispa-seed0"
    found = picture(folder)
    assert found is not None
    frames = list(read_wiring(folder))
    shown = [set[int]() for _ in found["pairs"]]
    protected = [set[int]() for _ in found["units"][1:]]
    for drawn, frame in zip(found["frames"], frames, strict=True):
        for g, flips in enumerate(drawn["protected"]):
            protected[g] ^= set(flips)
            assert protected[g] == set(frame.protected[g + 1].nonzero()[0].tolist())
        for i, layer in enumerate(drawn["layers"]):
            stable = frame.became[i + 1] >= 0
            candidate = frame.protected[i + 1] & ~stable
            counts = frame.counts[i].astype(int)
            assert layer["frozen"] == counts[stable].sum()
            assert layer["candidate"] == counts[candidate].sum()
            assert layer["frozen"] + layer["candidate"] + layer["plastic"] == layer["live"] == counts.sum()
            assert layer["grown"] <= layer["plastic"]
            shown[i] ^= set(layer["flips"])
            targets, sources = found["pairs"][i]
            pairs = [(targets[k], sources[k]) for k in shown[i]]
            assert all(counts[t, s] for t, s in pairs)  # only live connections are drawn
            expected = counts.sum() * found["share"][i]
            assert abs(len(pairs) - expected) < 5 * max(expected, 4) ** 0.5
    assert len(shown[0]) < 2 * DRAWN


def test_a_page_that_grows_too_heavy_leaves_networks_out(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = len(json.dumps(picture(runs / "digits-nispa-seed0")))
    monkeypatch.setattr(report, "BUDGET", int(1.5 * weight))
    text = report.page(collect([runs]))
    assert [bool(r["picture"]) for r in data_of(text)["runs"]] == [True, False, False]  # type: ignore[attr-defined]
    assert "the networks of 1 run are left out" in text


# In a browser ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        warnings.warn("NO CHROMIUM HERE: the report was not looked at in a browser", stacklevel=1)
        pytest.skip("no Chromium: the report was not looked at in a browser")
    with Browser(program, tmp_path_factory.mktemp("profile")) as one:
        yield one


SLIDER = "document.getElementById('slider')"
INK = "[...document.querySelectorAll('#network canvas')].map(c => c.toDataURL())"


def test_the_slider_moves_by_keyboard_and_the_picture_changes(browser: Browser, page: Path) -> None:
    browser.resize(1100, 900)
    browser.open(page.as_uri())
    browser.run(f"{SLIDER}.focus()")
    last, said, ink = browser.run(f"{SLIDER}.value"), browser.run("moment.textContent"), browser.run(INK)
    assert "Task 5" in said
    assert len(ink) == 7  # four groups of units, three layers
    browser.press("ArrowLeft")
    assert int(browser.run(f"{SLIDER}.value")) == int(last) - 1
    assert browser.run("moment.textContent") != said
    assert browser.run(f"{SLIDER}.getAttribute('aria-valuetext')") == browser.run("moment.textContent")
    assert browser.run(INK)[1:] != ink[1:]
    browser.press("Home")
    assert "Before the first task" in browser.run("moment.textContent")
    assert "0 stable" in browser.run("document.querySelectorAll('#network .text')[2].textContent")
    browser.press("End")
    assert browser.run(INK) == ink
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def test_numbers_beside_the_picture_are_the_logs(browser: Browser, page: Path, runs: Path) -> None:
    browser.resize(1100, 900)
    browser.open(page.as_uri())
    frames = list(read_wiring(runs / "digits-nispa-seed0"))
    place = next(i for i, frame in enumerate(frames) if frame.kind == "phase" and frame.task == 1)
    browser.run(f"{SLIDER}.value = {place}; {SLIDER}.dispatchEvent(new Event('input'))")
    texts = browser.run("[...document.querySelectorAll('#network .text')].map(e => e.textContent)")
    frame = frames[place]
    for g in (1, 2):
        stable = int((frame.became[g] >= 0).sum())
        candidates = int(frame.protected[g].sum()) - stable
        assert f"{stable} stable, {candidates} candidates" in texts[2 * g]
    assert texts[1].startswith(f"{frame.live[0]:,} connections")


def test_kinds_of_connections_can_be_hidden_and_runs_chosen(browser: Browser, page: Path) -> None:
    browser.resize(1100, 900)
    browser.open(page.as_uri())
    ink = browser.run(INK)
    browser.run("document.querySelector('input[value=plastic]').click()")
    assert browser.run(INK)[1] != ink[1]
    browser.run("document.querySelector('input[value=plastic]').click()")
    assert browser.run(INK) == ink
    browser.run("run.value = '1'; run.dispatchEvent(new Event('change'))")
    assert browser.run(INK) != ink
    browser.run("run.value = '2'; run.dispatchEvent(new Event('change'))")  # STL has no rewiring
    assert browser.run("document.getElementById('network-part').hidden") is True
    assert "Task 5" in browser.run("moment.textContent")
    assert browser.errors == []


@pytest.mark.parametrize("width", [320, 360, 768, 1400])
def test_nothing_sticks_out_at_any_width(browser: Browser, page: Path, width: int) -> None:
    browser.resize(width, 740, 2)
    browser.open(page.as_uri())
    assert browser.run("document.documentElement.scrollWidth") <= width
    out = """[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && !e.closest('thead')
      && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.run(out) == []
    small = """[...document.querySelectorAll('main td, main p, main li, main .text')]
      .filter(e => e.offsetParent && parseFloat(getComputedStyle(e).fontSize) < 10).length"""
    assert browser.run(small) == 0


def test_the_slider_stays_in_sight_beside_the_network(browser: Browser, page: Path) -> None:
    browser.resize(360, 740)
    browser.open(page.as_uri())
    browser.run("document.querySelector('#network .row:last-child').scrollIntoView({block: 'end'})")
    assert 0 <= browser.run(f"{SLIDER}.getBoundingClientRect().top") < 740


def test_dark_and_light_are_readable(browser: Browser, page: Path) -> None:
    contrast = """(() => { const rgb = s => s.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const linear = v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
      const lum = c => { const [r, g, b] = c.map(linear);
        return .2126 * r + .7152 * g + .0722 * b; };
      const paper = lum(rgb(getComputedStyle(document.body).backgroundColor));
      return Math.min(...[...document.querySelectorAll('main p, main .text, main th, main li')].map(e => {
        const ink = lum(rgb(getComputedStyle(e).color));
        return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05); })); })()"""
    for scheme in ("light", "dark"):
        browser.media(prefers_color_scheme=scheme)
        browser.open(page.as_uri())
        assert browser.run(contrast) > 4.5
    browser.media()


def test_everything_has_a_name_for_a_screen_reader(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    bare = """[...document.querySelectorAll('canvas, svg[role=img], input, select, button')].filter(e =>
      !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length))).length"""
    assert browser.run(bare) == 0
    assert browser.run("document.documentElement.lang") == "en"


def test_it_prints_on_white_without_controls(browser: Browser, page: Path) -> None:
    browser.resize(1100, 900)
    browser.media(prefers_color_scheme="dark")
    browser.open(page.as_uri())
    background = "getComputedStyle(document.body).backgroundColor"
    dark, ink = browser.run(background), browser.run(INK)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(background) == "rgb(255, 255, 255)" != dark
    assert browser.run(INK) != ink  # the network is drawn for white paper, too
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert (browser.run(background), browser.run(INK)) == (dark, ink)
    browser.media("print", prefers_color_scheme="dark")
    assert browser.run("getComputedStyle(document.querySelector('.controls')).display") == "none"
    browser.media()
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 6


def test_the_command_says_what_it_wrote(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    command = [sys.executable, "-m", "nispa", "report", str(runs / "digits-stl-seed0"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "r.html (0." in done.stdout
    assert out.stat().st_size > 10_000
    missing = subprocess.run(
        [*command[:-1], str(tmp_path / "gone" / "r.html")], capture_output=True, text=True
    )
    assert missing.returncode == 2
    assert len(missing.stderr.strip().splitlines()) == 1
