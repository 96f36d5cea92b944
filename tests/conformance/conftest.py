"""Fixtures for tests that must hold on every backend: they name no table and write no SQL of one database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from brant.storage.base import Storage
from brant.storage.session import Session
from brant.storage.sqlite.backend import SqliteStorage
from brant.testing import FakeClock
from tests.servers import Server

READING = frozenset(
    {
        "alias_target",
        "arrivals",
        "attempt_errors",
        "batch_of_job",
        "claimable",
        "get_batch",
        "get_dead",
        "get_job",
        "get_offset",
        "get_result",
        "get_schedule",
        "last_job_id",
        "last_notification",
        "list_aliases",
        "list_batches",
        "list_consumers",
        "list_dead",
        "list_limits",
        "list_schedules",
        "lock_holder",
        "migration_note",
        "next_claim_at",
        "next_schedule_at",
        "peek",
        "queue_counts",
        "queue_has_rows",
        "queue_names",
        "queue_paused",
        "read_notifications",
        "read_stream",
        "running_jobs",
        "stream_head",
        "topics",
        "wants_events",
    }
)


@dataclass
class Backend:
    """One database of a test's own, which any number of clients may open; all of them share its clock.

    `connect_plainly` opens a connection of the database's own Python driver, as an application does.
    """

    name: str
    clock: FakeClock
    connect: Callable[[], Storage]
    connect_plainly: Callable[[], Any]
    _opened: list[Storage] = field(default_factory=list)

    def open(self) -> Storage:
        storage = self.connect()
        self._opened.append(storage)
        return storage

    def close(self) -> None:
        for storage in self._opened:
            storage.close()


class OwnTransactions:
    """A session whose every verb runs in a transaction of its own; a verb that only reads is given a reader."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*args: object, **options: object) -> Any:
            block = self._storage.reading() if verb in READING else self._storage.transaction()
            with block as session:
                return getattr(session, verb)(*args, **options)

        return call


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Backend]:
    with _BACKENDS[request.param](request, clock) as made:
        yield made
        made.close()


@contextmanager
def sqlite_backend(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Backend]:
    path = str(request.getfixturevalue("tmp_path") / "app.db")
    yield Backend(
        "sqlite",
        clock,
        connect=lambda: SqliteStorage(path, clock=clock),
        connect_plainly=lambda: sqlite3.connect(path),
    )


@contextmanager
def postgres_backend(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Backend]:
    import psycopg

    from brant.storage.postgres.backend import PostgresStorage

    server: Server = request.getfixturevalue("postgres_server")
    with server.database() as address:
        yield Backend(
            "postgres",
            clock,
            connect=lambda: PostgresStorage(address, clock=clock),
            connect_plainly=lambda: psycopg.connect(address),
        )


_BACKENDS = {"sqlite": sqlite_backend, "postgres": postgres_backend}


@pytest.fixture
def storage(backend: Backend) -> Storage:
    return backend.open()


@pytest.fixture
def session(storage: Storage) -> Session:
    return cast(Session, OwnTransactions(storage))
