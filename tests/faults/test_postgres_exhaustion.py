"""A server whose connections are all in use: errors say so, nobody waits for ever, and all goes on when some go."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

import brant
import brant.tasks
from brant.errors import DatabaseBusy
from tests.servers import Server
from tests.waiting import PATIENCE_S, in_thread
from tests.worker.observing import running

pytestmark = pytest.mark.skipif("BRANT_TEST_POSTGRES" in os.environ, reason="uses up all connections of its server")
MANY = 6


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


class IdleSessions:
    """Those of somebody who has forgotten them."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open: list[psycopg.Connection[tuple[object, ...]]] = []

    def take_all(self) -> None:
        """As many as the server allows."""
        while True:
            try:
                self._open.append(psycopg.connect(self._address))
            except psycopg.OperationalError:
                return

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@contextmanager
def all_in_use(address: str) -> Iterator[IdleSessions]:
    sessions = IdleSessions(address)
    try:
        sessions.take_all()
        yield sessions
    finally:
        sessions.close()


def opened(address: str) -> brant.Database:
    """With connections that work: one to write, one to read and one to listen."""
    db = brant.open(address, busy_timeout_ms=200)
    db.queue("q").enqueue("first")
    db.queue("q").stats()
    return db


def write_at_once(db: brant.Database) -> list[BaseException | None]:
    """So many transactions that all want to be open at the same time; what each got."""
    met = threading.Barrier(MANY)

    def write() -> None:
        try:
            with db.transaction() as tx:
                db.queue("q").enqueue("together", tx=tx)
                met.wait(PATIENCE_S)
        except DatabaseBusy:
            met.abort()
            raise

    return [answer.exception(PATIENCE_S) for answer in [in_thread(write) for _ in range(MANY)]]


def test_who_needs_one_more_is_told_so_and_the_others_go_on(address: str) -> None:
    with opened(address) as db:
        listener = db.listen("c", fallback_poll_s=None)
        with all_in_use(address):
            with pytest.raises(DatabaseBusy, match="the server has no connection left"):
                brant.open(address)
            assert any(isinstance(error, DatabaseBusy) for error in write_at_once(db))
            # The one that listens is its own, and was there before.
            db.notify("c", "heard")
            heard = in_thread(listener.get, PATIENCE_S).result(PATIENCE_S)
            assert heard is not None
            assert heard.payload == "heard"
            assert db.queue("q").enqueue("second") > 0
            assert any("connections are in use" in problem for problem in db.health().problems)
        assert write_at_once(db) == [None] * MANY
        assert db.queue("q").stats().pending == 2 + MANY
        brant.open(address).close()


def test_a_worker_that_lost_its_connections_to_others_goes_on_when_they_go(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brant.tasks, "_process_wide", brant.tasks.Registry())
    done = [threading.Event(), threading.Event()]
    with brant.open(address, busy_timeout_ms=200) as db:
        queue = db.queue("q", visibility_timeout_s=1, max_attempts=100)

        @queue.task(name="note")
        def note(number: int) -> None:
            done[number].set()

        with running(db, "q", 2) as worker, psycopg.connect(address, autocommit=True) as somebody:
            note(0)
            assert done[0].wait(PATIENCE_S)
            with all_in_use(address) as others:
                give_up_at = time.monotonic() + PATIENCE_S
                while not worker.heard.all("trouble"):  # it may be faster to connect again than the others are
                    end_connections(somebody)
                    others.take_all()
                    db._storage.wake()  # to look for work, which it does every few seconds
                    assert time.monotonic() < give_up_at
            note(1)
            assert done[1].wait(PATIENCE_S)


@pytest.mark.parametrize("read", [lambda db: db.queue("q").due_in(), lambda db: db.query("SELECT 1 AS one")])
def test_a_reader_whose_next_connection_is_ended_too_is_busy(
    address: str, read: Callable[[brant.Database], object]
) -> None:
    with brant.open(address) as db, psycopg.connect(address, autocommit=True) as somebody:
        read(db)
        readers = db._storage._readers  # type: ignore[attr-defined]
        session = readers.borrow()
        reconnect = session._reconnect

        def unlucky(old: psycopg.Connection[tuple[object, ...]]) -> psycopg.Connection[tuple[object, ...]]:
            connection = reconnect(old)
            end_connections(somebody)
            return connection  # type: ignore[no-any-return]

        session._reconnect = unlucky
        readers.give_back(session)
        end_connections(somebody)
        with pytest.raises(DatabaseBusy, match="connection to the database was lost"):
            read(db)
        session._reconnect = reconnect
        read(db)


def end_connections(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'brant'"
    )
