"""Downloads a dataset's official files: resumes, verifies, and moves a file into place only when it is complete."""

import errno
import hashlib
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ict.base.errors import UserError, unknown
from ict.base.files import remove_leftovers, temporary_beside
from ict.data import DATASETS

TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 20
LARGEST = 1_000_000_000  # bytes; the official files are below 200 MB


@dataclass(frozen=True)
class OfficialFile:
    file: str
    url: str
    md5: str
    unpacks_to: str | None = None  # the folder in the archive, if the file is one


def _svhn(file: str, md5: str) -> OfficialFile:
    return OfficialFile(file, f"http://ufldl.stanford.edu/housenumbers/{file}", md5)


SOURCES: dict[str, tuple[OfficialFile, ...]] = {
    "cifar10": (
        OfficialFile(
            "cifar-10-binary.tar.gz",
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            "cifar-10-batches-bin",
        ),
    ),
    "svhn": (
        _svhn("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        _svhn("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ),
}


def download(
    name: str,
    folder: Path,
    *,
    base_url: str | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Download the files of the dataset `name` into `folder`. A mirror's `base_url` replaces all but the file names."""
    if name not in SOURCES:
        raise unknown("dataset", name, SOURCES)
    if base_url is not None and not re.match("https?://[^/]", base_url, re.IGNORECASE):
        raise UserError(f"--url is {base_url}: give the address of a server, such as https://example.org/files.")
    if _readable(name, folder):
        report(f"{folder} already has {name}.")
        return
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for source in SOURCES[name]:
        url = source.url if base_url is None else f"{base_url.rstrip('/')}/{source.file}"
        path, target = folder / source.file, folder / (source.unpacks_to or source.file)
        if target != path and target.exists():
            raise UserError(f"{target} exists but cannot be read as {name}: delete it and run the same command.")
        if path.exists():
            if md5(path) != source.md5:
                raise UserError(f"{path} is not the official file: delete it and run the same command.")
        else:
            _fetch(source, url, path, report)
        if source.unpacks_to:
            _unpack(path, target)
        report(f"{target} is ready.")


def _readable(name: str, folder: Path) -> bool:
    try:
        DATASETS[name](folder, 0)
    except UserError:
        return False
    return True


def _fetch(source: OfficialFile, url: str, path: Path, report: Callable[[str], None]) -> None:
    part = path.with_name(path.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    report(f"downloading {url}" + (f" after the first {_mb(have)}" if have else ""))
    with _network(url, part):
        response = _open(url, have)
    if response is not None:
        with response, _writing(part):
            _receive(response, url, part, report)
    actual = md5(part)
    if actual != source.md5:
        part.unlink()
        raise UserError(
            f"{path.name} from {url} has the md5 {actual} instead of {source.md5}: it was deleted, "
            "so run the same command again or use another mirror."
        )
    part.replace(path)


def _open(url: str, have: int) -> Any:
    """The response from byte `have` on, or None if the file has no more bytes."""
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        return urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and have:
            return None
        raise


def _receive(response: Any, url: str, part: Path, report: Callable[[str], None]) -> None:
    length = response.headers["Content-Length"]
    received, reported = 0, 0
    with part.open("ab" if response.status == 206 else "wb") as out:  # status 200: the whole file from the start
        while chunk := _read(response, url, part):
            out.write(chunk)
            received += len(chunk)
            if out.tell() > LARGEST:
                out.truncate(0)
                raise UserError(
                    f"{url} sends more than {_mb(LARGEST)}, so it is not the official file: use another mirror."
                )
            if received - reported >= 16 * CHUNK:
                report(f"{_mb(received)} of {_mb(int(length))}" if length else _mb(received))
                reported = received
    if length and received < int(length):
        raise _cut(url, part, f"{received} of {length} bytes arrived")


def _read(response: Any, url: str, part: Path) -> bytes:
    with _network(url, part):
        chunk: bytes = response.read1(CHUNK)  # unlike read, it loses nothing when the connection breaks
        return chunk


def _unpack(archive: Path, target: Path) -> None:
    temporary = temporary_beside(target)
    remove_leftovers(target.parent)
    try:
        with _writing(target):
            temporary.mkdir()
            try:
                with tarfile.open(archive) as tar:
                    tar.extractall(temporary, filter="data")
            except (tarfile.TarError, EOFError, zlib.error) as error:
                raise UserError(
                    f"{archive} cannot be unpacked safely ({error}): delete it and download it again."
                ) from None
            (temporary / target.name).replace(target)
            archive.unlink()
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _network(url: str, part: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException, ValueError) as error:
        raise _cut(url, part, f"{error}") from None


def _cut(url: str, part: Path, why: str) -> UserError:
    if not part.exists():
        return UserError(f"{url} could not be downloaded ({why}): fix that, or name another server with --url.")
    return UserError(
        f"{url} was only partly downloaded ({why}): run the same command to continue; {part} holds the first part."
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else error.strerror or f"{error}"
        raise UserError(f"{path} could not be written ({why}): fix that and run the same command again.") from None


def md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _mb(n: int) -> str:
    return f"{n / 1e6:.0f} MB"
