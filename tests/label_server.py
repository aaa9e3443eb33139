"""A labeling page in a process of its own, as a user starts it, and a client that behaves like its page."""

import http.client
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

PATIENCE = 600  # seconds, on a machine that does other things too; pytest may end a test earlier
COLORS = {"red": (200, 40, 40), "green": (40, 160, 60), "blue": (50, 70, 200)}


class Server:
    """A running `ict label`. `address` is the printed one, with the token."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.address = self._lines.get(timeout=PATIENCE).strip()
        assert self.address.startswith("http://127.0.0.1:"), (self.address, process.wait(5), self.error)
        parts = urlsplit(self.address)
        self.port = parts.port or 0
        self.token = parse_qs(parts.query)["token"][0]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    @property
    def error(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def stop(self, number: int = signal.SIGINT) -> str:
        """End it as Ctrl-C or another signal does; what it said at the end."""
        self.process.send_signal(number)
        assert self.process.wait(PATIENCE) == 0, self.error
        said = ""
        while line := self._lines.get(timeout=PATIENCE):
            said += line
        return said

    def request(
        self, method: str, path: str, body: bytes | None = None, **changed: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        """A request as the page makes it; `changed` headers are left out where None."""
        host = f"127.0.0.1:{self.port}"
        headers: dict[str, str | None] = {"host": host, "cookie": f"ict-label-{self.port}={self.token}"}
        if method == "POST":
            headers |= {"origin": f"http://{host}", "content-type": "application/json"}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if value is not None:
                    link.putheader(name, value)
            if body is not None and "content_length" not in changed:
                link.putheader("content-length", str(len(body)))
            link.endheaders(body)
            answer = link.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            link.close()

    def get(self, path: str) -> Any:
        status, _, content = self.request("GET", path)
        assert status == 200, (path, status, content)
        return json.loads(content)

    def post(self, path: str, **said: Any) -> Any:
        status, _, content = self.request("POST", path, json.dumps(said).encode())
        assert status in (200, 409), (path, status, content)
        return json.loads(content)

    def wait_for(self, condition: Callable[[Any], object]) -> Any:
        """The state as soon as it is so."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            state = self.get("/state")
            if condition(state):
                return state
            time.sleep(0.05)
        raise AssertionError(state)


@contextmanager
def label_server(*words: str | Path, folder: Path, nice: bool = False) -> Iterator[Server]:
    """Run `ict label` in a folder; killed at the end, if it is still running.

    `nice`: what learns has a lower priority, as for users.
    """
    here = Path(__file__).parent
    paths = [here.parent / "src", *([] if nice else [here / "without_nice"])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "ict", "label", *map(str, words), "--no-browser"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def color_photos(folder: Path, n: int = 120, side: int = 24) -> dict[str, str]:
    """Photos of one color each, with noise, in a new folder; the true color of each."""
    folder.mkdir(parents=True)
    random, truth = np.random.default_rng(0), {}
    for i in range(n):
        color = list(COLORS)[i % len(COLORS)]
        pixels = random.normal(COLORS[color], 30, (side, side, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:03}.png")
        truth[f"{i:03}.png"] = color
    return truth
