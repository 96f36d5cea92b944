"""A server by its own command, and a client with any number of connections that are kept open."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_APP = """
import brant

inbox = brant.Inbox(brant.open("http.db"))
inbox.endpoint("hooks", provider="github", secrets="hush")
"""


def signed(number: int) -> tuple[bytes, list[tuple[str, str]]]:
    body = b'{"ref": "refs/heads/main", "n": %d}' % number
    digest = hmac.new(b"hush", body, hashlib.sha256).hexdigest()
    return body, [("X-GitHub-Event", "push"), ("X-Hub-Signature-256", f"sha256={digest}")]


@contextmanager
def serving(place: Path) -> Iterator[tuple[str, int]]:
    (place / "bench_app.py").write_text(_APP)
    command = [str(Path(sys.executable).parent / "brant"), "inbox", "serve", "bench_app:inbox", "--port", "0"]
    with subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        banner = server.stderr.readline()
        try:
            host, _, port = banner.partition("url=http://")[2].split()[0].rpartition(":")
            yield host, int(port)
        finally:
            server.terminate()


class Client:
    """Each connection sends its next request when it has read the answer to the one before."""

    def __init__(self, address: tuple[str, int], connections: int, numbers: Iterator[int]) -> None:
        self._address = address
        self._connections = connections
        self._numbers = numbers

    def send(self, count: int) -> None:
        asyncio.run(self._send(count))

    async def _send(self, count: int) -> None:
        shares = [count // self._connections] * self._connections
        shares[0] += count % self._connections
        await asyncio.gather(*(self._converse(share) for share in shares))

    async def _converse(self, count: int) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            for _ in range(count):
                writer.write(_request(next(self._numbers)))
                answer = await reader.readuntil(b"\r\n\r\n")
                if not answer.startswith(b"HTTP/1.1 204 "):
                    raise AssertionError(answer.decode())
        finally:
            writer.close()


def _request(number: int) -> bytes:
    body, headers = signed(number)
    lines = ["POST /hooks HTTP/1.1", "Host: bench", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body
