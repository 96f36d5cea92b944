"""Connections that are lost, servers that do not answer, and what becomes of the work."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

import brant
from brant.errors import DatabaseBusy, StorageError
from tests.waiting import PATIENCE_S, in_thread

KILL = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'brant'
"""
LISTENERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^LISTEN'"


@pytest.fixture
def db(address: str) -> Iterator[brant.Database]:
    with brant.open(address) as database:
        yield database


def kill_all(address: str) -> int:
    """End every connection of Brant's, as an administrator or a failover does; tells how many."""
    with psycopg.connect(address, autocommit=True) as connection:
        return len(connection.execute(KILL).fetchall())


def test_after_all_connections_were_killed_the_next_calls_work(db: brant.Database, address: str) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    assert queue.stats().pending == 1
    assert kill_all(address) >= 2
    queue.enqueue(2)
    assert queue.stats().pending == 2
    assert kill_all(address) >= 2
    assert db.query("SELECT 1 AS one") == [{"one": 1}]


def test_a_transaction_that_is_lost_raises_and_leaves_nothing(db: brant.Database, address: str) -> None:
    queue = db.queue("q")
    with pytest.raises(DatabaseBusy, match="not committed is undone"), db.transaction() as tx:
        queue.enqueue(1, tx=tx)
        kill_all(address)
        queue.enqueue(2, tx=tx)
    with pytest.raises(StorageError), db.transaction() as tx:
        queue.enqueue(3, tx=tx)
        kill_all(address)
    assert queue.stats().pending == 0
    queue.enqueue(4)
    assert queue.stats().pending == 1


def test_who_waits_is_woken_after_the_connection_for_that_was_lost(db: brant.Database, address: str) -> None:
    listener = db.listen("c", fallback_poll_s=None)
    with brant.open(address) as other:
        assert kill_all(address) >= 2
        other.notify("c", "still there")
        answer = in_thread(listener.get, PATIENCE_S).result(PATIENCE_S)
    assert answer is not None
    assert answer.payload == "still there"


def test_health_tells_of_wake_ups_that_do_not_work(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with brant.open(address) as db:
        events = db.update_events()
        assert db.health().ok
        monkeypatch.setattr(db._storage._wake, "_connect", refuse)  # type: ignore[attr-defined]
        kill_all(address)
        heard = threading.Event()
        while not db.health().problems:
            heard.wait(0.01)
        assert "wake-ups are degraded" in db.health().problems[0]
        events.close()


def refuse() -> object:
    raise StorageError("no more connections for you")


def test_all_connections_in_use_is_an_error_that_says_so(address: str) -> None:
    inside, done = threading.Event(), threading.Event()

    def hold(database: brant.Database) -> None:
        with database.transaction():
            inside.set()
            done.wait(PATIENCE_S)

    with brant.open(address, max_readers=1, busy_timeout_ms=50) as db:
        holding = in_thread(hold, db)
        assert inside.wait(PATIENCE_S)
        with pytest.raises(DatabaseBusy, match="all 1 connections of this Database have been in use"):
            db.queue("q").enqueue(1)
        done.set()
        holding.result(PATIENCE_S)
        db.queue("q").enqueue(1)


def test_a_row_that_another_transaction_keeps_is_waited_for_only_so_long(address: str) -> None:
    with brant.open(address, busy_timeout_ms=50) as db, psycopg.connect(address) as other:
        job_id = db.queue("q").enqueue(1)
        other.execute("SELECT 1 FROM brant._honker_live FOR UPDATE")
        with pytest.raises(DatabaseBusy, match="lock timeout"):
            db.queue("q").cancel(job_id)
        other.rollback()
        assert db.queue("q").cancel(job_id)


class Swallowing:
    """Between a client and the server; once told to, it takes everything and passes nothing on, as some networks do."""

    def __init__(self, server: str, own: str) -> None:
        self.silent = threading.Event()
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(own)
        self._listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.silent.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            each.close()


@contextmanager
def swallowing_network(address: str) -> Iterator[tuple[Swallowing, str]]:
    parts = urlsplit(address)
    folder = parse_qs(parts.query)["host"][0]
    with tempfile.TemporaryDirectory(prefix="brant-net-") as own:
        network = Swallowing(f"{folder}/.s.PGSQL.5432", f"{own}/.s.PGSQL.5432")
        yield network, f"{parts.scheme}://{parts.netloc}{parts.path}?host={own}"
        network.close()


def test_a_server_that_does_not_answer_any_more_is_given_up_in_time(address: str) -> None:
    if not Path(parse_qs(urlsplit(address).query).get("host", [""])[0]).is_dir():
        pytest.skip("the server has no socket to stand in front of")
    with (
        swallowing_network(address) as (network, through),
        brant.open(f"{through}&brant_timeout=0.2&connect_timeout=2") as db,
    ):
        queue = db.queue("q")
        queue.enqueue(1)
        network.silent.set()
        with pytest.raises(StorageError, match=r"did not answer|no answer in time|lost during the commit"):
            queue.enqueue(2)
        network.silent.clear()
        queue.enqueue(3)
        assert queue.stats().pending == 2
