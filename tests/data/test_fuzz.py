"""Whatever bytes a file holds: a NispaError, or a well-formed data set; never another exception,
never a hang, never much more memory than the file is worth."""

import gzip
import tracemalloc

import numpy as np
import pytest
from data_formats import (
    cifar_binary,
    cifar_python,
    encoded,
    idx_bytes,
    new_pickle,
    samples,
    tar_bytes,
    write_parquet,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nispa.data.readers.archive import read_tar, read_zip
from nispa.data.readers.cifar import read_binary, read_python
from nispa.data.readers.common import Part
from nispa.data.readers.idx import read_idx_pair
from nispa.data.readers.images import decode
from nispa.data.readers.npz import read_npz
from nispa.data.readers.parquet import read_parquet
from nispa.errors import NispaError

fuzz = settings(max_examples=150, deadline=5000, suppress_health_check=list(HealthCheck), derandomize=True)
few = settings(fuzz, max_examples=60)
X, Y = samples(6, 4, (28, 28))
COLOUR, NUMBERS = samples(4, 4, (3, 32, 32))

place = st.integers(0, 1 << 20)
edit = st.one_of(
    st.tuples(st.just("cut"), place, place),
    st.tuples(st.just("byte"), place, st.integers(0, 255)),
    st.tuples(st.just("bit"), place, st.integers(0, 7)),
    st.tuples(st.just("insert"), place, st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("delete"), place, st.integers(1, 16)),
    st.tuples(st.just("early"), st.integers(0, 40), st.integers(0, 255)),
    st.tuples(st.just("big"), st.integers(0, 64), st.just(0)),
)
edits = st.lists(edit, max_size=4)


def changed(data, changes):
    out = bytearray(data)
    for kind, where, what in changes:
        at = where % max(1, len(out))
        if kind == "cut":
            del out[at:]
        elif kind in ("byte", "early") and out:
            out[at] = what
        elif kind == "bit" and out:
            out[at] ^= 1 << what
        elif kind == "insert":
            out[at:at] = what
        elif kind == "delete":
            del out[at : at + what]
        elif kind == "big":
            out[at : at + 4] = b"\xff\xff\xff\x7f"
    return bytes(out)


def attempt(read, limit=48 << 20):
    """The result, or None after a NispaError in one line."""
    lines = 1
    tracemalloc.start()
    try:
        return read()
    except NispaError as error:
        lines = str(error).count("\n") + 1
        return None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < limit
        assert lines == 1


def well_formed(part, classes, shape=None):
    if part is None:
        return
    assert isinstance(part, Part)
    assert len(part.images) == len(part.labels) > 0
    assert part.labels.dtype == np.int64
    assert part.labels.min() >= 0
    assert part.labels.max() < classes
    if shape is not None:
        assert part.images.shape[1:] == shape
        assert part.images.dtype == np.uint8


@fuzz
@given(edits, edits, st.booleans(), st.booleans())
def test_idx(tmp_path_factory, image_edits, label_edits, outer, swap):
    folder = tmp_path_factory.mktemp("idx")
    contents = []
    for array, changes in ((X, image_edits), (Y, label_edits)):
        data = idx_bytes(array)
        contents.append(changed(gzip.compress(data, 1), changes) if outer else changed(data, changes))
    for name, data in zip(("images", "labels"), contents[::-1] if swap else contents, strict=True):
        (folder / name).write_bytes(data)
    part = attempt(lambda: read_idx_pair(folder / "images", folder / "labels", 4))
    well_formed(part, 4)
    if swap:
        assert part is None or image_edits or label_edits
    elif not image_edits and not label_edits:
        assert np.array_equal(part.images[:, 0], X)


@fuzz
@given(edits)
def test_gzipped_idx_with_a_changed_inside(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("idx")
    (folder / "images").write_bytes(gzip.compress(changed(idx_bytes(X), changes), 1))
    (folder / "labels").write_bytes(idx_bytes(Y))
    well_formed(attempt(lambda: read_idx_pair(folder / "images", folder / "labels", 4)), 4)


@fuzz
@given(edits, st.sampled_from([10, 100]), st.booleans())
def test_cifar_binary(changes, classes, coarse):
    payload = changed(cifar_binary(COLOUR, NUMBERS, coarse), changes)
    well_formed(attempt(lambda: read_binary(payload, "data", classes)), classes, (3, 32, 32))


# small pixels in the middle: most edits then hit the pickle's own opcodes
PICKLES = [cifar_python(COLOUR[:1], NUMBERS[:1]), new_pickle(COLOUR[:1], NUMBERS[:1])]


@settings(fuzz, max_examples=600)
@given(edits, st.sampled_from(PICKLES), st.integers(0, 1))
def test_cifar_pickles(changes, payload, end):
    if end:  # edits near the end of the file, where the labels are
        changes = [(kind, len(payload) - 1 - where % 80, what) for kind, where, what in changes]
    changed_payload = changed(payload, changes)
    well_formed(attempt(lambda: read_python(changed_payload, "data", 10)), 10, (3, 32, 32))


OPCODES = b"().]}{ltRbasueNq\x00\x01h\x01K\x01U\x01xcos\nsystem\n2p0g\x85\x86\x87\x88\x8c\x8f\x93\x94"


@settings(fuzz, max_examples=600)
@given(st.lists(st.sampled_from(OPCODES), max_size=60))
def test_opcode_soup(pieces):
    attempt(lambda: read_python(b"\x80\x02" + bytes(pieces), "soup", 10))


@fuzz
@given(edits, st.sampled_from(["PNG", "JPEG", "WEBP", "BMP", "GIF"]))
def test_images(changes, kind):
    data = changed(encoded(COLOUR[0], kind), changes)
    image = attempt(lambda: decode(data, "image"), limit=1 << 30)  # up to 64 million pixels are allowed
    assert image is None or (image.dtype == np.uint8 and image.ndim == 3 and len(image) in (1, 3))


@fuzz
@given(edits, st.booleans())
def test_npz(tmp_path_factory, changes, compress):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    (np.savez_compressed if compress else np.savez)(path, x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2])
    path.write_bytes(changed(path.read_bytes(), changes))
    found = attempt(lambda: read_npz(path))
    for part in found.parts().values() if found else ():
        well_formed(part, 1 << 20)


@few
@given(edits)
def test_parquet(tmp_path_factory, changes):
    pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("parquet") / "train.parquet"
    write_parquet(path, COLOUR, NUMBERS)
    path.write_bytes(changed(path.read_bytes(), changes))
    well_formed(attempt(lambda: read_parquet([path], 10, 3)), 10)


@few
@given(edits, st.booleans())
def test_tar(tmp_path_factory, changes, outer):
    path = tmp_path_factory.mktemp("tar") / "a.tar.gz"
    data = tar_bytes({"a/one": b"1" * 700, "a/two": b"2"})
    path.write_bytes(
        changed(data, changes) if outer else gzip.compress(changed(gzip.decompress(data), changes), 1)
    )
    found = attempt(lambda: read_tar(path, ["one"]))
    assert found is None or set(found) == {"one"}


@few
@given(edits)
def test_zip(tmp_path_factory, changes):
    path = tmp_path_factory.mktemp("zip") / "a.zip"
    np.savez_compressed(path, one=X)
    (made,) = path.parent.iterdir()
    made.write_bytes(changed(made.read_bytes(), changes))
    found = attempt(lambda: read_zip(made, ["one.npy"]))
    assert found is None or set(found) == {"one.npy"}
