"""Headless Chromium over its DevTools protocol: enough of a WebSocket client for a page test."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Browser:
    """One page. ``with Browser(url) as page: page.run("1 + 1")``"""

    @staticmethod
    def program() -> str | None:
        return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

    def __init__(self, url: str) -> None:
        self.url, self.number = url, 0

    def __enter__(self) -> Browser:
        self.folder = tempfile.mkdtemp()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=900,900",
        ]
        command = [
            str(self.program()),
            *flags,
            "--remote-debugging-port=0",
            f"--user-data-dir={self.folder}",
            self.url,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = self._port()
        deadline, pages = time.monotonic() + 60, []
        while not pages and time.monotonic() < deadline:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as reply:
                pages = [p for p in json.load(reply) if p["type"] == "page" and p["url"].startswith(self.url)]
            time.sleep(0.1)
        place = urlsplit(pages[0]["webSocketDebuggerUrl"])
        self.socket = socket.create_connection((place.hostname or "", place.port or 0), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while not self.socket.recv(1, socket.MSG_PEEK) or b"\r\n\r\n" not in self.socket.recv(
            4096, socket.MSG_PEEK
        ):
            time.sleep(0.01)
        head = self.socket.recv(4096, socket.MSG_PEEK)
        self.socket.recv(head.index(b"\r\n\r\n") + 4)
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _port(self) -> int:
        path, deadline = Path(self.folder) / "DevToolsActivePort", time.monotonic() + 60
        while time.monotonic() < deadline:
            if path.exists() and path.read_text().strip():
                return int(path.read_text().split()[0])
            time.sleep(0.05)
        raise TimeoutError("the browser did not start")

    def call(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        data = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        mask = os.urandom(4)
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.socket.sendall(b"\x81\xff" + struct.pack(">Q", len(data)) + mask + masked)
        while True:
            reply = json.loads(self._frame())
            if reply.get("id") == self.number:
                return reply.get("result", reply)

    def _frame(self) -> bytes:
        length = self._exactly(2)[1] & 127
        if length > 125:
            size = 2 if length == 126 else 8
            length = int.from_bytes(self._exactly(size), "big")
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self.socket.recv(count - len(data))
        return data

    def run(self, code: str) -> Any:
        return self.call("Runtime.evaluate", expression=code, returnByValue=True)["result"].get("value")

    def wait(self, condition: str) -> None:
        deadline = time.monotonic() + 60
        while not self.run(condition):
            assert time.monotonic() < deadline, f"{condition}: {self.run('document.body.innerText')}"
            time.sleep(0.05)

    def drop(self, where: str, name: str, content: bytes) -> None:
        """Drop a file on an element."""
        encoded = base64.b64encode(content).decode()
        self.run(
            f"(() => {{const b = Uint8Array.from(atob('{encoded}'), c => c.charCodeAt(0));"
            f"const t = new DataTransfer(); t.items.add(new File([b], '{name}'));"
            f"document.querySelector('{where}').dispatchEvent(new DragEvent('drop',"
            "{dataTransfer: t, bubbles: true, cancelable: true}))})()"
        )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
