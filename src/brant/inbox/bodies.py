"""Bodies as they arrive: never more than is allowed, not for ever, and not too many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from brant.inbox.records import Received

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_LINGER_S = 2
_LINGER_BYTES = 4 * 1024 * 1024
_RETRY_AFTER_S = 5


class Gone(Exception):
    """The sender went away before the body was there."""


class BodyReader:
    """Reads the bodies of all requests of an application, which together hold `most_held` bytes at most."""

    def __init__(self, timeout_s: float, most_held: int) -> None:
        self.timeout_s = timeout_s
        self._most_held = most_held
        self._held = 0

    @contextmanager
    def of(self, receive: Receive) -> Iterator[Body]:
        """The body of one request; what it holds counts until the end of the block."""
        body = Body(self, receive)
        try:
            yield body
        finally:
            self._held -= body.held

    def hold(self, size: int, most: int) -> bool:
        """Whether there is room for so much more; a body that its endpoint allows has room when it is alone."""
        if self._held + size > max(self._most_held, most):
            return False
        self._held += size
        return True


class Body:
    """One body. `is_complete`: all of it was read, so that the connection can be used again."""

    def __init__(self, reader: BodyReader, receive: Receive) -> None:
        self._reader = reader
        self._receive = receive
        self.held = 0
        self.is_complete = False

    async def read(self, announced: str | None, most: int) -> bytes | Received:
        """All of it, or why not; raises Gone."""
        if announced is not None and int(announced) > most:
            return _too_large(most)
        try:
            async with asyncio.timeout(self._reader.timeout_s):
                content = await self._within(most)
        except TimeoutError:
            return Received(408, reason="the body took too long")
        if isinstance(content, bytes) and announced is not None and int(announced) != len(content):
            return Received(400, reason="the body is not as long as Content-Length says")
        return content

    async def _within(self, most: int) -> bytes | Received:
        parts: list[bytes] = []
        while not self.is_complete:
            part = await self._next()
            if self.held + len(part) > most:
                return _too_large(most)
            if not self._reader.hold(len(part), most):
                return Received(503, reason="too many bodies at once", retry_after_s=_RETRY_AFTER_S)
            self.held += len(part)
            parts.append(part)
        return b"".join(parts)

    async def linger(self) -> None:
        """Throw away what still comes, for a while: to hang up on a sender who writes may cost it the answer."""
        left = _LINGER_BYTES
        try:
            async with asyncio.timeout(_LINGER_S):
                while not self.is_complete and left > 0:
                    left -= len(await self._next())
        except (TimeoutError, Gone):
            pass

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            raise Gone
        self.is_complete = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


def _too_large(most: int) -> Received:
    return Received(413, reason=f"the body is larger than {most} bytes")
