"""One HTTP request on a connection of our own. The sockets are opened here, and http.client only reads the answers:
what is connected to must be the very address that the guard has checked, and each call must end with the deadline."""

from __future__ import annotations

import io
import os
import selectors
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any

from brant.inbox.outgoing.guard import Guard, Place

__all__ = ["Answered", "Deadline", "Wire"]

_MOST_IDLE = 8
_IDLE_S = 20.0
_OLDEST_S = 300.0
_MOST_INTERIM = 10


class Deadline:
    """When an exchange has to be over, by real time."""

    def __init__(self, total_s: float) -> None:
        self._end = time.monotonic() + total_s

    def left(self, most: float | None = None) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        return left if most is None else min(left, most)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back. Of the body, only the beginning."""

    status: int
    retry_after: str | None
    date: str | None
    beginning: bytes


class Connection:
    """An open connection, which one thread at a time uses."""

    def __init__(self, place: Place, sock: socket.socket) -> None:
        self.place = place
        self._socket = sock
        self._opened_at = self._used_at = time.monotonic()

    def exchange(self, request: bytes, deadline: Deadline, most_bytes: int) -> tuple[Answered, bool]:
        """The answer, and whether the connection can be used again."""
        self._send(request, deadline)
        reader = io.BufferedReader(_Reading(self._socket, deadline))
        response = _final(reader)
        beginning, is_whole = _body(response, most_bytes)
        headers = response.headers
        answered = Answered(response.status, headers.get("Retry-After"), headers.get("Date"), beginning)
        self._used_at = time.monotonic()
        return answered, is_whole and not response.will_close

    def _send(self, request: bytes, deadline: Deadline) -> None:
        rest = memoryview(request)
        while rest:
            # Not sendall(), whose time-out starts anew with each part when it is encrypted.
            self._socket.settimeout(deadline.left())
            rest = rest[self._socket.send(rest) :]

    def is_usable(self) -> bool:
        """Not too old, and nothing has come unasked: neither the end nor an answer to nothing."""
        now = time.monotonic()
        if now - self._used_at > _IDLE_S or now - self._opened_at > _OLDEST_S:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return not selector.select(0)

    def close(self) -> None:
        self._socket.close()


class Wire:
    """Sends requests, and keeps connections for the next ones to the same place."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None, connect_timeout_s: float, most_bytes: int) -> None:
        self._guard = guard
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._most_bytes = most_bytes
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._made_in = os.getpid()
        # For whoever drops a delivery without closing it.
        weakref.finalize(self, _close_all, self._idle)

    def post(self, place: Place, request: bytes, deadline: Deadline) -> Answered:
        """NotAllowed, OSError (ssl's errors and TimeoutError are some) or HTTPException if there is no answer."""
        kept = self._take(place)
        if kept is not None:
            try:
                return self._over(kept, request, deadline)
            except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                pass  # the server had closed it meanwhile; whatever it has read, the id tells that it is the same
        return self._over(self._open(place, deadline), request, deadline)

    def _over(self, connection: Connection, request: bytes, deadline: Deadline) -> Answered:
        try:
            answered, is_reusable = connection.exchange(request, deadline, self._most_bytes)
        except BaseException:
            connection.close()
            raise
        if is_reusable:
            self._keep(connection)
        else:
            connection.close()
        return answered

    def _open(self, place: Place, deadline: Deadline) -> Connection:
        addresses = self._guard.addresses(place, deadline.left(self._connect_timeout_s))
        failure: OSError | None = None
        for address in addresses:
            try:
                return Connection(place, self._connected(place, address, deadline))
            except OSError as error:
                failure = error
        raise failure or OSError(f"{place.host} has no address")

    def _connected(self, place: Place, address: str, deadline: Deadline) -> socket.socket:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(deadline.left(self._connect_timeout_s))
            sock.connect((address, place.port))
            if place.scheme == "https":
                sock.settimeout(deadline.left(self._connect_timeout_s))
                return self._context().wrap_socket(sock, server_hostname=place.host)
        except BaseException:
            sock.close()
            raise
        return sock

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _take(self, place: Place) -> Connection | None:
        with self._lock:
            if self._made_in != os.getpid():
                # After a fork they are the parent's; closed here, they stay open there.
                _close_all(self._idle)
                self._made_in = os.getpid()
            idle = self._idle.get(_key(place), [])
            while idle:
                connection = idle.pop()
                if connection.is_usable():
                    return connection
                connection.close()
            self._idle.pop(_key(place), None)
        return None

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            idle = self._idle.setdefault(_key(connection.place), [])
            if self._closed or len(idle) >= _MOST_IDLE:
                connection.close()
            else:
                idle.append(connection)
            for place, others in list(self._idle.items()):
                others[:] = [other for other in others if other is connection or _still_usable(other)]
                if not others:
                    del self._idle[place]

    def close(self) -> None:
        """Close what is kept; what is sent afterwards keeps no connection."""
        with self._lock:
            self._closed = True
            _close_all(self._idle)


class _Reading(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        super().__init__()
        self._socket = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(self._deadline.left())
        return self._socket.recv_into(buffer)


class _Source:
    """As much of a socket as HTTPResponse asks for."""

    def __init__(self, reader: io.BufferedReader[_Reading]) -> None:
        self.makefile: Callable[..., io.BufferedReader[_Reading]] = lambda *_: reader


def _final(reader: io.BufferedReader[_Reading]) -> HTTPResponse:
    """The answer behind those that only say that it will come."""
    for _ in range(_MOST_INTERIM):
        response = HTTPResponse(_Source(reader), method="POST")  # type: ignore[arg-type]
        response.begin()
        if not 100 <= response.status < 200:
            return response
        response.fp = None  # type: ignore[assignment]  # which it would close when it is dropped
    raise HTTPException("there was no answer behind all its announcements")


def _body(response: HTTPResponse, most: int) -> tuple[bytes, bool]:
    """The beginning, and whether that is all. The status is the answer: what becomes of the body changes nothing."""
    try:
        content = response.read(most)
        return content, response.isclosed() or not response.read(1)
    except (OSError, HTTPException, ValueError):
        return b"", False


def _close_all(idle: dict[tuple[str, str, int], list[Connection]]) -> None:
    for connections in idle.values():
        for connection in connections:
            connection.close()
    idle.clear()


def _still_usable(connection: Connection) -> bool:
    if connection.is_usable():
        return True
    connection.close()
    return False


def _key(place: Place) -> tuple[str, str, int]:
    return place.scheme, place.host, place.port
