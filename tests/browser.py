"""A headless Chromium spoken to over two pipes, by the DevTools protocol: nothing to install but the browser."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE = 60  # seconds
# The browser reads commands from descriptor 3 and answers on descriptor 4. A program of its own connects them: what
# subprocess would run between fork and exec may wait for ever where the parent has threads.
_CONNECT = """
import fcntl, os, sys
out = fcntl.fcntl(int(sys.argv[2]), fcntl.F_DUPFD, 10)  # out of the way, should it be 3
os.dup2(int(sys.argv[1]), 3)
os.dup2(out, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_COMPLAINTS = (
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Log.entryAdded",
    "Page.javascriptDialogOpening",
)


class Page:
    """A tab; `complaints` has what its console said and `requests` what it asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer, self._id, self._session = b"", 0, ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command."""
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, path: Path, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        """Load a file in a window of this width and wait until it is drawn."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', () => done()))"
        )

    def evaluate(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._from], [], [], _PATIENCE)[0], "the browser does not answer"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        method = message.get("method", "")
        if method in _COMPLAINTS:
            self.complaints.append(json.dumps(message["params"]))
        if method == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message


@contextmanager
def browser() -> Iterator[Page]:
    """A fresh browser with one tab; it ends with the block."""
    assert CHROMIUM is not None
    their_input, to_browser = os.pipe()
    from_browser, their_output = os.pipe()
    connected = [sys.executable, "-c", _CONNECT, str(their_input), str(their_output)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [*connected, CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=(their_input, their_output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        try:
            yield Page(to_browser, from_browser)
        finally:
            os.close(to_browser)
            os.close(from_browser)
            process.terminate()
            process.wait(_PATIENCE)
