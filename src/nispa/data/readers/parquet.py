"""Hugging Face image data sets: parquet files with encoded images and labels."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nispa.data.readers.common import MAX_BYTES, Part, check_labels, join, one_line, pair
from nispa.data.readers.images import decode_all
from nispa.errors import NispaError

IMAGE_COLUMNS = ("img", "image")
LABEL_COLUMNS = ("fine_label", "label", "labels")
ROWS = 1000
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(-[0-9a-f]+)?\.parquet$")


def shards(folder: Path, part: str) -> list[Path]:
    """The files of one part: ``train.parquet`` or ``train-00000-of-00002.parquet`` and so on."""
    plain = folder / f"{part}.parquet"
    if plain.is_file():
        return [plain]
    found = sorted(f for f in folder.glob(f"{part}-*.parquet") if _SHARD.search(f.name))
    if found:
        match = _SHARD.search(found[0].name)
        total = int(match[2]) if match else len(found)
        if len(found) != total:
            raise NispaError(f"{found[0]}: {len(found)} of {total} files are here; get the missing ones")
    return found


def read_parquet(
    files: Sequence[Path], classes: int, channels: int | None, size: tuple[int, int] | None = None
) -> Part:
    """Decode the images of all files of one part, stretched to ``size`` if given."""
    return join([_read_file(path, classes, channels, size) for path in files], files[0])


def _read_file(path: Path, classes: int, channels: int | None, size: tuple[int, int] | None) -> Part:
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    total = 0
    for encoded, numbers in _rows(path):
        first = sum(map(len, labels))
        names = [f"{path}, row {first + i}" for i in range(len(encoded))]
        images.append(decode_all(encoded, names, size, channels))
        labels.append(check_labels(numbers, classes, path))
        total += images[-1].nbytes
        if images[-1].shape[1:] != images[0].shape[1:]:
            raise NispaError(f"{names[0]}: {images[-1].shape[1:]}, but row 0 is {images[0].shape[1:]}")
        if total > MAX_BYTES:
            raise NispaError(f"{path}: unpacks to more than {MAX_BYTES:,} bytes; this is no data set of ours")
    if not images:
        raise NispaError(f"{path}: holds no images")
    return pair(np.concatenate(images), np.concatenate(labels), path, path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """pyarrow and the open file; whatever is wrong with it is one line."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise NispaError(f"{path}: reading parquet needs pyarrow; pip install 'nispa[data]'") from None
    try:
        yield arrow, parquet.ParquetFile(path, page_checksum_verification=True)
    except (arrow.ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
        raise NispaError(f"{path}: damaged or no parquet file ({one_line(error)}); get it again") from None


def has_images(path: Path) -> bool:
    """A data set of images, not a table of numbers."""
    with _opened(path) as (_, file):
        return any(name in file.schema_arrow.names for name in IMAGE_COLUMNS)


def class_names(path: Path) -> list[str]:
    """The class names that Hugging Face's datasets keep in a file's metadata; none if there are none."""
    with _opened(path) as (_, file):
        schema = file.schema_arrow
        label = _column(path, schema.names, LABEL_COLUMNS)
        try:
            about = json.loads((schema.metadata or {})[b"huggingface"])
            names = about["info"]["features"][label]["names"]
            return [str(name) for name in names]
        except (LookupError, TypeError, ValueError):
            return []


def read_table(path: Path) -> tuple[list[str], list[list[Any]]]:
    """(column names, rows) of a table of numbers with a column of classes."""
    with _opened(path) as (arrow, file):
        if file.metadata.num_rows * file.metadata.num_columns * 8 > MAX_BYTES:
            raise NispaError(f"{path}: unpacks to more than {MAX_BYTES:,} bytes; this is no data set of ours")
        table = file.read(use_threads=False)
        table.validate(full=True)
        for field in table.schema:
            kind = field.type
            known = (arrow.types.is_integer, arrow.types.is_floating, arrow.types.is_string)
            if not any(check(kind) for check in (*known, arrow.types.is_large_string)):
                raise NispaError(f"{path}: column {field.name!r} holds {kind}; want numbers, and the classes")
        columns = [column.to_pylist() for column in table.columns]
        return table.column_names, [list(row) for row in zip(*columns, strict=True)]


def _rows(path: Path) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """(encoded images, labels), ``ROWS`` at a time."""
    with _opened(path) as (arrow, file):
        schema = file.schema_arrow
        image = _column(path, schema.names, IMAGE_COLUMNS)
        label = _column(path, schema.names, LABEL_COLUMNS)
        _check_types(path, arrow, schema.field(image).type, schema.field(label).type)
        for batch in file.iter_batches(ROWS, columns=[image, label], use_threads=False):
            batch.validate(full=True)
            column, numbers = batch.column(image), batch.column(label)
            encoded = column.field("bytes") if arrow.types.is_struct(column.type) else column
            if encoded.null_count or column.null_count or numbers.null_count:
                raise NispaError(f"{path}: rows without image bytes or label; get the complete data set")
            yield encoded.to_pylist(), numbers.to_numpy(zero_copy_only=False)


def _column(path: Path, names: Sequence[str], wanted: Sequence[str]) -> str:
    for name in wanted:
        if name in names:
            return name
    raise NispaError(f"{path}: no column {' or '.join(wanted)} (it has {', '.join(names)[:80]})")


def _check_types(path: Path, arrow: Any, image: Any, label: Any) -> None:
    types = arrow.types
    if types.is_struct(image):
        fields = [image.field(i).name for i in range(image.num_fields)]
        image = image.field(fields.index("bytes")).type if "bytes" in fields else image
    if not (types.is_binary(image) or types.is_large_binary(image)):
        raise NispaError(f"{path}: its images are {image}, want encoded bytes or a struct with bytes")
    if not types.is_integer(label):
        raise NispaError(f"{path}: its labels are {label}, want integers")
