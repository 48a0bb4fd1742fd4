import os
import pickle

import numpy as np
import pytest
from data_formats import cifar_binary, cifar_python, new_pickle, old_string, samples

from nispa.data.readers.cifar import read_binary, read_python, walk_pickle
from nispa.errors import NispaError

X, Y = samples(20, 10, (3, 32, 32))


@pytest.mark.parametrize("make", [cifar_python, new_pickle])
def test_python_batch(make):
    payload = make(X, Y)
    part = read_python(payload, "batch", 10)
    assert np.array_equal(part.images, X)
    assert np.array_equal(part.labels, Y)


def test_the_made_batch_is_what_pickle_would_read():
    batch = pickle.loads(cifar_python(X, Y), encoding="bytes")  # noqa: S301 (our own bytes)
    assert np.array_equal(batch[b"data"].reshape(X.shape), X)
    assert batch[b"labels"] == Y.tolist()


def test_cifar100_takes_the_fine_labels():
    fine = np.arange(20) + 50
    part = read_python(cifar_python(X, fine, b"fine_labels"), "train", 100)
    assert part.labels.tolist() == fine.tolist()
    binary = read_binary(cifar_binary(X, fine, coarse=True), "train.bin", 100)
    assert binary.labels.tolist() == fine.tolist()
    assert np.array_equal(binary.images, X)


def test_binary_batch():
    part = read_binary(cifar_binary(X, Y), "data_batch_1.bin", 10)
    assert np.array_equal(part.images, X)
    assert np.array_equal(part.labels, Y)


@pytest.mark.parametrize("payload", [b"", cifar_binary(X, Y)[:-1], cifar_binary(X, Y, coarse=True)])
def test_wrong_binary(payload):
    with pytest.raises(NispaError, match="no whole number of 3073-byte records"):
        read_binary(payload, "data_batch_1.bin", 10)


class Evil:
    def __reduce__(self):
        return os.system, ("touch owned",)


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_a_pickle_is_refused_and_never_run(protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NispaError, match=r"bad: a pickle with .* refused"):
        read_python(pickle.dumps({"data": Evil(), "labels": []}, protocol=protocol), "bad", 10)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("payload", "what"),
    [(b"\x80\x02})\x81.", "the opcode NEWOBJ"), (b"\x80\x02}}b.", "a BUILD of something else than an array")],
)
def test_opcodes_that_make_objects_are_refused_by_name(payload, what):
    with pytest.raises(NispaError, match=f"bad: a pickle with {what} in it"):
        walk_pickle(payload, "bad")


@pytest.mark.parametrize("value", [1.5, {1, 2}, np.float32(1), print, b"x".__class__, 1 << 3000])
def test_other_objects_are_refused(value):
    with pytest.raises(NispaError):
        read_python(pickle.dumps({"data": value, "labels": [value]}), "bad", 10)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "damaged or truncated"),
        (cifar_python(X, Y)[:-2], "damaged or truncated"),
        (cifar_python(X, Y)[:1000], "damaged or truncated"),
        (pickle.dumps([1, 2]), "no dict"),
        (pickle.dumps({"data": [1], "labels": [1]}), "no 'data' array"),
        (cifar_python(X, Y, b"other"), "no 'labels' list"),
        (cifar_python(X, Y + 1), "no numbers in 0-9"),
        (cifar_python(X, Y[:-1]), "20 images but 19 labels"),
        (cifar_python(X[:, :, :16], Y), "want .N, 3072."),
        (new_pickle(X.astype(np.float64), Y), "not a plain uint8 array"),
        (b"\x80\x02T\xff\xff\xff\x7fx.", "damaged or truncated"),
        (b"\x80\x02}(" + old_string(b"data") + b"s.", "damaged or truncated"),
    ],
)
def test_wrong_batches(payload, message):
    with pytest.raises(NispaError, match=message):
        read_python(payload, "data_batch_1", 10)


def test_a_pickle_that_refers_to_itself_ends():
    with pytest.raises(NispaError):
        read_python(b"\x80\x02}q\x00U\x04datah\x00U\x06labels]q\x01h\x01au.", "loop", 10)


def test_billion_laughs_take_no_memory():
    nested = b"\x80\x02]q\x00" + b"".join(
        b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(100)
    )
    with pytest.raises(NispaError):
        walk_pickle(nested + b".", "laughs")
