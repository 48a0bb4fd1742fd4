"""The model file: one safetensors file with a JSON description. Reading one runs no code.

docs/model-file.md describes it. Everything that a file says is checked before memory is asked for: the
header's length against the file's, the description against a schema, the network's sizes against limits
and against the tensors that are really there.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from nispa import __version__, atomic
from nispa.errors import NispaError
from nispa.learner import State
from nispa.network import Shape, layer_sizes

FORMAT, VERSION = "nispa-model", 1
MAX_HEADER = 32 << 20
"""Bytes of JSON, of safetensors' and of ours together."""
MAX_DENSE = 1 << 28
"""Connections' weights of a layer if it were dense: what an engine may ask memory for."""
MAX_PICTURE = 1 << 26
"""Numbers in one layer's activations of one input."""
MAX_LAYERS = 64
MAX_TASKS = 10_000

Strictly = ConfigDict(extra="forbid", strict=True)


class Inputs(BaseModel):
    """What the network reads, and how it is made from what people have."""

    model_config = Strictly
    kind: Literal["pictures", "features"]
    shape: list[int] = Field(min_length=1, max_length=3)
    """``[channels, height, width]``, or ``[features]``."""
    scale: list[float]
    shift: list[float]
    """value = x * scale + shift, per channel or feature."""


class Made(BaseModel):
    """Where a fingerprint was taken: the same here means that bits can be compared."""

    model_config = Strictly
    engine: str
    instructions: str
    torch: str


class Taught(BaseModel):
    """What the file knows of a task beside the learner's own record."""

    model_config = Strictly
    learned: str
    """When, ISO 8601, UTC."""
    samples: int
    validation: int
    """Samples of each, without repeats."""
    accuracy: float
    """On the validation samples, when learned."""
    settings: dict[str, int | float | str | bool]
    digest: str = Field(pattern="^[0-9a-f]{64} [0-9a-f]{64}$")
    """SHA-256 of the weights, biases and wiring of the task's own hidden units, and of its outputs."""
    made: Made
    found: float
    """Share of the validation samples for which guess.py told this task, when learned."""
    notes: list[str] = []
    released: bool = False


class Description(BaseModel):
    """The JSON of a model file."""

    model_config = Strictly
    format: Literal["nispa-model"]
    version: Literal[1]
    program: str
    change: str
    """What was done last, for people: what `nispa undo` would take back."""
    seed: int
    inputs: Inputs
    tasks: list[Taught] = Field(max_length=MAX_TASKS)
    hyperparameters: dict[str, Any]
    state: dict[str, Any]


@dataclass
class Contents:
    """A model file in memory. ``undo`` is the file before the last task was learned."""

    description: Description
    tensors: dict[str, Tensor]
    undo: bytes | None = None
    origin: str = field(default="", compare=False)
    """SHA-256 of the file that this was read from."""

    @property
    def state(self) -> State:
        return State(self.tensors, self.description.state)


def describe(
    change: str,
    seed: int,
    inputs: Inputs,
    tasks: list[Taught],
    hyperparameters: dict[str, Any],
    state: dict[str, Any],
) -> Description:
    return Description(
        format="nispa-model",
        version=1,
        program=__version__,
        change=change,
        seed=seed,
        inputs=inputs,
        tasks=tasks,
        hyperparameters=hyperparameters,
        state=json.loads(json.dumps(state)),
    )


def to_bytes(contents: Contents) -> bytes:
    """The file, checksum included; ``undo`` is the file before, without an undo of its own."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in contents.tensors.items()}
    if contents.undo is not None:
        tensors["undo"] = torch.frombuffer(bytearray(contents.undo), dtype=torch.uint8)
    text = json.dumps(contents.description.model_dump())
    return bytes(save(tensors, {"nispa": json.dumps([checksum(text, tensors), text])}))


def checksum(text: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the description and of every tensor with its name, type and shape."""
    sha = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        sha.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        sha.update(tensor.view(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return sha.hexdigest()


def write(path: Path, contents: Contents) -> None:
    """Replace the file in one step; the old one stays until the new one is on disk."""
    data = to_bytes(contents)
    atomic.write(path, data)
    contents.origin = hashlib.sha256(data).hexdigest()


def fingerprint(path: Path) -> str:
    """SHA-256 of the file as it lies on disk."""
    return hashlib.sha256(_bytes(path)).hexdigest()


def read(path: str | Path, whole: bool = True) -> Contents:
    """A model file, checked; whatever is wrong with it is one line.

    ``whole=False`` reads a file that was changed after it was written, to find out which tasks still hold.
    """
    path = Path(path)
    data = _bytes(path)
    try:
        return parse(data, whole)
    except NispaError as error:
        raise NispaError(f"{path}: {error}") from None


def _bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise NispaError(f"{path} is not a file; give a model file that `nispa new` made")
        return path.read_bytes()
    except FileNotFoundError:
        raise NispaError(f"{path} does not exist; make it with: nispa new {path} --like cnn …") from None
    except OSError as error:
        raise NispaError(f"cannot read {path}: {error.strerror or error}") from None


def parse(data: bytes, whole: bool = True) -> Contents:
    """The contents of a file's bytes."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    expected, text = _header(data)
    description = _description(text)
    check_sizes(_shape(description))
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise _damaged(" ".join(str(error).split())[:120]) from None
    if whole and checksum(text, tensors) != expected:
        raise NispaError(
            "its checksum does not fit, so it was changed after it was written;"
            " `nispa inspect --verify` tells which tasks still hold"
        )
    undo = tensors.pop("undo", None)
    if undo is not None and (undo.dtype != torch.uint8 or undo.dim() != 1):
        raise _damaged("its undo is no list of bytes")
    return Contents(
        description,
        tensors,
        None if undo is None else undo.numpy().tobytes(),
        hashlib.sha256(data).hexdigest(),
    )


def _damaged(what: str) -> NispaError:
    return NispaError(f"not a readable model file ({what}); it is damaged or foreign")


def _header(data: bytes) -> tuple[str, str]:
    """The checksum and the description's JSON text, out of safetensors' header."""
    if len(data) < 8:
        raise _damaged(f"{len(data)} bytes")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER or length > len(data) - 8:
        raise _damaged(f"its header tells of {length:,} bytes, the file has {len(data):,}")
    try:
        found = json.loads(data[8 : 8 + length])["__metadata__"]["nispa"]
        parts = json.loads(found)
    except (KeyError, TypeError):
        raise NispaError("not a model file of NISPA's (nothing in it says so)") from None
    except (ValueError, RecursionError):
        raise _damaged("its header is no JSON") from None
    if isinstance(parts, dict) and parts.get("format") == "nispa-learner":
        raise NispaError("a learner's file of `nispa run`; open it with nispa.load(…)")
    if not (isinstance(parts, list) and len(parts) == 2 and all(isinstance(part, str) for part in parts)):
        raise _damaged("its description is no JSON of ours")
    return parts[0], parts[1]


def _description(text: str) -> Description:
    try:
        raw = json.loads(text)
        form, version = raw["format"], raw["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged("its description is no JSON of ours") from None
    if form != FORMAT or not isinstance(version, int) or version > VERSION:
        raise NispaError(
            f"has format {str(form)[:40]!r} version {str(version)[:20]},"
            f" this program reads {FORMAT!r} up to {VERSION}; update nispa"
        )
    try:
        return Description.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])[:80]
        raise _damaged(f"description, {where}: {first['msg']}"[:160]) from None
    except RecursionError:
        raise _damaged("description nested too deep") from None


def _shape(description: Description) -> Shape:
    """The network's shape as the file tells it, before anything is built."""
    try:
        raw = description.state["network"]["shape"]
        shape = Shape(
            input=tuple(_integer(n) for n in raw["input"]),
            convolutions=tuple((_integer(a), _integer(b), _integer(c)) for a, b, c in raw["convolutions"]),
            hidden=tuple(_integer(n) for n in raw["hidden"]),
            classes=_integer(raw["classes"]),
            density=float(raw["density"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(f"the network's shape: {error}"[:120]) from None
    if list(shape.input) != description.inputs.shape:
        raise _damaged(f"inputs of {description.inputs.shape} for a network of {list(shape.input)}")
    return shape


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{str(value)[:20]!r} is no whole number")
    return value


def check_sizes(shape: Shape) -> None:
    """Refuse a network that would ask for more memory than any model of ours does."""
    if len(shape.convolutions) + len(shape.hidden) > MAX_LAYERS:
        raise NispaError(f"more than {MAX_LAYERS} layers; a model may have that many")
    if not all(0 < n <= MAX_PICTURE for n in (*shape.input, *shape.hidden, shape.classes)):
        raise NispaError(f"sizes {list(shape.input)}, {list(shape.hidden)}, {shape.classes} are out of range")
    if shape.convolutions and any(not (0 < n <= 1 << 20 and 0 < k <= 31) for n, k, _ in shape.convolutions):
        raise NispaError("a convolution has at most 1,048,576 filters of 31x31")
    area = math.prod(shape.input[1:]) if shape.convolutions else 1
    widest = max([math.prod(shape.input), *(n * area for n, _, _ in shape.convolutions)])
    if widest > MAX_PICTURE:
        raise NispaError(f"{widest:,} numbers in a layer for one input; the limit is {MAX_PICTURE:,}")
    for targets, columns, kernel in layer_sizes(shape):
        if targets * columns * math.prod(kernel) > MAX_DENSE:
            raise NispaError(
                f"a layer of {targets:,} x {columns:,} connections; the limit is {MAX_DENSE:,} weights"
            )
