"""Downloads from a server on the loopback, which misbehaves in all the ways servers do."""

import io
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ict.base.errors import UserError
from ict.data import cifar10
from ict.data import download as module
from ict.data.download import SOURCES, OfficialFile, download

BODY = os.urandom(3_000_000)


class Server(ThreadingHTTPServer):
    """Serves `files`; cuts the next answer after `cut` bytes; knows ranges or not."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str | None] = []  # the Range header of every request
        self.cut: int | None = None
        self.stall = 0.0
        self.ranges = True
        self.chunked = False
        self.base_url = f"http://127.0.0.1:{self.server_address[1]}/mirror"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is part of these tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server, asked = self.server, self.headers["Range"]
        server.asked.append(asked)
        body = server.files.get(self.path.removeprefix("/mirror/"))
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and server.ranges else 0  # type: ignore[index]
        self.close_connection = True
        if body is None or start >= len(body):
            self.send_error(404 if body is None else 416)
            return
        self.send_response(206 if asked and server.ranges else 200)
        if asked and server.ranges:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        sent = body[start:][: server.cut]
        server.cut = None
        if server.chunked:
            whole = start + len(sent) == len(body)
            sent = b"%x\r\n" % (len(body) - start) + sent + (b"\r\n0\r\n\r\n" if whole else b"")
        self.wfile.write(sent)
        self.wfile.flush()
        time.sleep(server.stall)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def one_file(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A dataset of a single plain file."""
    server.files["train_32x32.mat"] = BODY
    source = OfficialFile("train_32x32.mat", f"{server.base_url}/train_32x32.mat", md5(BODY).hexdigest())
    monkeypatch.setitem(SOURCES, "svhn", (source,))
    return server


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_official_sources() -> None:
    assert [(s.url, s.md5) for name in ("cifar10", "svhn") for s in SOURCES[name]] == [
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
        ("http://ufldl.stanford.edu/housenumbers/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        ("http://ufldl.stanford.edu/housenumbers/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ]
    assert all(s.url.endswith("/" + s.file) for sources in SOURCES.values() for s in sources)


def test_fresh(one_file: Server, tmp_path: Path) -> None:
    folder, said = tmp_path / "new" / "folder", list[str]()
    download("svhn", folder, report=said.append)
    assert (folder / "train_32x32.mat").read_bytes() == BODY
    assert names(folder) == ["train_32x32.mat"]
    assert one_file.asked == [None]
    assert said == [
        f"downloading {one_file.base_url}/train_32x32.mat",
        f"{folder / 'train_32x32.mat'} is ready.",
    ]


@pytest.mark.usefixtures("one_file")
def test_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 60_000)
    said: list[str] = []
    download("svhn", tmp_path, report=said.append)
    assert said[1:-1] == ["1 MB of 3 MB", "2 MB of 3 MB", "3 MB of 3 MB"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_cut_connection_is_continued(one_file: Server, tmp_path: Path, chunked: bool) -> None:
    one_file.cut, one_file.chunked = 1_000_000, chunked
    with pytest.raises(UserError, match=r"run the same command to continue; .*\.part holds the first part"):
        download("svhn", tmp_path)
    assert names(tmp_path) == ["train_32x32.mat.part"]
    have = (tmp_path / "train_32x32.mat.part").stat().st_size
    assert have == 1_000_000
    said: list[str] = []
    download("svhn", tmp_path, report=said.append)
    assert one_file.asked == [None, f"bytes={have}-"]
    assert (tmp_path / "train_32x32.mat").read_bytes() == BODY
    assert names(tmp_path) == ["train_32x32.mat"]
    assert "after the first 1 MB" in said[0]


def test_a_server_without_ranges_starts_over(one_file: Server, tmp_path: Path) -> None:
    one_file.ranges = False
    (tmp_path / "train_32x32.mat.part").write_bytes(BODY[:1000])
    download("svhn", tmp_path)
    assert one_file.asked == ["bytes=1000-"]
    assert (tmp_path / "train_32x32.mat").read_bytes() == BODY


def test_a_part_that_is_already_whole(one_file: Server, tmp_path: Path) -> None:
    (tmp_path / "train_32x32.mat.part").write_bytes(BODY)
    download("svhn", tmp_path)
    assert one_file.asked == [f"bytes={len(BODY)}-"]
    assert names(tmp_path) == ["train_32x32.mat"]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_wrong_checksum(one_file: Server, tmp_path: Path, resumed: bool) -> None:
    wrong = b"x" * 1000 + BODY[1000:]
    if resumed:
        (tmp_path / "train_32x32.mat.part").write_bytes(wrong[:2000])
    else:
        one_file.files["train_32x32.mat"] = wrong
    with pytest.raises(UserError) as caught:
        download("svhn", tmp_path)
    for told in (
        "train_32x32.mat",
        f"{one_file.base_url}/train_32x32.mat",
        md5(wrong).hexdigest(),
        md5(BODY).hexdigest(),
    ):
        assert told in str(caught.value)
    assert names(tmp_path) == []


def test_files_there_are_not_fetched_again(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []
    for file in ("train_32x32.mat", "test_32x32.mat"):
        server.files[file] = BODY + file.encode()
        sources.append(OfficialFile(file, "http://nowhere.invalid/" + file, md5(server.files[file]).hexdigest()))
    monkeypatch.setitem(SOURCES, "svhn", tuple(sources))
    (tmp_path / "train_32x32.mat").write_bytes(server.files["train_32x32.mat"])
    for requests in (1, 1):  # the missing file, then none
        download("svhn", tmp_path, base_url=server.base_url + "/")
        assert len(server.asked) == requests
    assert (tmp_path / "test_32x32.mat").read_bytes() == server.files["test_32x32.mat"]


def test_another_file_in_the_way_is_not_touched(one_file: Server, tmp_path: Path) -> None:
    (tmp_path / "train_32x32.mat").write_bytes(b"mine")
    with pytest.raises(UserError, match="is not the official file: delete it"):
        download("svhn", tmp_path)
    assert (tmp_path / "train_32x32.mat").read_bytes() == b"mine"
    assert one_file.asked == []


def test_no_such_file_no_such_server_no_such_scheme(one_file: Server, tmp_path: Path) -> None:
    for base_url, why in (
        (
            one_file.base_url + "/elsewhere",
            "could not be downloaded .*404.*: fix that, or name another server with --url",
        ),
        ("http://127.0.0.1:1", "could not be downloaded .*refused"),
        ("nonsense", "--url is nonsense: give the address of a server"),
        ("http://", "--url is http://: give the address of a server"),
        ("file:///tmp", "--url is file:///tmp: give the address of a server"),
    ):
        with pytest.raises(UserError, match=why):
            download("svhn", tmp_path / "new", base_url=base_url)
    assert names(tmp_path / "new") == []
    with pytest.raises(UserError):
        download("svhn", tmp_path / "other", base_url="nonsense")
    assert not (tmp_path / "other").exists(), "a mistake leaves nothing behind"


def test_a_silent_server(one_file: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    one_file.cut, one_file.stall = 2000, 0.5
    with pytest.raises(UserError, match=r"timed out.*run the same command to continue"):
        download("svhn", tmp_path)
    assert (tmp_path / "train_32x32.mat.part").read_bytes() == BODY[:2000]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk(one_file: Server, tmp_path: Path) -> None:
    (tmp_path / "train_32x32.mat.part").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"train_32x32.mat.part could not be written \(the disk is full\)"):
        download("svhn", tmp_path)
    assert len(one_file.asked) == 1


def test_an_endless_file_does_not_fill_the_disk(
    one_file: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.LARGEST == 1_000_000_000
    monkeypatch.setattr(module, "LARGEST", 100_000)
    monkeypatch.setattr(module, "CHUNK", 10_000)
    with pytest.raises(UserError, match=r"train_32x32\.mat sends more than 0 MB, .*use another mirror"):
        download("svhn", tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0
    del one_file


def test_a_folder_that_cannot_be_made(one_file: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="could not be written"):
        download("svhn", tmp_path / "file" / "folder")
    assert one_file.asked == []


def test_unknown_dataset(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown dataset 'cifar': did you mean cifar10"):
        download("cifar", tmp_path)


# --- archives ---

BATCHES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


def archive(**files: bytes) -> bytes:
    with io.BytesIO() as raw:
        with tarfile.open(fileobj=raw, mode="w:gz") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return raw.getvalue()


def serve_archive(server: Server, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(cifar10, "RECORDS", 2)
    server.files["cifar.tar.gz"] = body
    url = f"{server.base_url}/cifar.tar.gz"
    source = OfficialFile("cifar.tar.gz", url, md5(body).hexdigest(), "cifar-10-batches-bin")
    monkeypatch.setitem(SOURCES, "cifar10", (source,))


OFFICIAL = archive(**{f"cifar-10-batches-bin/{name}": bytes(2 * 3073) for name in BATCHES})


@pytest.fixture
def cifar(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    serve_archive(server, monkeypatch, OFFICIAL)
    return server


def test_an_archive_is_unpacked_and_not_fetched_again(cifar: Server, tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        download("cifar10", tmp_path, report=said.append)
    assert names(tmp_path) == ["cifar-10-batches-bin"]
    assert names(tmp_path / "cifar-10-batches-bin") == BATCHES
    assert len(cifar10.cifar10(tmp_path, 0).train) == 10
    assert len(cifar.asked) == 1
    assert said[-1] == f"{tmp_path} already has cifar10."


@pytest.mark.usefixtures("cifar")
def test_what_a_killed_process_had_unpacked_is_removed(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    litter = tmp_path / f".cifar-10-batches-bin.{int(killed.stdout)}-0.tmp"
    (litter / "cifar-10-batches-bin").mkdir(parents=True)
    (litter / "cifar-10-batches-bin/data_batch_1.bin").write_bytes(b"half")
    download("cifar10", tmp_path)
    assert names(tmp_path) == ["cifar-10-batches-bin"]


def test_an_archive_put_there_by_hand(cifar: Server, tmp_path: Path) -> None:
    (tmp_path / "cifar.tar.gz").write_bytes(OFFICIAL)
    download("cifar10", tmp_path)
    assert names(tmp_path) == ["cifar-10-batches-bin"]
    assert cifar.asked == []


def test_a_damaged_folder_is_the_users_to_delete(cifar: Server, tmp_path: Path) -> None:
    download("cifar10", tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(b"")
    with pytest.raises(UserError, match="exists but cannot be read as cifar10: delete it"):
        download("cifar10", tmp_path)
    assert len(cifar.asked) == 1


@pytest.mark.parametrize("name", ["../escaped", "cifar-10-batches-bin/../../escaped", "{tmp}/escaped"])
def test_an_archive_that_reaches_outside_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    inside = {f"cifar-10-batches-bin/{batch}": bytes(2 * 3073) for batch in BATCHES}
    serve_archive(server, monkeypatch, archive(**inside, **{name.format(tmp=tmp_path): b"attack"}))
    folder = tmp_path / "data"
    if name.startswith("{tmp}"):  # an absolute name loses its slash and stays inside: that is harmless
        download("cifar10", folder)
        assert names(folder) == ["cifar-10-batches-bin"]
    else:
        with pytest.raises(UserError, match="cannot be unpacked safely"):
            download("cifar10", folder)
        assert names(folder) == ["cifar.tar.gz"]
    assert names(tmp_path) == ["data"]


def test_what_is_no_archive(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for body in (b"no archive", OFFICIAL[: len(OFFICIAL) // 2]):
        serve_archive(server, monkeypatch, body)
        with pytest.raises(UserError, match="cannot be unpacked"):
            download("cifar10", tmp_path)
        assert names(tmp_path) == ["cifar.tar.gz"]
        (tmp_path / "cifar.tar.gz").unlink()
