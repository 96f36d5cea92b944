"""A server by its own command, a bare one beside it, and a client with any number of connections that are kept open."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_APP = """
import brant

inbox = brant.Inbox(brant.open("http.db"))
inbox.endpoint("hooks", provider="github", secrets="hush")
"""

_BARE_APP = """
from pathlib import Path

from bench.inbox_floor import InboxFloor

floor = InboxFloor(Path("bare.db"), "full")


async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    floor.receive(1)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})
"""
_PATIENCE_S = 30.0


def signed(number: int) -> tuple[bytes, list[tuple[str, str]]]:
    body = b'{"ref": "refs/heads/main", "n": %d}' % number
    digest = hmac.new(b"hush", body, hashlib.sha256).hexdigest()
    return body, [("X-GitHub-Event", "push"), ("X-Hub-Signature-256", f"sha256={digest}")]


@contextmanager
def serving(place: Path, *, slowly: Path | None = None, sync_ms: int = 0) -> Iterator[tuple[str, int]]:
    """`slowly`: the library of `slow_syncs`, for a disk that takes so much longer to sync."""
    place.mkdir(exist_ok=True)
    (place / "bench_app.py").write_text(_APP)
    command = [str(Path(sys.executable).parent / "brant"), "inbox", "serve", "bench_app:inbox", "--port", "0"]
    slow = {} if slowly is None else {"LD_PRELOAD": str(slowly), "SYNC_MICROSECONDS": str(sync_ms * 1000)}
    with subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True, env=os.environ | slow) as server:
        assert server.stderr is not None
        banner = server.stderr.readline()
        try:
            host, _, port = banner.partition("url=http://")[2].split()[0].rpartition(":")
            yield host, int(port)
        finally:
            server.terminate()


@contextmanager
def serving_bare(place: Path) -> Iterator[tuple[str, int]]:
    """The same inserts behind the same HTTP server, and nothing else."""
    (place / "bare_app.py").write_text(_BARE_APP)
    address = ("127.0.0.1", _free_port())
    options = [
        "--port",
        str(address[1]),
        "--http",
        "h11",
        "--lifespan",
        "off",
        "--no-access-log",
        "--log-level",
        "error",
    ]
    command = [sys.executable, "-m", "uvicorn", "bare_app:app", *options]
    # Its folder first: the module is found there, and those of the benches from where this was started.
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(place), str(Path.cwd())])}
    with subprocess.Popen(command, cwd=place, env=env) as server:
        try:
            _wait_for(address)
            yield address
        finally:
            server.terminate()


def slow_syncs(place: Path) -> Path | None:
    """A library that makes syncs slow, for the loader of Linux; None without a compiler."""
    compiler, made = shutil.which("cc"), place / "slow_sync.so"
    if compiler is None or sys.platform != "linux":
        return None
    source = Path(__file__).with_name("slow_sync.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], check=True)
    return made


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def _wait_for(address: tuple[str, int]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            socket.create_connection(address, 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


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
