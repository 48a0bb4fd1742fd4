"""Many requests at once, answered in batches.

While one batch is computed, the requests that come in wait; the next batch takes all of them. So a lone
request never waits for company, and under load the batches grow by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from nispa.errors import NispaError
from nispa.model import Model, Prediction

LARGEST = 64
WAITING = 1024
"""More than so many requests at once are told to come back later."""


class BusyError(Exception):
    """Too many requests are waiting."""


class Answering:
    """The model, its file watched for new tasks, and one thread that computes."""

    def __init__(self, path: Path) -> None:
        self.path, self.model = path, Model.open(path)
        self._seen = self._stamp()
        self._waiting: asyncio.Queue[tuple[Tensor, str | None, asyncio.Future[list[Prediction]]]]
        self._thread = ThreadPoolExecutor(1, "nispa-answer")

    @contextlib.asynccontextmanager
    async def running(self):  # type: ignore[no-untyped-def]
        """While the server runs."""
        self._waiting = asyncio.Queue(WAITING)
        worker = asyncio.create_task(self._work())
        try:
            yield
        finally:
            worker.cancel()
            self._thread.shutdown(wait=True)

    async def answer(self, values: Tensor, task: str | None) -> list[Prediction]:
        """What `Model.predict_values` says, together with other requests."""
        future: asyncio.Future[list[Prediction]] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((values, task, future))
        except asyncio.QueueFull:
            raise BusyError from None
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            while not self._waiting.empty() and sum(len(v) for v, _, _ in batch) < LARGEST:
                batch.append(self._waiting.get_nowait())
            for task in dict.fromkeys(task for _, task, _ in batch):
                same = [(values, future) for values, t, future in batch if t == task]
                try:
                    values = torch.cat([v for v, _ in same])
                    found = await loop.run_in_executor(self._thread, self._compute, values, task)
                except Exception as error:
                    _fail([future for _, future in same], error)
                    continue
                for values, future in same:
                    mine, found = found[: len(values)], found[len(values) :]
                    if not future.done():  # its client may have gone
                        future.set_result(mine)

    def _compute(self, values: Tensor, task: str | None) -> list[Prediction]:
        self._reload()
        return self.model.predict_values(values, task)

    def _reload(self) -> None:
        """Take up a task that was learned meanwhile; a file that does not open leaves the old model."""
        stamp = self._stamp()
        if stamp != self._seen:
            with contextlib.suppress(NispaError):
                self.model = Model.open(self.path)
            self._seen = stamp

    def _stamp(self) -> tuple[int, int, int]:
        try:
            stat = self.path.stat()
        except OSError:
            return self._seen if hasattr(self, "_seen") else (0, 0, 0)
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _fail(futures: list[asyncio.Future[list[Prediction]]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
