"""Small data sets in every format that the readers understand."""

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
from PIL import Image


def samples(count, classes, shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8), np.arange(count) % classes


def idx_bytes(array):
    array = np.ascontiguousarray(array, np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder, train, test, prefix="", compress=True):
    """MNIST's four files; images are [N, 28, 28]."""
    folder.mkdir(parents=True, exist_ok=True)
    held = "test" if prefix else "t10k"
    for part, (x, y) in (("train", train), (held, test)):
        for stem, array in ((f"{part}-images-idx3-ubyte", x), (f"{part}-labels-idx1-ubyte", y)):
            data = idx_bytes(array)
            name = prefix + stem + (".gz" if compress else "")
            (folder / name).write_bytes(gzip.compress(data, 1) if compress else data)


def mnist_like(folder, count=60, classes=10, prefix="", compress=True):
    train = samples(count, classes, (28, 28), 1)
    test = samples(count // 2, classes, (28, 28), 2)
    write_idx(folder, train, test, prefix, compress)
    return train, test


def cifar_python(x, y, key=b"labels"):
    """A batch as its authors pickled it: protocol 2, byte strings as keys."""
    return old_pickle({b"data": x.reshape(len(x), -1), key: y.tolist(), b"batch_label": b"a batch"})


def old_pickle(batch):
    """Protocol 2 as Python 2 wrote it: byte strings are SHORT_BINSTRING and BINSTRING, numpy.core names."""
    out = bytearray(b"\x80\x02}(")
    for key, value in batch.items():
        out += old_string(key)
        if isinstance(value, np.ndarray):
            out += b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nK\x00\x85" + old_string(b"b")
            out += b"\x87R(K\x01" + b"".join(b"M" + struct.pack("<H", n) for n in value.shape)
            out += b"\x86cnumpy\ndtype\n" + old_string(b"u1") + b"K\x00K\x01\x87R(K\x03"
            out += old_string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
            out += old_string(value.tobytes()) + b"tb"
        elif isinstance(value, list):
            out += b"](" + b"".join(b"K" + bytes([n]) for n in value) + b"e"
        else:
            out += old_string(value)
    return bytes(out) + b"u."


def old_string(value):
    if len(value) < 256:
        return b"U" + bytes([len(value)]) + value
    return b"T" + struct.pack("<i", len(value)) + value


def new_pickle(x, y, key="labels"):
    """The same dict as a Python 3 with protocol 2 writes it (bytes through _codecs.encode)."""
    return pickle.dumps({"data": x.reshape(len(x), -1), key: y.tolist()}, protocol=2)


def cifar_binary(x, y, coarse=False):
    labels = np.stack([y * 0, y], 1) if coarse else y[:, None]
    return np.concatenate([labels.astype(np.uint8), x.reshape(len(x), -1)], 1).tobytes()


def cifar10_files(count=20, binary=False):
    """(name → bytes, all training images and labels)."""
    files, xs, ys = {}, [], []
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        x, y = samples(count, 10, (3, 32, 32), i)
        files[name + (".bin" if binary else "")] = cifar_binary(x, y) if binary else cifar_python(x, y)
        if name != "test_batch":
            xs.append(x)
            ys.append(y)
    return files, (np.concatenate(xs), np.concatenate(ys))


def cifar100_files(binary=False):
    files = {}
    for i, name in enumerate(("train", "test")):
        x, y = samples(200, 100, (3, 32, 32), i)
        data = cifar_binary(x, y, coarse=True) if binary else cifar_python(x, y, b"fine_labels")
        files[name + (".bin" if binary else "")] = data
    return files


def write_files(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def tar_bytes(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def encoded(image, kind="PNG"):
    """[C, H, W] → the bytes of an image file."""
    pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return buffer.getvalue()


def write_parquet(path, x, y, image="img", label="label", kind="PNG"):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"bytes": encoded(i, kind), "path": None} for i in x]
    column = pa.array(rows, type=pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    table = pa.table({image: column, label: pa.array(y, pa.int64())})
    pq.write_table(table, path, row_group_size=50, write_page_checksum=True)


def image_folder(root, classes, count=6, shape=(3, 8, 8), kind="png", seed=0):
    for i, name in enumerate(classes):
        x, _ = samples(count, 1, shape, seed + i)
        (root / name).mkdir(parents=True)
        for j, image in enumerate(x):
            (root / name / f"{j}.{kind}").write_bytes(
                encoded(image, "JPEG" if kind == "jpg" else kind.upper())
            )
