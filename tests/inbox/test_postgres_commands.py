"""`brant inbox` on a server: the same commands, another address."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import brant
from tests.cli.conftest import Run, brant_command
from tests.inbox.serving import APP, serving, signed
from tests.inbox.tiny import send, status, tiny, work
from tests.servers import Server
from tests.waiting import PATIENCE_S

__all__ = ["brant_command"]


@pytest.fixture
def path(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database(with_inbox=True) as address:
        yield address


def listed(brant_command: Run, path: str, *words: str) -> list[dict[str, Any]]:
    ended = brant_command("-f", path, "inbox", *words, "--json")
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_an_operator_looks_and_acts(db: brant.Database, path: str, brant_command: Run) -> None:
    with brant.Inbox(db) as inbox:
        orders = tiny(inbox, "orders")
        handled = send(orders, "e1")
        orders.add_handler(lambda event, tx: None)
        work(inbox)
        waiting = send(orders, "e2")
        assert [each["id"] for each in listed(brant_command, path, "events")] == [waiting, handled]
        assert [each["name"] for each in listed(brant_command, path, "endpoints")] == ["orders"]
        assert len(listed(brant_command, path, "deliveries")) == 2
        assert [each["outcome"] for each in listed(brant_command, path, "attempts")] == ["handled"]
        assert brant_command("-f", path, "inbox", "ignore", str(waiting)).returncode == 0
        assert brant_command("-f", path, "inbox", "replay", str(handled)).returncode == 0
        assert (status(inbox, waiting), status(inbox, handled)) == ("ignored", "received")


def test_a_database_without_an_inbox_is_told(postgres_server: Server, brant_command: Run) -> None:
    with postgres_server.database() as address:
        with brant.open(address):
            pass
        ended = brant_command("-f", address, "inbox", "events")
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)


def test_serve_receives_into_the_server(tmp_path: Path, db: brant.Database, path: str) -> None:
    (tmp_path / "app.py").write_text(APP.replace('"app.db"', repr(path)))
    body = b'{"n": 1}'
    with serving(tmp_path) as server:
        answers = [httpx.post(f"{server.url}/hooks", content=body, headers=signed(body), timeout=PATIENCE_S)] * 2
        forged = httpx.post(f"{server.url}/hooks", content=body, headers={}, timeout=PATIENCE_S)
        lost = httpx.post(f"{server.url}/%00", content=body, timeout=PATIENCE_S)
        assert server.command.stopped_by(signal.SIGTERM) == 0
    assert [answer.status_code for answer in [*answers, forged, lost]] == [204, 204, 401, 404]
    with brant.Inbox(db) as inbox:
        assert [(event.endpoint, event.body_bytes) for event in inbox.list_events()] == [("hooks", len(body))]


@pytest.mark.parametrize(("point", "stored"), [("inbox.before_commit", 0), ("inbox.after_commit", 1)])
def test_a_process_that_dies_around_the_commit_has_not_answered(
    tmp_path: Path, db: brant.Database, path: str, point: str, stored: int
) -> None:
    (tmp_path / "app.py").write_text(APP.replace('"app.db"', repr(path)))
    body = b'{"n": 1}'
    with serving(tmp_path, BRANT_FAILPOINT=f"{point}:kill") as server, pytest.raises(httpx.TransportError):
        httpx.post(f"{server.url}/hooks", content=body, headers=signed(body), timeout=PATIENCE_S)
    with brant.Inbox(db) as inbox:
        assert len(inbox.list_events()) == stored
