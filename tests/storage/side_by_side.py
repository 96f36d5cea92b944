"""Clients of one Postgres database that work at the same time: transactions that a test ends when it likes, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import psycopg
import pytest

from brant.storage.base import Storage
from brant.storage.postgres.backend import PostgresStorage
from brant.storage.session import Session
from brant.testing import FakeClock
from tests.servers import Server
from tests.waiting import PATIENCE_S, in_thread

R = TypeVar("R")

_BLOCKED = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
_LOOKS = 50_000


class Open:
    """A transaction that stays open until the test commits it or rolls it back."""

    def __init__(self, storage: Storage) -> None:
        self._block: AbstractContextManager[Session] = storage.transaction()
        self.session = self._block.__enter__()

    def commit(self) -> None:
        self._block.__exit__(None, None, None)

    def roll_back(self) -> None:
        regret = InterruptedError()
        self._block.__exit__(InterruptedError, regret, None)


class Clients:
    """Any number of clients, each with connections of its own."""

    def __init__(self, address: str, clock: FakeClock) -> None:
        self.address = address
        self.clock = clock
        self._opened: list[Storage] = []

    def new(self) -> Storage:
        storage = PostgresStorage(self.address, clock=self.clock)
        self._opened.append(storage)
        return storage

    def begin(self) -> Open:
        """A transaction of a new client."""
        return Open(self.new())

    def at_once(self, count: int, work: Callable[[Storage, int], R]) -> list[R]:
        """Have so many clients do it in threads that start together; each gets its number."""
        ready = threading.Barrier(count)

        def run(storage: Storage, number: int) -> R:
            ready.wait(PATIENCE_S)
            return work(storage, number)

        answers = [in_thread(run, self.new(), number) for number in range(count)]
        return [answer.result(PATIENCE_S) for answer in answers]

    def wait_until_blocked(self) -> None:
        """Until a client waits for the lock of another one."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            for _ in range(_LOOKS):
                if connection.execute(_BLOCKED).fetchall():
                    return
        raise AssertionError("nobody waits for a lock")

    def close(self) -> None:
        for storage in self._opened:
            storage.close()


@pytest.fixture
def clients(postgres_server: Server, clock: FakeClock) -> Iterator[Clients]:
    with postgres_server.database() as address:
        made = Clients(address, clock)
        yield made
        made.close()
