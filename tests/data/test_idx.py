import gzip

import numpy as np
import pytest
from data_formats import idx_bytes, samples

from nispa.data.readers import common, idx
from nispa.data.readers.idx import read_idx, read_idx_pair
from nispa.errors import NispaError

X, Y = samples(12, 5, (28, 28))


def write(tmp_path, images=None, labels=None, compress=False):
    pack = gzip.compress if compress else bytes
    paths = tmp_path / "images", tmp_path / "labels"
    paths[0].write_bytes(pack(idx_bytes(X) if images is None else images))
    paths[1].write_bytes(pack(idx_bytes(Y) if labels is None else labels))
    return paths


@pytest.mark.parametrize("compress", [False, True])
def test_reads_plain_and_gzipped_whatever_the_name(tmp_path, compress):
    part = read_idx_pair(*write(tmp_path, compress=compress), classes=5)
    assert np.array_equal(part.images[:, 0], X)
    assert np.array_equal(part.labels, Y)
    assert part.images.dtype == np.uint8
    assert part.labels.dtype == np.int64


def test_plain_files_are_memory_mapped(tmp_path):
    assert isinstance(read_idx(write(tmp_path)[0], 3), np.memmap)


def test_emnist_is_turned_upright(tmp_path):
    part = read_idx_pair(*write(tmp_path, idx_bytes(X.swapaxes(1, 2))), classes=5, transposed=True)
    assert np.array_equal(part.images[:, 0], X)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    ("images", "message"),
    [
        (idx_bytes(X)[:-1], "truncated, 9,407 of 9,408 bytes"),
        (idx_bytes(X) + b"x", "more than the 9,408 bytes"),
        (idx_bytes(X)[:10], "truncated in its header"),
        (b"\0", "not even an idx header"),
        (b"\x89PNG" + idx_bytes(X), "magic number"),
        (idx_bytes(Y), "holds labels, want images; are two files swapped"),
        (idx_bytes(X[:11]), "11 images but 12 labels"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "its header is damaged"),
    ],
)
def test_wrong_files_name_themselves_in_one_line(tmp_path, images, message, compress):
    with pytest.raises(NispaError, match=message) as caught:
        read_idx_pair(*write(tmp_path, images, compress=compress), classes=5)
    assert str(tmp_path / "images") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_of_another_data_set(tmp_path):
    with pytest.raises(NispaError, match="label 4 is outside 0-3"):
        read_idx_pair(*write(tmp_path), classes=4)


def test_damaged_gzip(tmp_path):
    images, labels = write(tmp_path, compress=True)
    data = bytearray(images.read_bytes())
    images.write_bytes(data[: len(data) // 2])
    with pytest.raises(NispaError, match="damaged or truncated"):
        read_idx_pair(images, labels, classes=5)


def test_gzip_bomb_stops_at_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "MAX_BYTES", 1 << 20)
    path = tmp_path / "bomb"
    header = b"\0\0\x08\x03" + (40_000).to_bytes(4, "big") + (28).to_bytes(4, "big") * 2
    path.write_bytes(gzip.compress(header + bytes(40_000 * 28 * 28)))
    monkeypatch.setattr(idx, "open_bounded", lambda p: common.open_bounded(p, 1 << 20))
    with pytest.raises(NispaError, match="unpacks to more than 1,048,576 bytes"):
        read_idx(path, 3)


def test_missing_file():
    with pytest.raises(NispaError, match="cannot be read"):
        read_idx(common.Path("nowhere/train"), 3)
