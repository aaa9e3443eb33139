"""Runs the page: a server on loopback, the thread that listens to the learning process, and the browser."""

import asyncio
import os
import secrets
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial

import uvicorn

from ict.base.errors import UserError
from ict.base.interrupts import stops
from ict.label.app import make_app
from ict.label.learning import Failed, Learning, Message
from ict.label.service import Service

_LOOPBACK = "127.0.0.1"
_LAST_WORDS = 5.0  # seconds in which the page can still show why the program ends


def serve(service: Service, learning: Learning, port: int, say: Callable[[str], None], browser: bool) -> None:
    """Serve until a signal ends the program; `say` gets the address. A UserError says why nothing can be learned."""
    try:
        listening = socket.create_server((_LOOPBACK, port))
    except OSError as problem:
        raise UserError(f"port {port} cannot be used ({problem.strerror}): name another with --port.") from None
    with closing(listening):
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        address = f"http://{_LOOPBACK}:{port}/?token={token}"
        say(address)
        if browser and _has_screen():
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        asyncio.run(_serve(service, learning, listening, token, port))


async def _serve(service: Service, learning: Learning, listening: socket.socket, token: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    mistakes: list[UserError] = []

    def later(act: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(act)

    def take(message: Message) -> None:
        try:
            service.receive(message)
        except UserError as problem:
            service.fail(str(problem))
            mistakes.append(problem)
            loop.call_later(_LAST_WORDS, stop)

    def stop() -> None:
        server.should_exit = True

    for number in (signal.SIGINT, *stops()):
        with suppress(ValueError, NotImplementedError, RuntimeError):  # not in a test's thread
            loop.add_signal_handler(number, stop)

    def listen() -> None:
        while True:
            message = learning.receive()
            try:
                later(partial(take, message))
            except RuntimeError:  # the server has ended
                return
            if isinstance(message, Failed):
                return

    app = make_app(service, token, port, later)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    threading.Thread(target=listen, daemon=True).start()
    await server.serve(sockets=[listening])
    if mistakes:
        raise mistakes[0]


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn would raise the signals again at the end, when the last line is still to be printed."""
        yield


def _has_screen() -> bool:
    """Whether a browser would open in a window; one in the terminal would take it over."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
