"""The HTTP application: a page, a small API with a schema, limits on everything that comes in."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from torch import Tensor

from nispa.data.readers.images import decode
from nispa.errors import NispaError
from nispa.model.inputs import convert
from nispa.serve.batching import Answering, BusyError
from nispa.serve.schema import schema

MAX_BYTES = 16 << 20
MAX_PIXELS = 25_000_000
"""A phone's picture has 12 million."""
MAX_ROWS = 1000
SECONDS = 30
"""For a request's body to arrive."""
DECODERS = 2


class ProblemError(Exception):
    """One line for the client, with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def make_app(path: Path, hosts: list[str]) -> Starlette:
    """The application for a model file; ``hosts`` are the names that it answers to."""
    answering = Answering(path)
    decoders = ThreadPoolExecutor(DECODERS, "nispa-decode")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with answering.running():
            yield
        decoders.shutdown(wait=False)

    async def page(request: Request) -> Response:
        return HTMLResponse(files("nispa.serve").joinpath("page.html").read_text(encoding="utf-8"))

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "tasks": len(answering.model.tasks)})

    async def about(request: Request) -> Response:
        return JSONResponse({k: v for k, v in answering.model.inspect().items() if k != "path"})

    async def openapi(request: Request) -> Response:
        return JSONResponse(schema(answering.model))

    async def predict(request: Request) -> Response:
        task = request.query_params.get("task") or None
        model = answering.model
        names = [known.name for known in model.tasks]
        if not names:
            raise ProblemError(409, "the model has learned nothing yet")
        if task is not None and task not in names:
            raise ProblemError(404, f"no task {task[:80]!r}; the model has {', '.join(names)}")
        body = await _body(request)
        if model.inputs.kind == "pictures":
            loop = asyncio.get_running_loop()
            values = await loop.run_in_executor(decoders, _picture, model.inputs.shape, body)
        else:
            values = _features(model.inputs, body)
        answers = await answering.answer(values, task)
        return JSONResponse({"predictions": [asdict(answer) for answer in answers]})

    return Starlette(
        routes=[
            Route("/", page),
            Route("/health", health),
            Route("/openapi.json", openapi),
            Route("/v1/model", about),
            Route("/v1/predict", predict, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        exception_handlers={
            ProblemError: _problem,
            NispaError: _problem,
            BusyError: _problem,
            HTTPException: _problem,
            ClientDisconnect: _problem,
        },
        lifespan=lifespan,
    )


async def _problem(request: Request, error: Exception) -> Response:
    status, text, headers = 400, str(error), {}
    if isinstance(error, ProblemError):
        status = error.status
    elif isinstance(error, BusyError):
        status, text, headers = 503, "too many requests at once; try again", {"Retry-After": "1"}
    elif isinstance(error, HTTPException):
        status, text = error.status_code, error.detail
    return JSONResponse({"error": text}, status_code=status, headers=headers)


async def _body(request: Request) -> bytes:
    """The request's body, within size and time."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BYTES:
        raise ProblemError(413, f"more than {MAX_BYTES >> 20} MB; send a smaller picture")
    data = bytearray()

    async def read() -> None:
        async for chunk in request.stream():
            data.extend(chunk)
            if len(data) > MAX_BYTES:
                raise ProblemError(413, f"more than {MAX_BYTES >> 20} MB; send a smaller picture")

    try:
        await asyncio.wait_for(read(), SECONDS)
    except (asyncio.TimeoutError, TimeoutError):
        raise ProblemError(408, f"the request did not arrive within {SECONDS} seconds") from None
    if not data:
        raise ProblemError(400, "nothing in the request's body; send a picture's bytes")
    return bytes(data)


def _picture(shape: list[int], body: bytes) -> Tensor:
    channels, height, width = shape
    array = decode(body, "the upload", (height, width), channels, MAX_PIXELS)
    return torch.from_numpy(np.array(array))[None]


def _features(inputs: Any, body: bytes) -> Tensor:
    try:
        rows = json.loads(body)["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProblemError(400, 'want JSON like {"features": [[1.5, 2.0, …]]}') from None
    if not isinstance(rows, list) or not 0 < len(rows) <= MAX_ROWS:
        raise ProblemError(400, f"features must be a list of 1 to {MAX_ROWS} samples")
    return convert(inputs, rows, "features")
