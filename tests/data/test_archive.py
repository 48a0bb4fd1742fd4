import gzip
import io
import tarfile
import zipfile

import pytest
from data_formats import tar_bytes

from nispa.data.readers.archive import read_tar, read_zip
from nispa.errors import NispaError


def make(tmp_path, kind, files):
    path = tmp_path / f"archive.{kind}"
    if kind == "tar":
        path.write_bytes(tar_bytes(files))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    return path


READ = {"tar": read_tar, "zip": read_zip}


@pytest.fixture(params=["tar", "zip"])
def kind(request):
    return request.param


def test_reads_the_named_files_from_any_folder(tmp_path, kind):
    path = make(tmp_path, kind, {"a/b/one": b"1", "a/two": b"22" * 999, "a/else": b"no"})
    assert READ[kind](path, ["one", "two"]) == {"one": b"1", "two": b"22" * 999}


@pytest.mark.parametrize("name", ["../one", "/etc/one", "a/../../one", "..\\one"])
def test_path_tricks_are_refused(tmp_path, kind, name):
    path = make(tmp_path, kind, {"one": b"1", name: b"2"})
    with pytest.raises(NispaError, match="points outside of it"):
        READ[kind](path, ["one"])
    assert list(tmp_path.iterdir()) == [path]


def test_twice_and_missing(tmp_path, kind):
    with pytest.raises(NispaError, match="holds 'one' twice"):
        READ[kind](make(tmp_path, kind, {"a/one": b"1", "b/one": b"2"}), ["one"])
    with pytest.raises(NispaError, match="'two' is missing"):
        READ[kind](make(tmp_path, kind, {"one": b"1"}), ["one", "two"])


def test_links_are_no_files(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("one")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    (tmp_path / "a.tar.gz").write_bytes(buffer.getvalue())
    with pytest.raises(NispaError, match="'one' is missing"):
        read_tar(tmp_path / "a.tar.gz", ["one"])


def test_bombs_stop_at_the_limit(tmp_path, kind):
    path = make(tmp_path, kind, {"one": bytes(3 << 20)})
    with pytest.raises(NispaError, match="unpacks to more than"):
        READ[kind](path, ["one"], limit=1 << 20)


def test_a_bomb_in_a_member_that_nobody_asked_for(tmp_path):
    path = make(tmp_path, "tar", {"other": bytes(3 << 20), "one": b"1"})
    with pytest.raises(NispaError, match="unpacks to more than"):
        read_tar(path, ["one"], limit=1 << 20)


def test_truncated_and_foreign(tmp_path, kind):
    path = make(tmp_path, kind, {"one": bytes(range(256)) * 99})
    data = path.read_bytes()
    for wrong in (data[: len(data) // 2], b"no archive", b"", gzip.compress(b"no archive")):
        path.write_bytes(wrong)
        with pytest.raises(NispaError, match=str(path)):
            READ[kind](path, ["one"])
