"""A server by hand, which answers as servers should not: late, half, endlessly, or not at all."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.waiting import PATIENCE_S

Act = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """One request, and the connection to answer on."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    socket: socket.socket
    is_over: threading.Event

    def send(self, *lines: str, body: bytes = b"") -> None:
        self.socket.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode() + body)

    def close(self) -> None:
        # Not close(), which would wait for the reader.
        os.close(self.socket.detach())


@dataclass
class OddServer:
    """`requests` are those that came, in order; each gets the next of the answers, and the last one for ever."""

    port: int
    answers: list[Act]
    tls: ssl.SSLContext | None = None
    requests: list[Exchange] = field(default_factory=list)
    connections: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=s3cret-path"

    def answer(self, exchange: Exchange) -> None:
        place = min(len(self.requests), len(self.answers)) - 1
        self.answers[place](exchange)

    @property
    def ids(self) -> list[str]:
        return [request.headers["webhook-id"] for request in self.requests]


def status(code: int, *headers: str, body: bytes = b"") -> Act:
    """A plain answer on a connection that stays."""

    def act(exchange: Exchange) -> None:
        exchange.send(f"HTTP/1.1 {code} So", *headers, f"Content-Length: {len(body)}", body=body)

    return act


def last(code: int) -> Act:
    """An answer without a length, which the end of the connection ends."""

    def act(exchange: Exchange) -> None:
        exchange.send(f"HTTP/1.1 {code} So", "Connection: close", body=b"bye")
        exchange.close()

    return act


def close_silently(exchange: Exchange) -> None:
    exchange.close()


def reset(exchange: Exchange) -> None:
    exchange.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.close()


def say_nothing(exchange: Exchange) -> None:
    exchange.is_over.wait(PATIENCE_S)


def drip(text: bytes) -> Act:
    """Byte by byte, so that no single read ever takes long; then the last byte for ever."""

    def act(exchange: Exchange) -> None:
        position = 0
        while not exchange.is_over.wait(0.02):
            exchange.socket.sendall(text[position : position + 1])
            position = min(position + 1, len(text) - 1)

    return act


def raw(text: bytes) -> Act:
    def act(exchange: Exchange) -> None:
        exchange.socket.sendall(text)
        exchange.close()

    return act


def endless(head: bytes) -> Act:
    """A body without end."""

    def act(exchange: Exchange) -> None:
        exchange.socket.sendall(head)
        while not exchange.is_over.is_set():
            exchange.socket.sendall(b"x" * 65536)

    return act


@contextmanager
def odd_server(*answers: Act, tls: ssl.SSLContext | None = None) -> Iterator[OddServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = OddServer(listener.getsockname()[1], list(answers), tls)
        threading.Thread(target=_accept, args=(listener, server), daemon=True).start()
        try:
            yield server
        finally:
            server.is_over.set()


def _accept(listener: socket.socket, server: OddServer) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            server.connections += 1
            threading.Thread(target=_serve, args=(connection, server, server.connections), daemon=True).start()


def _serve(connection: socket.socket, server: OddServer, number: int) -> None:
    with suppress(OSError):
        if server.tls is not None:
            connection = server.tls.wrap_socket(connection, server_side=True)
        _converse(connection, server, number)


def _converse(connection: socket.socket, server: OddServer, number: int) -> None:
    with connection, connection.makefile("rb") as reader:
        while line := reader.readline():
            headers = dict(_headers(reader))
            body = reader.read(int(headers.get("content-length", "0")))
            exchange = Exchange(line.decode().strip(), headers, body, number, connection, server.is_over)
            server.requests.append(exchange)
            server.answer(exchange)
            if connection.fileno() < 0:
                return  # closed: what TLS would still read is of whoever has got the descriptor since


def _headers(reader: object) -> Iterator[tuple[str, str]]:
    while line := reader.readline().decode("latin-1").strip():  # type: ignore[attr-defined]
        name, _, value = line.partition(": ")
        yield name.lower(), value
