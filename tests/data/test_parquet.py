import builtins

import numpy as np
import pytest
from data_formats import encoded, samples, write_parquet

from nispa.data.readers.parquet import read_parquet, shards
from nispa.errors import NispaError

pa = pytest.importorskip("pyarrow")
X, Y = samples(120, 10, (3, 32, 32))


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_images_and_labels(tmp_path, kind):
    write_parquet(tmp_path / "train.parquet", X, Y, kind=kind)
    part = read_parquet([tmp_path / "train.parquet"], 10, 3)
    assert np.array_equal(part.images, X)
    assert np.array_equal(part.labels, Y)


def test_other_column_names_jpeg_and_conversion(tmp_path):
    write_parquet(tmp_path / "a.parquet", X, Y, image="image", label="fine_label", kind="JPEG")
    assert read_parquet([tmp_path / "a.parquet"], 100, 1).images.shape == (120, 1, 32, 32)


def test_shards_in_order_and_complete(tmp_path):
    for i in range(2):
        write_parquet(tmp_path / f"train-0000{i}-of-00002.parquet", X[i * 60 :][:60], Y[i * 60 :][:60])
    found = shards(tmp_path, "train")
    assert np.array_equal(read_parquet(found, 10, 3).images, X)
    found[1].unlink()
    with pytest.raises(NispaError, match="1 of 2 files are here"):
        shards(tmp_path, "train")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"pixels": [b"x"], "label": [1]}, "no column img or image"),
        ({"img": [b"x"], "number": [1]}, "no column fine_label"),
        ({"img": [1], "label": [1]}, "its images are int64"),
        ({"img": [{"path": "a"}], "label": [1]}, "its images are struct"),
        ({"img": [b"x"], "label": ["cat"]}, "its labels are string"),
        ({"img": [None, b"x"], "label": [1, 1]}, "rows without image bytes"),
        ({"img": [{"bytes": b"x"}], "label": [1]}, "row 0: not a readable image"),
        ({"img": [encoded(X[0])], "label": [10]}, "label 10 is outside 0-9"),
        ({"img": [encoded(X[0]), encoded(X[0][:, :9])], "label": [1, 1]}, "row 1: 9 x 32 pixels"),
        ({"img": pa.array([], pa.binary()), "label": pa.array([], pa.int64())}, "holds no images"),
    ],
)
def test_wrong_tables(tmp_path, table, message):
    import pyarrow.parquet as pq

    path = tmp_path / "train.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(NispaError, match=message) as caught:
        read_parquet([path], 10, 3)
    assert str(path) in str(caught.value)


def test_truncated_and_foreign(tmp_path):
    path = tmp_path / "train.parquet"
    write_parquet(path, X[:10], Y[:10])
    data = path.read_bytes()
    for wrong in (data[:-9], data[: len(data) // 2], b"", b"PAR1"):
        path.write_bytes(wrong)
        with pytest.raises(NispaError, match="damaged or no parquet file"):
            read_parquet([path], 10, 3)


def test_without_pyarrow_one_line_says_what_to_install(tmp_path, monkeypatch):
    write_parquet(tmp_path / "train.parquet", X[:2], Y[:2])
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NispaError, match=r"needs pyarrow; pip install 'nispa\[data\]'"):
        read_parquet([tmp_path / "train.parquet"], 10, 3)
