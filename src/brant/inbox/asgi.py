"""The inbox over HTTP: an ASGI application, to be run by itself or mounted into another one.

It needs nothing but a server: FastAPI, Starlette and Django take it as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

from brant.arguments import seconds, whole
from brant.inbox.addresses import Networks, sender
from brant.inbox.bodies import Body, BodyReader, Gone
from brant.inbox.providers.fetching import Fetch
from brant.inbox.providers.fetching import fetch as fetch_over_https
from brant.inbox.receive import refusal_before_body
from brant.inbox.records import Received
from brant.inbox.request import Headers, Request

if TYPE_CHECKING:
    from brant.inbox.inbox import Inbox

__all__ = ["App", "app"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_MOST_HELD = 128 * 1024 * 1024
_NOT_NOW = Received(503, retry_after_s=5)
_logger = logging.getLogger("brant.inbox")


def app(
    inbox: Inbox,
    *,
    proxies: str | Iterable[str] = (),
    body_timeout_s: float = 30,
    max_held_bytes: int = _MOST_HELD,
    fetch: Fetch | None = None,
    own_loop: bool = False,
) -> App:
    """An application that receives for all endpoints of the inbox, each at its path.

    `proxies` are the addresses and networks whose X-Forwarded-For is believed. A body must be there within
    `body_timeout_s`; all that are being read hold `max_held_bytes` at most. `fetch` confirms subscriptions (AWS SNS).
    `own_loop` says that the event loop has nothing else to do: then what takes a moment is done in it, which is faster.
    """
    return App(
        inbox,
        Networks(proxies, "proxies"),
        seconds(body_timeout_s, "body_timeout_s", above=0),
        whole(max_held_bytes, "max_held_bytes", minimum=1),
        fetch or fetch_over_https,
        own_loop=own_loop,
    )


class App:
    """Make it with `inbox.asgi()`."""

    def __init__(
        self,
        inbox: Inbox,
        proxies: Networks,
        body_timeout_s: float,
        max_held_bytes: int,
        fetch: Fetch,
        *,
        own_loop: bool,
    ) -> None:
        self._inbox = inbox
        self._proxies = proxies
        self._bodies = BodyReader(body_timeout_s, max_held_bytes)
        self._fetch = fetch
        self._own_loop = own_loop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            await self._exchange(scope, receive, send)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._bodies.of(receive) as body:
            try:
                answer = await self._answer(scope, body)
            except Gone:
                return  # nobody is left to be answered, and nothing was stored
            except asyncio.CancelledError:
                # The server ends. If the request is stored all the same, it is a duplicate when it comes again.
                await send(_start(_NOT_NOW, closes=_can_close(scope)))
                await send(_end(_content(_NOT_NOW)))
                raise
            except Exception:
                _logger.exception("the inbox could not take a request")
                answer = _NOT_NOW
            await _send_answer(scope, send, answer, body)

    async def _answer(self, scope: Scope, body: Body) -> Received:
        path = _path(scope)
        endpoint = self._inbox.endpoint_at(path)
        if endpoint is None:
            return await asyncio.to_thread(self._inbox.unknown_path, path)
        request = Request.of(
            b"",
            Headers(scope["headers"]),
            method=scope["method"],
            path=path,
            query=scope.get("query_string", b""),
            remote=self._sender(scope),
        )
        refusal = refusal_before_body(endpoint.settings, request) or _bad_framing(request)
        content = refusal or await body.read(request.header("content-length"), endpoint.settings.max_body)
        if isinstance(content, Received):
            return await self._inbox.refuse_async(endpoint, content)
        whole_request = request.with_body(content)
        answer = await self._inbox.receive_request(endpoint.name, whole_request, own_loop=self._own_loop)
        if answer.follow_up is None or await self._has_followed(answer.follow_up):
            return answer
        return _NOT_NOW

    def _sender(self, scope: Scope) -> str | None:
        client = scope.get("client")
        forwarded = Headers(scope["headers"]).all("x-forwarded-for") if len(self._proxies) else []
        return sender(client[0] if client else None, forwarded, self._proxies)

    async def _has_followed(self, url: str) -> bool:
        try:
            await asyncio.to_thread(self._fetch, url)
            return True
        except Exception as error:
            # Not the address, which is the key to the subscription.
            _logger.warning("a subscription could not be confirmed yet: %s: %s", type(error).__name__, error)
            return False


async def _send_answer(scope: Scope, send: Send, answer: Received, body: Body) -> None:
    if body.is_complete:
        await send(_start(answer, closes=False))
        await send(_end(_content(answer)))
        return
    # A connection on which more of the body may come can't be used again.
    await send(_start(answer, closes=_can_close(scope)))
    await send({"type": "http.response.body", "body": _content(answer), "more_body": True})
    await body.linger()
    await send(_end())


def _can_close(scope: Scope) -> bool:
    """Later versions of HTTP know no such header."""
    return str(scope.get("http_version", "1.1")).startswith("1")


def _end(content: bytes = b"") -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": False}


def _path(scope: Scope) -> str:
    """Below the place where the application is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


def _bad_framing(request: Request) -> Received | None:
    """Where two headers say how long the body is, a proxy may have believed the other one."""
    length = request.headers.all("content-length")
    if len(length) > 1 or (length and request.headers.all("transfer-encoding")):
        return Received(400, reason="the length of the body is given twice")
    if length and not (length[0].isascii() and length[0].isdigit() and len(length[0]) < 20):
        return Received(400, reason="Content-Length is no number")
    return None


def _content(answer: Received) -> bytes:
    if answer.accepted:
        return answer.body
    if answer.status_code >= 500:
        # The reason tells how things are on this side; it is in the log and in the list of rejects.
        return b"not now; try again later\n"
    return f"{answer.reason or 'refused'}\n".encode("ascii", "replace")


def _start(answer: Received, *, closes: bool) -> MutableMapping[str, Any]:
    headers = [(name.lower(), value) for name, value in answer.headers]
    content = _content(answer)
    if content:
        plain = "text/plain; charset=utf-8"
        headers.append(("content-type", (answer.content_type or plain) if answer.accepted else plain))
    if answer.status_code != 204:
        headers.append(("content-length", str(len(content))))
    if answer.retry_after_s is not None:
        headers.append(("retry-after", str(answer.retry_after_s)))
    if closes:
        headers.append(("connection", "close"))
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
    return {"type": "http.response.start", "status": answer.status_code, "headers": raw}


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
