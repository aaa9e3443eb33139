"""A PostgreSQL server of the tests' own, on a Unix socket; it refuses to run as root, so it has another user then."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote


def find_binaries() -> Path | None:
    """The folder of initdb and postgres; the newest where a system has several."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    folders = [*installed, *([Path(on_path).resolve().parent] if on_path else [])]
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


class Server:
    """A running server. Its address holds the password of a user `worker`, who needs it."""

    password = "s3cret/pass@word"

    def __init__(self, binaries: Path) -> None:
        self.binaries = binaries
        self.folder = Path(mkdtemp(prefix="ict-pg-", dir="/tmp"))  # a socket's path must be short
        self.data = self.folder / "data"
        self.address = f"postgresql://worker:{quote(self.password, safe='')}@/postgres?host={self.folder}"

    def run(self, *words: str | Path) -> None:
        done = subprocess.run(
            [*_as_somebody_else(), str(self.binaries / words[0]), *map(str, words[1:])],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off"
        self.run("pg_ctl", "start", "-w", "-D", self.data, "-l", self.folder / "log", "-o", options)

    def stop(self) -> None:
        self.run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", self.data)


@contextmanager
def server(binaries: Path) -> Iterator[Server]:
    made = Server(binaries)
    try:
        secret = made.folder / "password"
        secret.write_text(made.password)
        if other := _somebody_else():
            for path in (made.folder, secret):
                shutil.chown(path, other.pw_uid, other.pw_gid)
        made.run("initdb", "-D", made.data, "-U", "worker", "-A", "scram-sha-256", f"--pwfile={secret}", "-N")
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(made.folder)


def _somebody_else() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _as_somebody_else() -> list[str]:
    """By a program of its own: with a user, subprocess would fork this process, which has threads, for a moment."""
    other = _somebody_else()
    return ["setpriv", f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups"] if other else []
