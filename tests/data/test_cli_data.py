import pytest
from data_formats import mnist_like

from nispa.cli.data import app
from nispa.data import download
from nispa.errors import NispaError


def run(capsys, *arguments):
    try:
        app(list(arguments), exit_on_error=False, result_action="return_value")
    finally:
        out = capsys.readouterr().out
    return out


def test_check_names_places_formats_and_counts(tmp_path, capsys):
    mnist_like(tmp_path / "mnist", 62)
    out = run(capsys, "check", "--data", str(tmp_path))
    assert "mnist: MNIST, idx.gz" in out
    assert "train      62 images (0% of 60,000), 10 classes of 6 to 7" in out
    assert "0:7  1:7  2:6" in out
    assert "cifar10: not found; get it with `nispa data get cifar10`" in out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 80


def test_check_goes_on_after_a_damaged_file_and_fails_at_the_end(tmp_path, capsys):
    mnist_like(tmp_path / "mnist")
    mnist_like(tmp_path / "fashion-mnist")
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"[bold]no")
    with pytest.raises(NispaError, match="1 damaged: mnist"):
        app(["check", "--data", str(tmp_path)], exit_on_error=False, result_action="return_value")
    out = capsys.readouterr().out
    assert "train-images-idx3-ubyte.gz: truncated" in out or "magic number" in out
    assert "fashion-mnist: Fashion-MNIST, idx.gz" in out


def test_get(tmp_path, capsys, monkeypatch):
    seen = []

    def get(name, root, *, progress):
        progress("file", 1, 2)
        seen.append((name, root))
        return tmp_path / name

    monkeypatch.setattr(download, "get", get)
    assert f"mnist is in {tmp_path / 'mnist'}" in run(capsys, "get", "mnist", "--data", str(tmp_path))
    assert seen == [("mnist", tmp_path)]
