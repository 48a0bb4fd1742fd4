"""Where the user's cache is."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """NISPA_CACHE, or the user's cache folder as XDG has it."""
    if own := os.environ.get("NISPA_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "nispa"
