"""Two clients of one file and a plain connection, each step compared with the model; what is tried is in test_model.py.

While a transaction is open, `model` is what it sees and `committed` what everybody else sees; otherwise they are one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import brant
from brant.errors import DatabaseBusy
from brant.testing import FakeClock
from tests.model import Job, Model

LEASES = {"a": 10.0, "b": 2.5}
ATTEMPTS = {"a": 2, "b": 3}
STREAMS = ("s", "t")

clients = st.sampled_from([0, 1])
queues = st.sampled_from(list(LEASES))
# Quarters, which are exact in binary: the model needs no tolerance.
spans = st.sampled_from([0, 0.25, 0.5, 1, 2.5, 5, 10])


def no_transaction(machine: TwoClients) -> bool:
    return machine.tx is None


def in_transaction(machine: TwoClients) -> bool:
    return machine.tx is not None


def now_and_then(machine: TwoClients) -> bool:
    """For steps that take away what others work on, or change nothing: with too many of them little happens."""
    return machine.steps % 4 == 0


class TwoClients(RuleBasedStateMachine):
    # Where several may write at once, and an id that was given out is gone even if the transaction is undone.
    is_server = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.model = self.committed = Model(self.clock.now())
        self.open = ExitStack()
        self.tx: Any = None
        self.block: brant.Transaction | None = None
        self.writer = 0
        self.handles: list[brant.Job] = []
        self.ids: list[int] = []
        self.steps = 0

    @initialize()
    def connect(self) -> None:
        path = self.place()
        # Without patience, so that a client that finds another one writing is told at once.
        # On a server, autovacuum may hold a table for a moment.
        patience_ms = 1000 if self.is_server else 0
        opened = [brant.open(path, clock=self.clock, busy_timeout_ms=patience_ms, synchronous="OFF") for _ in range(2)]
        self.clients = [self.open.enter_context(client) for client in opened]
        for client in self.clients:
            for name, lease in LEASES.items():
                client.queue(name, visibility_timeout_s=lease, max_attempts=ATTEMPTS[name])
        self.connection = self.open.enter_context(closing(self.plain_connection(path)))

    def place(self) -> str:
        return f"{self.open.enter_context(TemporaryDirectory())}/app.db"

    def plain_connection(self, path: str) -> Any:
        """As an application has one: in autocommit mode, so that it begins transactions by itself."""
        return sqlite3.connect(path, isolation_level=None)

    def teardown(self) -> None:
        if self.tx is not None:
            self.roll_back()
        self.open.close()

    def queue(self, client: int, name: str) -> brant.Queue:
        """While a transaction is open, only its owner may write."""
        return self.clients[client if self.tx is None else self.writer].queue(name)

    def stream(self, client: int, name: str) -> brant.Stream:
        return self.clients[client if self.tx is None else self.writer].stream(name)

    def picked(self, pick: int) -> int:
        """An id, more often than not of a job that is there."""
        known = [1, *self.ids[-2:], *self.model.dead, *self.model.live]
        return known[-1 - pick % len(known)]

    def claimed(self, jobs: list[brant.Job], expected: list[tuple[Job, str | None]]) -> None:
        assert [row_of(job) for job in jobs] == [job.row() | {"last_error": error} for job, error in expected]
        self.handles += jobs

    def handle(self, pick: int) -> brant.Job:
        """A claimed job, more often than not one that is still there."""
        known = [job for job in self.handles if job.id in self.model.live] or self.handles
        job = known[-1 - pick % len(known)]
        # A job is settled in a transaction of its own Database, or on a connection of the application.
        if self.block is not None:
            job.queue = self.queue(self.writer, job.queue.name)
        return job

    # Time

    @rule(span=spans)
    def let_time_pass(self, span: float) -> None:
        self.clock.advance(span)
        self.tell_the_time()

    @rule(span=st.sampled_from([-20, -0.75, 0.25, 20]))
    def set_the_clock(self, span: float) -> None:
        self.clock.step_wall(span)
        self.tell_the_time()

    @precondition(lambda self: self.model.moments())
    @rule(pick=st.integers(0, 15), span=st.sampled_from([-0.25, 0, 0.25, 0.75, 1]))
    def go_where_something_may_change(self, pick: int, span: float) -> None:
        moments = sorted(self.model.moments())
        self.go_to(moments[pick % len(moments)] + span)

    def go_to(self, moment: float) -> None:
        self.clock.step_wall(moment - self.clock.now())
        self.tell_the_time()

    def tell_the_time(self) -> None:
        self.model.now = self.committed.now = self.clock.now()

    # Transactions

    @precondition(no_transaction)
    @rule(client=clients, on_connection=st.booleans())
    def begin(self, client: int, on_connection: bool) -> None:
        """A transaction of Brant's own, or one on a connection of the application."""
        self.writer = client
        if on_connection:
            self.tx = self.connection
            self.connection.execute("BEGIN" if self.is_server else "BEGIN IMMEDIATE")
        else:
            self.tx = self.block = self.clients[client].transaction()
            self.block.__enter__()
        self.model = self.committed.copy()

    @precondition(in_transaction)
    @rule()
    def commit(self) -> None:
        if self.block is not None:
            self.block.__exit__(None, None, None)
        else:
            self.connection.commit()
        self.committed = self.model
        self.tx = self.block = None

    @precondition(in_transaction)
    @rule()
    def roll_back(self) -> None:
        if self.block is not None:
            self.block.__exit__(ValueError, ValueError(), None)
        else:
            self.connection.rollback()
        if self.is_server:
            self.committed.last_id = max(self.model.last_id, self.committed.last_id)
            self.committed.last_offset = self.model.last_offset
        self.model = self.committed
        self.tx = self.block = None

    @precondition(lambda self: not self.is_server)
    @precondition(in_transaction)
    @precondition(now_and_then)
    @rule(name=queues)
    def write_while_another_writes(self, name: str) -> None:
        with pytest.raises(DatabaseBusy):
            self.clients[1 - self.writer].queue(name).write("refused")

    # What can be seen

    @invariant()
    def count(self) -> None:
        self.steps += 1

    @invariant()
    def every_client_sees_what_was_committed(self) -> None:
        for client in self.clients:
            compare_tables(client.query, self.committed, self.order_of_failures)
            assert [asdict(stats) for stats in client.list_queues()] == [
                self.committed.stats(name) for name in self.committed.queue_names()
            ]
            for name in STREAMS:
                stream = client.stream(name)
                seen = [(consumer.name, consumer.offset, consumer.lag) for consumer in stream.consumers()]
                assert seen == self.committed.consumers(name)

    @invariant()
    def the_transaction_sees_what_it_wrote(self) -> None:
        if self.block is not None:
            compare_tables(self.block.query, self.model, self.order_of_failures)
        elif self.tx is not None:
            compare_tables(self.query_the_connection, self.model, self.order_of_failures)

    @property
    def order_of_failures(self) -> str:
        return "number" if self.is_server else "rowid"

    def query_the_connection(self, sql: str) -> list[dict[str, Any]]:
        cursor = self.connection.execute(sql)
        return [dict(zip([column[0] for column in cursor.description], row, strict=True)) for row in cursor]


def compare_tables(query: Callable[[str], list[dict[str, Any]]], model: Model, order_of_failures: str) -> None:
    assert query("SELECT * FROM _honker_live ORDER BY id") == [job.row() for _, job in sorted(model.live.items())]
    assert query("SELECT * FROM _honker_dead ORDER BY id") == [letter.row() for _, letter in sorted(model.dead.items())]
    assert query('SELECT * FROM _honker_stream ORDER BY "offset"') == [asdict(event) for event in model.events]
    failures: dict[int, list[tuple[Any, ...]]] = {}
    columns = "job_id, attempt, worker_id, error, failed_at"
    for row in query(f"SELECT {columns} FROM _brant_attempts ORDER BY {order_of_failures}"):
        job_id, *failure = row.values()
        failures.setdefault(job_id, []).append(tuple(failure))
    assert failures == model.failures()


def row_of(job: brant.Job) -> dict[str, Any]:
    same = ("id", "state", "priority", "run_at", "worker_id", "claim_expires_at", "attempts", "max_attempts")
    row = {name: getattr(job, name) for name in (*same, "created_at", "expires_at", "last_error")}
    return row | {"queue": job.queue_name, "payload": json.dumps(job.payload)}


def shown(*messages: brant.Message | None) -> list[tuple[int, str, object]]:
    return [(message.id, message.queue, message.payload) for message in messages if message is not None]


def meant(jobs: list[Job]) -> list[tuple[int, str, object]]:
    return [(job.id, job.queue, json.loads(job.payload)) for job in jobs]
