"""Readers, one per format: plain arrays out, `NispaError` with the file's name for anything wrong."""

from nispa.data.readers.common import ImageSet, Part

__all__ = ["ImageSet", "Part"]
