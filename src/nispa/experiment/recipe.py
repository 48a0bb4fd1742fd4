"""Recipes: everything that decides a run, as validated plain data.

A recipe is a small TOML file: a stream with options, a network, a method with hyperparameters. The ones
in ``recipes/`` are the rows of the paper's hyperparameter table. ``--set name=value`` overrides any entry;
``name`` alone means the method's (``lr``), a dotted name any section's (``network.density``), ``stream.``
and an option's name that option (``stream.tasks``).
"""

from __future__ import annotations

import inspect
import json
import reprlib
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from nispa.errors import NispaError, nearest
from nispa.methods import METHODS, method_class

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

AUTHORS = {"network.init": "authors", "method.selection": "all-units", "method.masking": "zero"}
"""What ``--as authors`` sets: every switch of docs/fidelity.md to the authors' code's side."""


SPARSE = ("er", "der", "der++", "icarl", "a-gem", "ni")
"""Baselines that the paper runs at NISPA's density, and dense under the name with ``-d`` after it."""


LIKE = {"nispa-replay+": "nispa-replay", "nispa-free": "nispa"}
"""Methods with the recipes of another, whose hyperparameters they share."""


class Strict(BaseModel):
    """Unknown names are errors, and nothing changes after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StreamConfig(Strict):
    """A stream by name, with the options of its builder."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class NetworkConfig(Strict):
    """The network: the paper's MLP or CNN, of any size."""

    kind: Literal["mlp", "cnn"] = "mlp"
    hidden: list[int] = [400, 400, 400]
    filters: list[int] = [64, 64, 128, 128]
    pool_after: list[int] = [2, 4]
    kernel: int = 3
    density: float = 0.2
    init: str = "fan_in"


class Recipe(Strict):
    """One run but for its seed, engine and threads."""

    stream: StreamConfig
    network: NetworkConfig = NetworkConfig()
    method: dict[str, Any] = Field(default_factory=lambda: {"name": "nispa"})
    note: str = ""

    @property
    def method_name(self) -> str:
        return str(self.method["name"])

    @property
    def label(self) -> str:
        """The method as tables name it: a dense class-incremental baseline ends in ``-d``."""
        dense = self.method_name in SPARSE and self.network.density == 1
        return f"{self.method_name}-d" if dense else self.method_name

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {key: value for key, value in self.method.items() if key != "name"}


@cache
def method_model(name: str) -> type[BaseModel]:
    """A validator made from the keyword arguments of a method's constructor."""
    cls = method_class(name)
    hints = get_type_hints(cls.__init__)
    fields: dict[str, Any] = {"name": (Literal[name], name)}
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "seed":
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
    return create_model(f"{cls.__name__}Config", __base__=Strict, **fields)


def validate(data: Mapping[str, Any], where: str) -> Recipe:
    """A recipe from plain data; the first thing wrong in one line."""
    try:
        recipe = Recipe.model_validate(data)
        name = recipe.method.get("name", "nispa")
        method = method_model(str(name)).model_validate(recipe.method)
    except ValidationError as error:
        raise NispaError(f"{where}: {_explain(error, data)}") from None
    return recipe.model_copy(update={"method": method.model_dump()})


def _explain(error: ValidationError, data: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        # The method is validated apart, so a name that is not in the recipe's top level is one of its.
        top = path[0] in Recipe.model_fields and len(path) > 1
        known: list[str] = []
        if top and path[0] == "network":
            known = list(NetworkConfig.model_fields)
        elif top:
            known = list(StreamConfig.model_fields)
        else:
            method = dict(data.get("method") or {})
            known = [*method_model(str(method.get("name", "nispa"))).model_fields, *Recipe.model_fields]
        return f"unknown name {'.'.join(path)!r}{nearest(path[-1], known)}; known are {', '.join(known)}"
    value = first.get("input")
    shown = f" (got {reprlib.repr(value)})" if not isinstance(value, dict) else ""
    return f"{'.'.join(path)}: {first['msg']}{shown}"


def names() -> list[str]:
    """The recipes shipped in the package."""
    folder = files("nispa.experiment").joinpath("recipes")
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def find(stream: str, method: str | None, overrides: Sequence[str] = (), as_authors: bool = False) -> Recipe:
    """The recipe for ``nispa run STREAM``: STREAM is a recipe's name or TOML file, or a stream's name.

    For a method other than the recipe's own there may be a recipe ``STREAM.METHOD``, or one for every size
    of memory, ``STREAM.METHOD-10`` (``per_class``; other sizes take the row for 100); if there is none,
    the method's defaults are taken with the recipe's stream and network. A class-incremental baseline's
    name with ``-d`` after it is the same method on a dense network.
    """
    dense = method is not None and method not in METHODS and method.removesuffix("-d") in SPARSE
    data = _read(stream, method.removesuffix("-d") if method and dense else method, _per_class(overrides))
    if dense:
        data = apply(data, ["network.density=1.0"])
    if as_authors:
        known = method_model(str(dict(data.get("method") or {}).get("name", "nispa"))).model_fields
        switches = {k: v for k, v in AUTHORS.items() if k.startswith("network.") or k.split(".")[1] in known}
        data = apply(data, [f"{key}={json.dumps(value)}" for key, value in switches.items()])
    return validate(apply(data, overrides), f"recipe {stream!r}")


def _per_class(overrides: Sequence[str]) -> str:
    """The size of memory asked for, which chooses the row of the table."""
    asked = [text.partition("=")[2] for text in overrides if text.startswith("per_class=")]
    return asked[-1] if asked else "100"


def _read(stream: str, method: str | None, per_class: str) -> dict[str, Any]:
    data = parse(Path(stream)) if stream.endswith(".toml") else _named(stream)
    own = dict(data.get("method") or {}).get("name", "nispa")
    if method is None or method == own:
        return data
    method_class(method)
    if method in LIKE:
        data = _read(stream, LIKE[method], per_class)
        return {**data, "method": {**data.get("method", {}), "name": method}}
    for special in (f"{stream}.{method}-{per_class}", f"{stream}.{method}-100", f"{stream}.{method}"):
        if special in names():
            return _shipped(special)
    return {**data, "method": {"name": method}}


def _named(stream: str) -> dict[str, Any]:
    """A recipe of ours, a stream with no recipe, or a user's own images: a folder or a .npz file."""
    from nispa.data.streams import STREAMS

    if stream in names():
        return _shipped(stream)
    if stream in STREAMS:
        return {"stream": {"name": stream}}
    path = Path(stream).expanduser()
    if (stream and path.is_dir()) or (path.suffix == ".npz" and path.exists()):
        return {"stream": {"name": str(path.resolve())}}
    if "/" in stream or path.suffix == ".npz" or path.is_file():
        state = "is a file of another kind" if path.exists() else "does not exist"
        raise NispaError(
            f"{stream} {state}; want a folder of images, a .npz file, a recipe (.toml), or a stream's name"
        )
    known = sorted({*names(), *STREAMS})
    raise NispaError(f"unknown stream {stream!r}{nearest(stream, known)}; `nispa streams` lists them")


def _shipped(name: str) -> dict[str, Any]:
    text = files("nispa.experiment").joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def parse(path: Path) -> dict[str, Any]:
    """A recipe file, or one line about what is wrong with it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NispaError(f"cannot read recipe {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NispaError(f"recipe {path} is not valid TOML: {error}") from None


def apply(data: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """``name=value`` settings laid over a recipe; values are JSON, anything else is text."""
    result: dict[str, Any] = json.loads(json.dumps(data))
    for setting in overrides:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise NispaError(f"--set {setting!r} is not name=value (for example --set lr=0.01)")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        path = name.split(".")
        if path in (["name"], ["method", "name"]):
            raise NispaError(f"--set {setting!r}: choose a method with --method {text}")
        if len(path) == 1 and path[0] not in Recipe.model_fields:
            path = ["method", *path]
        elif len(path) == 2 and path[0] == "stream" and path[1] not in StreamConfig.model_fields:
            path = ["stream", "options", path[1]]
        section = result
        for part in path[:-1]:
            section = section.setdefault(part, {"name": "nispa"} if part == "method" else {})
            if not isinstance(section, dict):
                raise NispaError(f"--set {setting!r}: {part!r} is a value, not a section")
        section[path[-1]] = value
    result.setdefault("method", {}).setdefault("name", "nispa")
    return result


def describe() -> list[tuple[str, str]]:
    """(name, line) of every method."""
    return [(name, line) for name, (_, _, line) in METHODS.items()]
