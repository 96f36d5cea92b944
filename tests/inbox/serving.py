"""A real server with endpoints of every kind, and senders that speak to it, also those that speak badly."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import brant
from tests.cli.processes import Running, running
from tests.waiting import PATIENCE_S

SECRET = "hush"
APP = """
import os
import brant

db = brant.open("app.db")
inbox = brant.Inbox(db)
hooks = inbox.endpoint("hooks", provider="github", secrets="hush")
inbox.endpoint("github", path="/hooks/github", provider="github", secrets="hush")
inbox.endpoint("small", provider="github", secrets="hush", max_body=1000)
inbox.endpoint("limited", verify="none", rate_limit=(1, 3600))
inbox.endpoint("paused", verify="none")
inbox.endpoint("open", verify="none")
inbox.endpoint("slack", provider="slack", secrets="hush")
inbox.endpoint("walled", verify="none", allow_from=["192.0.2.0/24"])
os.environ["TEST_LOST_SECRET"] = "hush"
inbox.endpoint("unset", provider="github", secrets="env:TEST_LOST_SECRET")
del os.environ["TEST_LOST_SECRET"]
inbox.pause("paused")
with db.transaction() as tx:
    tx.execute("CREATE TABLE IF NOT EXISTS ledger (event INTEGER)")


@hooks.handle()
def handle(event, tx):
    tx.execute("INSERT INTO ledger VALUES (?)", [event.id])
"""


@dataclass(frozen=True)
class Server:
    folder: Path
    url: str
    command: Running

    @contextmanager
    def inbox(self) -> Iterator[brant.Inbox]:
        """The same file, seen by another process."""
        with brant.open(self.folder / "app.db") as db, brant.Inbox(db) as inbox:
            yield inbox

    def most_memory(self) -> int:
        """The most that the process ever had in memory, in bytes."""
        lines = Path(f"/proc/{self.command.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

    def connect(self) -> socket.socket:
        place = urlsplit(self.url)
        assert place.hostname is not None
        assert place.port is not None
        return socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S)


@contextmanager
def serving(folder: Path, *words: object, **environment: str) -> Iterator[Server]:
    if not (folder / "app.py").exists():
        (folder / "app.py").write_text(APP)
    with running(folder, "inbox", "serve", "app:inbox", "--port", 0, *words, **environment) as command:
        banner = command.error_line()
        assert "url=http://" in banner, banner + command.stderr.read()
        yield Server(folder, banner.partition("url=")[2].split()[0], command)


def signed(body: bytes) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={digest}"}


def head(path: str, *lines: str) -> bytes:
    """The raw beginning of a POST."""
    return "".join(f"{line}\r\n" for line in (f"POST {path} HTTP/1.1", "Host: here", *lines, "")).encode()


def answer_on(connection: socket.socket) -> tuple[int, str]:
    """Status and text of the next answer."""
    response = http.client.HTTPResponse(connection, method="POST")
    response.begin()
    return response.status, response.read().decode()
