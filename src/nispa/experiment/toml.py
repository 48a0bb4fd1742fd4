"""Recipes as TOML text: what Python reads but cannot write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nispa.experiment.recipe import Recipe


def as_toml(recipe: Recipe) -> str:
    """A recipe file that reads back as the same recipe.

    >>> from nispa.experiment.recipe import find
    >>> "[stream]" in as_toml(find("digits", "stl")).splitlines()
    True
    """
    plain = recipe.model_dump()
    lines = [f"note = {_value(plain.pop('note'))}", ""] if recipe.note else []
    if not recipe.note:
        plain.pop("note")
    for section, entries in plain.items():
        lines += [f"[{section}]", *(f"{k} = {_value(v)}" for k, v in entries.items() if v is not None), ""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, float):
        return repr(value)  # 1e-05 as it is; JSON's numbers are TOML's
    return json.dumps(value, ensure_ascii=False)
