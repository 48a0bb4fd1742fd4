"""How the wiring of a NISPA network went: one line of ``wiring.jsonl`` per rewiring and per learned task.

A line holds, per layer, how many connections run from each unit into each unit (one at most, but for a
linear layer after a flattened convolution, whose units own many columns), as the compressed difference
to the line before; and per group the protected units and the task in which each became stable. It is cut
and continued with the event log, so a killed and resumed run leaves the same bytes.

    >>> import nispa, pathlib, tempfile
    >>> log = WiringLog(pathlib.Path(tempfile.mkdtemp()), 0)
    >>> net = nispa.mlp(6, [4], classes=2, density=0.5)
    >>> log.record("start", 0, 0, net.wiring, net.wiring.stable)
    >>> [int(frame.counts[0].sum()) for frame in read_wiring(log.path.parent)]
    [12]
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nispa.errors import NispaError
from nispa.wiring import Bits, Connections, Wiring

if TYPE_CHECKING:
    from nispa.algorithm import NISPA
    from nispa.learner import Learner

WIRING = "wiring.jsonl"
PAIRS = 1 << 22
"""A layer with more pairs of units is recorded for every k-th source unit only."""

DAMAGE = (ValueError, LookupError, TypeError, OverflowError, RecursionError, zlib.error)

Counts = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Frame:
    """The wiring at one moment."""

    kind: str
    """start: before the first task; phase: rewired after a phase; task: learned, frozen, started anew."""
    task: int
    phase: int
    counts: list[Counts]
    """Per layer ``[targets, sources / stride]``: connections between two units."""
    strides: list[int]
    """Per layer: every k-th source unit is in ``counts``."""
    live: list[int]
    """Per layer: all live connections."""
    protected: list[Bits]
    became: list[NDArray[np.int32]]


class WiringLog:
    """Appends frames to a run's wiring log, from a given length on."""

    def __init__(self, folder: Path, length: int) -> None:
        self.path = folder / WIRING
        self.counts: list[Counts] = []
        try:
            self.file = self.path.open("r+b" if self.path.exists() else "w+b")
            self.file.truncate(min(length, self.path.stat().st_size))
            self._replay(folder, length)
            self.file.seek(0, os.SEEK_END)
        except OSError as error:
            raise NispaError(f"cannot write {self.path}: {error.strerror or error}") from None

    def _replay(self, folder: Path, length: int) -> None:
        """Find the counts of the last line. A lost or damaged log starts anew: the run matters more."""
        try:
            for frame in read_wiring(folder):
                self.counts = frame.counts
        except NispaError:
            length = -1
        text = self.path.read_bytes()
        if len(text) != length or (text and not text.endswith(b"\n")):
            self.counts = []
            self.file.truncate(0)

    def tell(self) -> int:
        return self.file.tell()

    def record(self, kind: str, task: int, phase: int, wiring: Wiring, protected: Sequence[Bits]) -> None:
        """Append the wiring as it is now."""
        sources = wiring.groups[:-1]
        strides = [-(-len(c.mask) * n // PAIRS) for c, n in zip(wiring.connections, sources, strict=True)]
        counts = [pair_counts(*layer) for layer in zip(wiring.connections, sources, strides, strict=True)]
        before = self.counts or [np.zeros_like(c) for c in counts]
        line = {
            "kind": kind,
            "task": task,
            "phase": phase,
            "units": wiring.groups,
            "sizes": [[*now.shape, now.itemsize, k] for now, k in zip(counts, strides, strict=True)],
            "live": [c.live for c in wiring.connections],
            "change": [_pack(now - old) for now, old in zip(counts, before, strict=True)],
            "protected": [_pack(np.packbits(bits)) for bits in protected],
            "became": [_pack(log.astype("<i4")) for log in wiring.became],
        }
        self.file.write((json.dumps(line, separators=(",", ":")) + "\n").encode())
        self.file.flush()
        self.counts = counts


def rewiring_learner(learner: Learner) -> NISPA | None:
    """The NISPA that a learner is or is built around: its wiring is worth following."""
    from nispa.algorithm import NISPA
    from nispa.learner import Learner

    if isinstance(learner, NISPA):
        return learner
    inside = [part for part in vars(learner).values() if isinstance(part, Learner)]
    return next((found for part in inside if (found := rewiring_learner(part)) is not None), None)


def pair_counts(connections: Connections, sources: int, stride: int = 1) -> Counts:
    """``[targets, sources / stride]``: how many connections run between two units."""
    targets, columns = connections.mask.shape
    area = columns // sources
    mask = connections.mask.reshape(targets, sources, area)[:, ::stride]
    kind = np.uint8 if area < 256 else np.uint16 if area < 65536 else np.uint32
    counts: Counts = mask.sum(axis=2, dtype=kind)
    return counts


def _pack(array: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes())).decode()


def read_wiring(folder: Path) -> Iterator[Frame]:
    """The frames of a run, one after the other; none if it has no wiring log."""
    path = folder / WIRING
    if not path.exists():
        return
    counts: list[Counts] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return  # cut off while it was written
            try:
                frame = _frame(json.loads(line), counts)
            except DAMAGE as error:
                raise NispaError(f"{path}, line {number} is not readable ({error}); it is damaged") from None
            counts = frame.counts
            yield frame


def _frame(plain: dict[str, Any], before: Sequence[Counts]) -> Frame:
    counts: list[Counts] = []
    for i, (targets, sources, itemsize, _) in enumerate(plain["sizes"]):
        change = _unpack(plain["change"][i], f"<u{itemsize}", targets * sources).reshape(targets, sources)
        counts.append(before[i] + change if before else change)
    units = plain["units"]
    return Frame(
        plain["kind"],
        plain["task"],
        plain["phase"],
        counts,
        [stride for *_, stride in plain["sizes"]],
        plain["live"],
        [
            np.unpackbits(_unpack(text, "u1", -(-n // 8)), count=n).astype(bool)
            for text, n in zip(plain["protected"], units, strict=True)
        ],
        [_unpack(text, "<i4", n) for text, n in zip(plain["became"], units, strict=True)],
    )


def _unpack(text: str, kind: str, size: int) -> NDArray[Any]:
    """An array of a known size; a longer stream is damage, and is not unpacked to its end."""
    wanted = size * np.dtype(kind).itemsize
    data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), wanted + 1)
    if len(data) != wanted:
        raise ValueError(f"{len(data)} bytes where {wanted} belong")
    return np.frombuffer(data, kind)
