"""A served model for the tests: the real command in a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import nispa
from nispa.model import Model

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200)}


def picture(label: str, size: tuple[int, int] = (20, 30), form: str = "PNG") -> bytes:
    buffer = BytesIO()
    Image.new("RGB", size, COLOURS[label]).save(buffer, form)
    return buffer.getvalue()


def colours(path: Path) -> Model:
    """A model that tells red from blue, and bright from dark."""
    network = nispa.cnn(
        (3, 8, 8), (16, 16), (32,), classes=6, density=0.5, pool_after=(1, 2), engine="reference"
    )
    model = nispa.new(path, like=network)
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 40, (60, 3, 8, 8))
    labels = np.arange(60) % 2
    flat = np.array(list(COLOURS.values()))[labels][:, :, None, None]
    model.learn(
        ((flat + noise).clip(0, 255).astype(np.uint8), labels),
        name="colour",
        classes=list(COLOURS),
        minutes=0.03,
        report=lambda event: None,
    )
    grey = np.where(labels == 0, 40, 190)[:, None, None, None] + noise
    model.learn(
        (grey.clip(0, 255).astype(np.uint8), labels),
        name="light",
        classes=["dark", "bright"],
        minutes=0.03,
        report=lambda event: None,
    )
    return model


@contextlib.contextmanager
def serving(path: Path) -> Iterator[str]:
    """The address of a server for this file."""
    command = [sys.executable, "-m", "nispa", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " at http" in line, line + process.stdout.read()
            yield line.split(" at ")[1].split(" ")[0]
        finally:
            process.terminate()
            process.wait(20)


def ask(url: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """(status, JSON or text) of a request."""
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            status, content = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        status, content = error.code, error.read()
    try:
        return status, json.loads(content)
    except ValueError:
        return status, content.decode(errors="replace")
