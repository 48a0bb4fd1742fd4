"""`nispa serve`, the real command: answers, limits, many requests at once, load, the page in a browser."""

from __future__ import annotations

import re
import shutil
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from served import ask, colours, picture, serving
from served_page import Browser

from nispa.model import Model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return colours(tmp_path_factory.mktemp("served") / "colours.nispa")


@pytest.fixture(scope="module")
def url(model: Model) -> Iterator[str]:
    with serving(model.path) as address:
        yield address


def test_a_picture_is_answered_as_in_python(model: Model, url: str) -> None:
    for label in ("red", "blue"):
        status, found = ask(f"{url}/v1/predict?task=colour", picture(label))
        assert status == 200
        [prediction] = found["predictions"]
        [expected] = model.predict(picture(label), task="colour")
        assert prediction["label"] == expected.label == label
        assert abs(prediction["probability"] - expected.probability) < 1e-5
    _, found = ask(f"{url}/v1/predict", picture("red", (50, 9), "JPEG"))
    assert [a["task"] for a in found["predictions"][0]["answers"]] == ["colour", "light"]


def test_the_schema_names_paths_tasks_and_answers(url: str) -> None:
    status, schema = ask(f"{url}/openapi.json")
    assert status == 200
    post = schema["paths"]["/v1/predict"]["post"]
    assert post["parameters"][0]["schema"]["enum"] == ["colour", "light"]
    assert set(post["responses"]) >= {"200", "400", "404", "413"}
    assert ask(f"{url}/health") == (200, {"status": "ok", "tasks": 2})
    assert ask(f"{url}/v1/model")[1]["tasks"][0]["classes"] == ["red", "blue"]
    assert "path" not in ask(f"{url}/v1/model")[1]


def bomb(side: int = 60_000) -> bytes:
    """A PNG of 3.6 billion pixels in a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("query", "body", "status", "words"),
    [
        ("", b"no picture", 400, "not a readable image"),
        ("", picture("red")[:60], 400, "not a readable image"),
        ("", b"", 400, "nothing in the request"),
        ("", bomb(), 400, "pixels"),
        ("", b"x" * ((16 << 20) + 1), 413, "more than 16 MB"),
        ("?task=nothing", picture("red"), 404, "no task 'nothing'; the model has colour, light"),
    ],
)
def test_bad_uploads_get_4xx_and_one_line(url: str, query: str, body: bytes, status: int, words: str) -> None:
    try:
        got, answer = ask(f"{url}/v1/predict{query}", body)
    except OSError:  # the server may close before all of 16 MB were sent
        assert status == 413
        return
    assert got == status, answer
    assert words in answer["error"]
    assert "\n" not in answer["error"]


def test_other_methods_paths_and_hosts_are_refused(url: str) -> None:
    assert ask(f"{url}/v1/predict")[0] == 405
    assert ask(f"{url}/etc/passwd")[0] == 404
    assert ask(f"{url}/health", Host="evil.example")[0] == 400


def test_many_requests_at_once_each_get_their_own_answer(url: str) -> None:
    labels = ["red", "blue"] * 100

    def one(label: str) -> str:
        status, found = ask(f"{url}/v1/predict?task=colour", picture(label))
        assert status == 200
        return str(found["predictions"][0]["label"])

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(one, labels)) == labels


def test_a_client_that_goes_away_harms_nobody(url: str) -> None:
    place = urlsplit(url)
    for _ in range(20):
        with socket.create_connection((place.hostname or "", place.port or 0)) as connection:
            head = f"POST /v1/predict HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 100000\r\n\r\n"
            connection.sendall(head.encode() + b"half")
    assert ask(f"{url}/v1/predict", picture("red"))[0] == 200


def test_a_task_learned_meanwhile_is_taken_up(model: Model, tmp_path: Path) -> None:
    copy = tmp_path / "copy.nispa"
    shutil.copy(model.path, copy)
    with serving(copy) as address:
        assert ask(f"{address}/v1/predict?task=light", picture("red"))[0] == 200
        Model.open(copy).undo()
        ask(f"{address}/v1/predict", picture("red"))
        assert ask(f"{address}/v1/predict?task=light", picture("red"))[0] == 404
        assert ask(f"{address}/health")[1]["tasks"] == 1


def test_a_taken_port_is_one_line(model: Model, url: str) -> None:
    port = urlsplit(url).port
    command = [sys.executable, "-m", "nispa", "serve", str(model.path), "--port", str(port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "try another --port" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs the load generator wrk")
def test_no_request_is_lost_under_load(url: str, tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(picture("red", (640, 480), "JPEG"))
    script = tmp_path / "post.lua"
    script.write_text(
        f'local f = io.open("{tmp_path / "red.png"}", "rb"); wrk.body = f:read("*all"); wrk.method = "POST"\n'
        'function done(s, l, r) io.write(string.format("p50 %.1f ms p99 %.1f ms requests %d errors %d\\n",'
        " l:percentile(50)/1000, l:percentile(99)/1000, s.requests,"
        " s.errors.connect+s.errors.read+s.errors.write+s.errors.status+s.errors.timeout)) end\n"
    )
    command = ["wrk", "-t1", "-c32", "-d15s", "--timeout", "10s", "-s", str(script), f"{url}/v1/predict"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    print(done.stdout)
    found = re.search(r"p50 ([\d.]+) ms p99 ([\d.]+) ms requests (\d+) errors (\d+)", done.stdout)
    assert found, done.stdout
    assert int(found[4]) == 0
    assert int(found[3]) > 100


@pytest.mark.skipif(Browser.program() is None, reason="needs Chromium")
def test_a_picture_is_dropped_on_the_page(url: str) -> None:
    with Browser(url) as page:
        page.wait("document.querySelectorAll('#task option').length === 3")
        page.drop("#drop", "blue.png", picture("blue"))
        page.wait("document.querySelector('#answer h2')?.textContent === 'blue'")
        page.run("document.querySelector('#task').value = 'light'")
        page.run("document.querySelector('#task').dispatchEvent(new Event('change'))")
        page.wait("/dark|bright/.test(document.querySelector('#answer h2')?.textContent)")
        page.drop("#drop", "text.png", b"no picture")
        page.wait("/not a readable image/.test(document.querySelector('.error')?.textContent)")
