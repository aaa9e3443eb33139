"""Keeps everybody else out: other machines, other users without the token, and pages of other sites.

The server listens on loopback only. A request's Host must be this server, since a foreign name may resolve to this
machine; its Origin must be this page, since a foreign page may post to this machine; and its cookie must have the
token, which the printed address sets.
"""

import hmac
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 100_000  # bytes of a request's body
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_CACHE = "cache-control"


class Guard:
    """Wraps the page; `token` is in the address that is printed."""

    def __init__(self, page: ASGIApp, token: str, port: int) -> None:
        self._page, self._token = page, token
        self._cookie = f"ict-label-{port}"  # cookies are shared by all ports
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no other protocol is spoken
        refused = self._refuse(scope)
        page = self._page if refused is None else refused
        await page(scope, _limited(receive), _with_headers(send))

    def _refuse(self, scope: Scope) -> ASGIApp | None:
        """The answer to a request that the page must not see."""
        values = {name: _values(scope, name) for name in ("host", "origin", "cookie", "content-length", "content-type")}
        if len(values["host"]) != 1 or values["host"][0] not in self._hosts:
            return _no(403, "This server answers only at the address that it printed.")
        origins = values["origin"]
        writes = scope["method"] not in ("GET", "HEAD")
        if any(origin != f"http://{values['host'][0]}" for origin in origins) or (writes and not origins):
            return _no(403, "Only this server's own page may ask it.")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", []) if scope["path"] == "/" else []
        if given and not writes and self._is_token(given[0]):
            response = RedirectResponse("/", 303)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return response
        if not any(map(self._is_token, _cookies(values["cookie"], self._cookie))):
            return _no(403, "Open the address that ict label printed in the terminal: it has the token.")
        lengths = values["content-length"]
        if any(not one.isascii() or not one.isdigit() or int(one[:20]) > LARGEST for one in lengths):
            return _no(413, f"A request has at most {LARGEST} bytes.")
        if writes and values["content-type"] != ["application/json"]:
            return _no(415, "A request holds JSON.")
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


class TooLarge(Exception):
    """A request's body has more bytes than it may have, whatever its header said."""


def _limited(receive: Receive) -> Receive:
    size = 0

    async def part() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST:
            raise TooLarge
        return message

    return part


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            headers += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            if not any(name == _CACHE.encode() for name, _ in headers):
                headers.append((_CACHE.encode(), b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return answer


def _no(status: int, why: str) -> ASGIApp:
    return PlainTextResponse(why + "\n", status, headers={"connection": "close"})


def _values(scope: Scope, name: str) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name.encode()]


def _cookies(headers: list[str], name: str) -> list[str]:
    pairs = [pair.strip().partition("=") for header in headers for pair in header.split(";")]
    return [value for key, _, value in pairs if key == name]
