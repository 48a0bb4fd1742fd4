"""One encoded image (PNG, JPEG, WebP, BMP, GIF) to a uint8 array ``[C, H, W]``."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from nispa.data import large
from nispa.data.readers.common import one_line
from nispa.errors import NispaError

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"}
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
# A phone's picture has 12 to 50 million pixels; a bomb has far more in a few kilobytes.
MAX_PIXELS = 64_000_000
# Threads pay where decoding outside Python's lock is most of the work; on CIFAR's 2 kB they cost double.
THREADS_FROM = 20_000


def decode(
    source: bytes | Path,
    what: str,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    limit: int = MAX_PIXELS,
) -> np.ndarray:
    """Decode, turn as EXIF says, convert to 1 or 3 channels and stretch to ``size`` (height, width).

    Without ``channels`` grey images have one and others three. Transparent pixels are put on white.
    """
    try:
        opened = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)
        with opened as image:
            if image.width * image.height > limit:
                raise NispaError(
                    f"{what}: {image.width} x {image.height} pixels, more than {limit:,};"
                    " shrink it or take it out"
                )
            return pixels(ImageOps.exif_transpose(image), size, channels)
    except NispaError:
        raise
    except Exception as error:
        # Pillow's decoders meet damaged files with many kinds of exception, SyntaxError among them
        raise NispaError(f"{what}: not a readable image ({one_line(error)})") from None


def pixels(image: Image.Image, size: tuple[int, int] | None, channels: int | None) -> np.ndarray:
    """A Pillow image as uint8 `[C, H, W]`, as `decode` does it."""
    if image.mode in ("I", "F"):
        raise ValueError(f"mode {image.mode} has 32 bits a pixel; save it with 8")
    if image.mode.startswith("I;16"):  # convert("L") would clip, not scale
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    grey = channels == 1 or (channels is None and image.mode in ("1", "L", "LA"))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("L" if grey else "RGB")
    if size is not None and image.size != (size[1], size[0]):
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    values = np.asarray(image)
    return values[None] if grey else np.ascontiguousarray(values.transpose(2, 0, 1))


def decode_all(
    sources: Sequence[bytes | Path],
    names: Sequence[str],
    size: tuple[int, int] | None = None,
    channels: int | None = None,
) -> np.ndarray:
    """Decode many images that must come out alike, in order: ``[N, C, H, W]``."""
    sample = [len(s) if isinstance(s, bytes) else s.stat().st_size for s in sources[:100]]

    def one(item: tuple[bytes | Path, str]) -> np.ndarray:
        return decode(*item, size, channels)

    items = zip(sources, names, strict=True)
    if sum(sample) < THREADS_FROM * len(sample):
        return stack(map(one, items), names)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return stack(pool.map(one, items), names)


def stack(images: Iterable[np.ndarray], names: Sequence[str]) -> np.ndarray:
    """One array of images that must be alike; the message names the first that is not."""
    result: np.ndarray = np.empty(0, np.uint8)
    for i, (image, name) in enumerate(zip(images, names, strict=True)):
        if i == 0:
            result = large.empty((len(names), *image.shape), image.dtype)
        if image.shape != result.shape[1:]:
            want, got = result.shape[1:], image.shape
            advice = "give channels=1 or channels=3" if want[0] != got[0] else "give size=(height, width)"
            raise NispaError(f"{name}: {_text(got)}, but {names[0]} is {_text(want)}; {advice}")
        result[i] = image
    return result


def _text(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[2]} pixels in {shape[0]} channel{'s' if shape[0] > 1 else ''}"
