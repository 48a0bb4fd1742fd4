import io
import zipfile

import numpy as np
import pytest
from data_formats import samples

from nispa.data.readers.npz import read_npz
from nispa.errors import NispaError

X, Y = samples(12, 4, (8, 8))


def save(tmp_path, **arrays):
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


@pytest.mark.parametrize(
    "names", [("x_train", "y_train"), ("images", "labels"), ("train_images", "train_labels")]
)
def test_names(tmp_path, names):
    found = read_npz(save(tmp_path, **dict(zip(names, (X, Y), strict=True))))
    assert np.array_equal(found.train.images[:, 0], X)
    assert np.array_equal(found.train.labels, Y)
    assert found.test is None


def test_test_and_validation_parts(tmp_path):
    found = read_npz(
        save(tmp_path, x_train=X, y_train=Y, x_test=X[:4], y_test=Y[:4], x_val=X[:2], y_val=Y[:2])
    )
    assert {name: len(part) for name, part in found.parts().items()} == {
        "train": 12,
        "validation": 2,
        "test": 4,
    }


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ((12, 8, 8), (1, 8, 8)),
        ((12, 8, 8, 3), (3, 8, 8)),
        ((12, 3, 8, 8), (3, 8, 8)),
        ((12, 8, 8, 1), (1, 8, 8)),
        ((12, 5), (5,)),
    ],
)
def test_layouts(tmp_path, given, shape):
    x = np.arange(np.prod(given), dtype=np.uint8).reshape(given)
    images = read_npz(save(tmp_path, x=x, y=Y)).train.images
    assert images.shape[1:] == shape
    if given[-1] == 3:
        assert np.array_equal(images.transpose(0, 2, 3, 1), x)


def test_floats_column_labels_and_fortran_order(tmp_path):
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(12, 5)))
    part = read_npz(save(tmp_path, x=x, y=Y[:, None].astype(np.uint8))).train
    assert part.images.dtype == np.float32
    assert np.allclose(part.images, x)
    assert np.array_equal(part.labels, Y)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "y": Y[:-1]}, "12 images but 11 labels"),
        ({"x": X}, "want x_train and y_train"),
        ({"x": X, "y": Y.astype(float)}, "one integer class number"),
        ({"x": X, "y": Y - 1}, "class numbers -1"),
        ({"x": np.array([{}] * 12), "y": Y}, "objects are never loaded"),
        ({"x": np.array(["a"] * 12), "y": Y}, "want numbers"),
        ({"x": np.zeros((12, 2, 2, 2, 2), np.uint8), "y": Y}, "shape"),
    ],
)
def test_wrong_arrays(tmp_path, arrays, message):
    with pytest.raises(NispaError, match=message):
        read_npz(save(tmp_path, **arrays))


def header(shape):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@pytest.mark.parametrize("shape", [(1 << 50,), (1 << 20, 1 << 20, 1 << 20), (-1, 5), (12, 9)])
def test_a_header_that_lies_asks_for_no_memory(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header(shape) + bytes(12 * 8))
        archive.writestr("y.npy", header((12,)) + bytes(12))
    with pytest.raises(NispaError, match=r"damaged|truncated"):
        read_npz(tmp_path / "a.npz")


def test_zip_bomb(tmp_path):
    path = save(tmp_path, x=np.zeros((12, 1 << 19), np.uint8), y=Y)
    assert path.stat().st_size < 20_000
    with pytest.raises(NispaError, match="too large"):
        read_npz(path, limit=1 << 20)


def test_truncated_and_foreign(tmp_path):
    path = save(tmp_path, x=X, y=Y)
    data = path.read_bytes()
    for wrong in (data[:-30], data[:100], b"", b"no zip"):
        path.write_bytes(wrong)
        with pytest.raises(NispaError, match=str(path)):
            read_npz(path)
