"""``nispa serve``: a page to drop a picture on, and an HTTP API."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from nispa.cli.run import Whole
from nispa.cli.show import out
from nispa.errors import NispaError


def register(app: App) -> None:
    app.command(serve)


def serve(
    model: Path,
    *,
    port: Annotated[Whole, Parameter(help="0 takes a free one.")] = 8000,
    host: Annotated[str, Parameter(help="Loopback unless you say otherwise.")] = "127.0.0.1",
) -> int:
    """Serve a model: a page to drop a picture on, and an HTTP API with a schema.

    Tasks that are learned meanwhile are taken up. There is no password: whoever reaches the port may ask.
    """
    try:
        import uvicorn

        from nispa.serve.app import make_app
    except ImportError as error:
        raise NispaError(f"serving needs {error.name}; pip install 'nispa[serve]'") from None
    app = make_app(model, _names(host))
    listener = _listen(host, port)
    where = f"http://{host if ':' not in host else f'[{host}]'}:{listener.getsockname()[1]}"
    out(f"serving {model} at {where} (schema: {where}/openapi.json); Ctrl-C ends it")
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_keep_alive=5, server_header=False
    )
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _names(host: str) -> list[str]:
    """Host names to answer to: on loopback no other than its own, so that no web page can pose as it."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    return ["localhost", "127.0.0.1", "[::1]", host] if loopback else ["*"]


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise NispaError(f"--port is {port}; want 0 to 65535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        raise NispaError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; try another --port"
        ) from None
    return listener
