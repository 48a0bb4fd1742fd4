import gzip
import hashlib
import http.server
import io
import re
import threading
import zipfile

import pytest

from nispa.data import download
from nispa.data.download import MIRRORS, Remote, get
from nispa.data.known import DATASETS
from nispa.errors import NispaError

CONTENT = bytes(range(256)) * 5000


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the server's attributes say how badly."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        server.requests.append(self.headers.get("Range"))
        content = server.content
        if self.path.endswith("missing"):
            self.send_error(404)
            return
        start, asked = 0, re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and server.ranges:
            start = int(asked[1])
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            first = start + server.wrong_start
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        body = content[start:]
        if server.lengths:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.breaks > 0:
            server.breaks -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download.time, "sleep", lambda seconds: None)
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.content, served.requests, served.ranges = CONTENT, [], True
    served.breaks, served.lengths, served.wrong_start = 0, True, 0
    thread = threading.Thread(target=served.serve_forever, args=(0.02,))
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def remote(server, name="file.gz", checksum=None, **options):
    checksum = checksum or "sha256:" + hashlib.sha256(server.content).hexdigest()
    return Remote(f"http://127.0.0.1:{server.server_port}/{name}", checksum, **options)


def fetched(server, tmp_path, **options):
    folder = get("mnist", tmp_path, mirrors=[remote(server, **options)])
    assert folder == tmp_path / "mnist"
    assert [p.name for p in folder.iterdir()] == ["file.gz"]
    return (folder / "file.gz").read_bytes()


def test_fetches_checks_and_shows_progress(server, tmp_path):
    seen = []
    get("mnist", tmp_path, mirrors=[remote(server)], progress=lambda *args: seen.append(args))
    assert (tmp_path / "mnist" / "file.gz").read_bytes() == CONTENT
    assert seen[-1] == ("file.gz", len(CONTENT), len(CONTENT))
    assert [s[1] for s in seen] == sorted(s[1] for s in seen)


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    for _ in range(2):
        assert fetched(server, tmp_path) == CONTENT
    assert len(server.requests) == 1


def test_md5(server, tmp_path):
    assert fetched(server, tmp_path, checksum="md5:" + hashlib.md5(CONTENT).hexdigest()) == CONTENT


def test_an_interrupted_download_goes_on_by_itself(server, tmp_path):
    server.breaks = 2
    assert fetched(server, tmp_path) == CONTENT
    half = len(CONTENT) // 2
    assert server.requests == [None, f"bytes={half}-", f"bytes={half + half // 2}-"]


def test_and_with_the_next_call(server, tmp_path):
    server.breaks = 4
    with pytest.raises(NispaError, match=r"broken off after 1,200,000 bytes .*; run it again to go on"):
        fetched(server, tmp_path)
    assert [p.name for p in (tmp_path / "mnist").iterdir()] == ["file.gz.part"]
    assert fetched(server, tmp_path) == CONTENT
    assert server.requests[-1] == "bytes=1200000-"


def test_a_server_without_ranges_sends_it_all_again(server, tmp_path):
    server.ranges, server.breaks = False, 1
    assert fetched(server, tmp_path) == CONTENT


def test_a_whole_part_file_needs_only_its_checksum(server, tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "file.gz.part").write_bytes(CONTENT)
    assert fetched(server, tmp_path) == CONTENT


def test_a_wrong_checksum_removes_the_file(server, tmp_path):
    with pytest.raises(NispaError, match=r"file.gz: wrong md5 checksum .*want 00"):
        fetched(server, tmp_path, checksum="md5:00")
    assert not list((tmp_path / "mnist").iterdir())


def test_a_stale_part_file_is_found_out_and_the_next_call_works(server, tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "file.gz.part").write_bytes(b"stale")
    with pytest.raises(NispaError, match="wrong sha256 checksum"):
        fetched(server, tmp_path)
    assert fetched(server, tmp_path) == CONTENT


def test_a_range_that_was_not_asked_for_is_refused(server, tmp_path):
    server.breaks, server.wrong_start = 1, 7
    with pytest.raises(NispaError, match="another part than asked for"):
        fetched(server, tmp_path)


def test_not_found(server, tmp_path):
    with pytest.raises(NispaError, match="missing: the server says 404"):
        get("mnist", tmp_path, mirrors=[remote(server, "missing")])


def test_no_server(tmp_path, server, monkeypatch):
    monkeypatch.setattr(download, "TRIES", 1)
    with pytest.raises(NispaError, match=r"not reached .*refused"):
        get("mnist", tmp_path, mirrors=[Remote("http://127.0.0.1:9/file", "md5:0")])


def test_endless_answers_end(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "MAX_BYTES", 1 << 19)
    with pytest.raises(NispaError, match="sends more than"):
        fetched(server, tmp_path)


def test_without_a_length(server, tmp_path):
    server.lengths = False
    assert fetched(server, tmp_path) == CONTENT


def test_a_zip_is_unpacked_and_not_kept(server, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("gzip/a.gz", gzip.compress(b"a"))
        archive.writestr("gzip/b.gz", b"b")
        archive.writestr("gzip/unwanted.gz", b"c")
    server.content = buffer.getvalue()
    for _ in range(2):
        get("emnist", tmp_path, mirrors=[remote(server, "gzip.zip", unpack=("a.gz", "b.gz"))])
    assert sorted(p.name for p in (tmp_path / "emnist").iterdir()) == ["a.gz", "b.gz"]
    assert len(server.requests) == 1


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NispaError, match="cannot be written"):
        get("mnist", tmp_path / "file", mirrors=[])


def test_every_known_data_set_has_mirrors(tmp_path):
    assert set(MIRRORS) == set(DATASETS)
    for remotes in MIRRORS.values():
        for one in remotes:
            kind, digits = one.checksum.split(":")
            assert len(bytes.fromhex(digits)) == hashlib.new(kind).digest_size
    with pytest.raises(NispaError, match="did you mean 'cifar10'"):
        get("cifra10", tmp_path)
