"""The routes of the page. A request names an example by its number; nothing that it says becomes a path."""

import json
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ict.base.errors import UserError
from ict.label.guard import Guard, TooLarge
from ict.label.service import Service

SIDES = {"large": 1200, "small": 240}  # pixels
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_KEPT = {"cache-control": "private, max-age=3600"}  # the address of a picture has the time of the start


def make_app(service: Service, token: str, port: int, later: Callable[[Callable[[], None]], None]) -> ASGIApp:
    """The page behind its guard. `later` runs a function in the server's thread, called from any other."""

    async def state(request: Request) -> Response:
        if request.query_params.get("seen") == str(service.version):
            return Response(status_code=204)
        return _as_json(service.state())

    async def example(request: Request) -> Response:
        row = _row(request.path_params["row"])
        return Response(status_code=404) if row is None else _as_json(service.example(row))

    async def picture(request: Request) -> Response:
        row, side = _row(request.path_params["row"]), SIDES.get(request.path_params["size"])
        if row is None or side is None or service.source.picture is None:
            return Response(status_code=404)
        try:
            content = await run_in_threadpool(service.source.picture, row, side)
        except UserError as problem:
            return PlainTextResponse(str(problem).encode("utf-8", "replace"), 404)
        kind = "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"
        return Response(content, media_type=kind, headers=_KEPT)

    def _row(text: str) -> int | None:
        known = text.isascii() and text.isdigit() and len(text) < 10 and int(text) < len(service.session.names)
        return int(text) if known else None

    actions: dict[str, Callable[[dict[str, Any]], None]] = {
        "/answer": lambda message: service.answer(_rows(message), _text(message, "label")),
        "/skip": lambda message: service.skip(_rows(message)[0]),
        "/flag": lambda message: service.flag(_rows(message)[0]),
        "/pass": lambda message: service.pass_group(_rows(message)),
        "/undo": lambda _: service.undo(),
        "/class": lambda message: service.add_class(_text(message, "name")),
        "/fit": lambda _: service.fit(lambda: later(service.fit_ended)),
    }
    routes = [
        *(Route(path, _file(*file)) for path, file in _FILES.items()),
        Route("/state", state),
        Route("/example/{row}", example),
        Route("/picture/{row}/{size}", picture),
        *(Route(path, _action(service, action), methods=["POST"]) for path, action in actions.items()),
    ]
    return Guard(Starlette(routes=routes), token, port)


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("ict.label").joinpath("page", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _action(service: Service, act: Callable[[dict[str, Any]], None]) -> Callable[[Request], Awaitable[Response]]:
    """Do what a request says and answer with the new state, or with a sentence that says why not."""

    async def answer(request: Request) -> Response:
        try:
            message = json.loads(await request.body())
        except ClientDisconnect:  # in the middle of its request
            return Response(status_code=400)
        except TooLarge:
            return Response(status_code=413, headers={"connection": "close"})
        except (ValueError, RecursionError):
            return PlainTextResponse("This is no JSON.\n", 400)
        try:
            if not isinstance(message, dict):
                raise UserError("a request is a JSON object.")
            act(message)
        except UserError as problem:
            return _as_json({"problem": str(problem), "state": service.state()}, 409)
        return _as_json(service.state())

    return answer


def _rows(message: dict[str, Any]) -> list[int]:
    rows = message.get("rows")
    if not isinstance(rows, list) or not rows or not all(type(row) is int for row in rows):
        raise UserError("a request names examples by their numbers, as 'rows'.")
    return rows


def _text(message: dict[str, Any], key: str) -> str:
    text = message.get(key)
    if not isinstance(text, str):
        raise UserError(f"a request lacks the text '{key}'.")
    return text


def _as_json(content: dict[str, Any], status: int = 200) -> Response:
    """In ASCII: a file's name need not be UTF-8."""
    return Response(json.dumps(content).encode(), status, media_type="application/json")
