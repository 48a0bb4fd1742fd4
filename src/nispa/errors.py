"""The one error that is meant for the user's eyes.

Everything that can go wrong because of what a user typed, or of what lies on a user's disk, ends in a
`NispaError`: one line that names the thing, the value, and what to do. The command line prints that line
and nothing else; any other exception is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["NispaError", "nearest"]


class NispaError(Exception):
    """One line for the user: the thing, the value, what to do."""


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint to append to "unknown NAME": the likeliest spelling, or nothing.

    >>> nearest("cifra10", ["cifar10", "mnist"])
    "; did you mean 'cifar10'?"
    >>> nearest("imagenet", ["cifar10", "mnist"])
    ''
    """
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean '{by_lower[close[0]]}'?" if close else ""
