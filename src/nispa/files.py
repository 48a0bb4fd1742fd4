"""Learners on disk: one safetensors file with JSON metadata. Reading one runs no code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nispa import atomic
from nispa.errors import NispaError
from nispa.learner import Learner, State

FORMAT, VERSION = "nispa-learner", 1


def save(learner: Learner, path: str | Path, **extra: Any) -> None:
    """Write a learner with everything it has learned, atomically. ``extra`` is JSON of the caller's."""
    from safetensors.torch import save as to_bytes

    state = learner.state()
    description = {
        "format": FORMAT,
        "version": VERSION,
        "method": learner.name,
        "hyperparameters": learner.hyperparameters(),
        "state": state.data,
        "extra": extra,
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
    text = json.dumps(description)
    atomic.write(path, to_bytes(tensors, {"nispa": text, "sha256": _digest(text, tensors)}))


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """Over everything that a file says, so that not one flipped bit goes unnoticed."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = tensors[name].numpy()
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def read(path: str | Path) -> tuple[State, dict[str, Any]]:
    """A file's state and metadata, checked; a damaged or foreign file gives one clear line."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            if "nispa" not in metadata:
                raise NispaError(f"{path} is a safetensors file but not one of NISPA's")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise NispaError(f"{path} does not exist") from None
    except (OSError, SafetensorError) as error:
        raise NispaError(f"{path} is not a readable NISPA file ({error}); it is damaged or foreign") from None
    text = metadata["nispa"]
    try:
        description = json.loads(text)
        known = description["format"] == FORMAT and description["version"] <= VERSION
        state = State(tensors, dict(description["state"]))
        dict(description["hyperparameters"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NispaError(f"{path}: its description is not readable; the file is damaged") from None
    if not known:
        raise NispaError(
            f"{path} has format {description['format']!r} version {description['version']},"
            f" this program reads {FORMAT!r} up to {VERSION}; update nispa"
        )
    if not _whole(metadata, tensors):
        raise NispaError(f"{path}: its content does not match its checksum; the file is damaged")
    return state, description


def _whole(metadata: dict[str, str], tensors: dict[str, Tensor]) -> bool:
    try:
        return metadata.get("sha256") == _digest(metadata["nispa"], tensors)
    except TypeError:  # a number format that we never write
        return False


def load(path: str | Path) -> Learner:
    """The learner of a file, ready to answer and to learn on."""
    from nispa.methods import method_class
    from nispa.state import build_network

    state, metadata = read(path)
    try:
        cls = method_class(metadata["method"])
        learner = cls(build_network(state.tensors, state.data["network"]), **metadata["hyperparameters"])
        learner.load_state(state)
    except NispaError as error:
        raise NispaError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise NispaError(f"{path}: its description does not fit ({error}); the file is damaged") from None
    return learner
