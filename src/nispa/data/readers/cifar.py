"""CIFAR-10 and CIFAR-100 as their authors publish them: binary records, and python batches.

The python batches are pickles. They are never unpickled: `pickletools.genops` lists the opcodes, and a
small stack machine follows those that dicts, lists, strings, integers and one array of bytes need.
It builds no object and calls nothing; any other opcode or name is refused.
"""

from __future__ import annotations

import io
import pickletools
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nispa.data.readers.common import Part, check_labels, one_line, pair
from nispa.errors import NispaError

PIXELS = 3 * 32 * 32


def read_binary(payload: bytes, path: Path | str, classes: int) -> Part:
    """Records of one label byte (CIFAR-100: coarse, then fine) and 3072 pixels."""
    labels = 1 if classes == 10 else 2
    if not payload or len(payload) % (labels + PIXELS):
        raise NispaError(
            f"{path}: {len(payload):,} bytes are no whole number of {labels + PIXELS}-byte records;"
            " truncated, or another CIFAR; get the file again"
        )
    records = np.frombuffer(payload, np.uint8).reshape(-1, labels + PIXELS)
    numbers = check_labels(records[:, labels - 1], classes, path)
    return Part(np.ascontiguousarray(records[:, labels:]).reshape(-1, 3, 32, 32), numbers)


def read_python(payload: bytes, path: Path | str, classes: int) -> Part:
    """One python batch: the pixels under ``data``, the numbers under ``labels`` or ``fine_labels``."""
    batch = walk_pickle(payload, path)
    key = "labels" if classes == 10 else "fine_labels"
    data, numbers = batch.get("data"), batch.get(key)
    if not isinstance(data, _Array) or not isinstance(numbers, list):
        raise NispaError(f"{path}: no 'data' array or no {key!r} list in it; not a CIFAR-{classes} batch")
    pixels = data.array(path)
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise NispaError(f"{path}: pixels of shape {pixels.shape}, want (N, {PIXELS}); get the file again")
    if not all(type(n) is int and 0 <= n < classes for n in numbers):
        raise NispaError(f"{path}: labels that are no numbers in 0-{classes - 1}; get the file again")
    return pair(pixels.reshape(-1, 3, 32, 32), np.array(numbers, np.int64), path, path)


@dataclass
class _Array:
    """What a pickled numpy array says about itself, not yet believed."""

    state: Any = None

    def array(self, path: Path | str) -> np.ndarray:
        match self.state:
            case (1, tuple(shape), _Dtype("u1"), fortran, (str() | bytes()) as data) if not fortran:
                raw = data.encode("latin-1") if isinstance(data, str) else data
                if all(type(n) is int and n >= 0 for n in shape) and len(raw) == int(
                    np.prod(shape, dtype=object)
                ):
                    return np.frombuffer(raw, np.uint8).reshape(shape)
        raise NispaError(f"{path}: its 'data' is not a plain uint8 array; get the file again")


@dataclass
class _Dtype:
    code: str
    __match_args__ = ("code",)


@dataclass(frozen=True)
class _Name:
    name: str


_NAMES = {
    f"{module} {name}"
    for module in ("numpy.core.multiarray", "numpy._core.multiarray")
    for name in ("_reconstruct",)
} | {"numpy ndarray", "numpy dtype", "_codecs encode"}
_STRINGS = {"STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"}
_VALUES = _STRINGS | {
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINUNICODE8"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_MARK = object()


def walk_pickle(payload: bytes, path: Path | str) -> Mapping[str, Any]:
    """The dict that a pickle of plain data describes, without unpickling it."""
    machine = _Machine()
    try:
        # from a BytesIO: a lying length cannot make it allocate more than the file holds
        for opcode, argument, _ in pickletools.genops(io.BytesIO(payload)):
            if opcode.name == "STOP":
                break
            machine.step(opcode.name, argument)
        result = machine.stack[-1]
    except _RefusedError as refused:
        raise NispaError(
            f"{path}: a pickle with {refused} in it, which no CIFAR batch has; refused"
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error) as error:
        raise NispaError(f"{path}: damaged or truncated ({one_line(error)}); get the file again") from None
    if not isinstance(result, dict):
        raise NispaError(f"{path}: no dict of data and labels; not a CIFAR batch")
    return result


class _RefusedError(Exception):
    pass


class _Machine:
    """The stack of the pickle language, for plain data alone."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def to_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("no mark on the stack")
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def step(self, op: str, argument: Any) -> None:
        push, pop = self.stack.append, self.stack.pop
        if op in _VALUES:
            push(argument)
        elif op in _CONSTANTS:
            push(_CONSTANTS[op])
        elif op in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if argument is None else argument] = self.stack[-1]
        elif op in ("GET", "BINGET", "LONG_BINGET"):
            push(self.memo[argument])
        elif op == "MARK":
            push(_MARK)
        elif op in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
            push({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[op]())
        elif op in ("TUPLE", "LIST"):
            push(tuple(self.to_mark()) if op == "TUPLE" else self.to_mark())
        elif op in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(op[-1])
            items = self.stack[-count:]
            del self.stack[-count:]
            push(tuple(items))
        elif op in ("APPEND", "APPENDS"):
            items = [pop()] if op == "APPEND" else self.to_mark()
            _want(self.stack[-1], list).extend(items)
        elif op in ("SETITEM", "SETITEMS", "DICT"):
            self._set_items(op)
        elif op in ("GLOBAL", "STACK_GLOBAL"):
            name = argument if op == "GLOBAL" else " ".join(reversed([str(pop()), str(pop())]))
            if name not in _NAMES:
                raise _RefusedError(f"the name {str(name)[:60]!r}")
            push(_Name(name))
        elif op == "REDUCE":
            arguments = _want(pop(), tuple)
            push(_reduced(_want(pop(), _Name).name, arguments))
        elif op == "BUILD":
            state, target = pop(), self.stack[-1]
            if isinstance(target, _Array):
                target.state = state
            elif not isinstance(target, _Dtype):
                raise _RefusedError("a BUILD of something else than an array")
        elif op not in ("PROTO", "FRAME"):
            raise _RefusedError(f"the opcode {op}")

    def _set_items(self, op: str) -> None:
        items = [self.stack.pop(), self.stack.pop()][::-1] if op == "SETITEM" else self.to_mark()
        if op == "DICT":
            self.stack.append({})
        target = _want(self.stack[-1], dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key.decode("latin-1") if isinstance(key, bytes) else _want(key, str)] = value


def _want(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} where a {kind.__name__} belongs")
    return value


def _reduced(name: str, arguments: tuple[Any, ...]) -> Any:
    """What the three calls of a pickled uint8 array stand for; nothing is called."""
    if name == "_codecs encode":
        return _want(arguments[0], str).encode("latin-1")
    if name == "numpy dtype":
        return _Dtype(str(arguments[0]))
    if name.endswith("_reconstruct"):
        return _Array()
    raise _RefusedError(f"a call of {name}")
