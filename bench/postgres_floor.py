"""The floor on a server: Brant's own statements through bare psycopg, prepared, each a transaction by itself.

No upkeep, no wake-ups and no BEGIN: what is left is one round trip for each statement.
"""

from __future__ import annotations

import json
import time

import psycopg
from psycopg.rows import tuple_row

import brant
from brant.storage.postgres.sql import DEFAULT_SCHEMA, statements_of


class PostgresFloor:
    """What the same work costs without Brant's Python around it."""

    def __init__(self, address: str) -> None:
        with brant.open(address) as db:
            db.queue("q").enqueue_many([])
        self._statements = statements_of(DEFAULT_SCHEMA)
        self._connection = psycopg.connect(address, autocommit=True)
        self._cursor = psycopg.RawCursor(self._connection, row_factory=tuple_row)
        self._run("register_queue", {"queue": "q"})

    def _run(self, name: str, params: dict[str, object]) -> list[tuple[object, ...]]:
        statement = self._statements[name]
        self._cursor.execute(statement.sql, [params[key] for key in statement.params], prepare=True)
        return self._cursor.fetchall() if self._cursor.description else []

    def _new_job(self) -> dict[str, object]:
        now = time.time()
        return {
            "micros": int(now * 1_000_000),
            "queue": "q",
            "payload": '{"n": 1}',
            "priority": 0,
            "run_at": float(int(now)),
            "max_attempts": 3,
            "second": float(int(now)),
            "expires_at": None,
        }

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._run("enqueue", self._new_job())

    def enqueue_hundreds(self, count: int) -> None:
        for _ in range(count // 100):
            self._run("enqueue_many", self._new_job() | {"payloads": json.dumps(['{"n": 1}'] * 100)})

    def claim_and_ack(self, count: int, batch: int = 1) -> None:
        for _ in range(count // batch):
            now = time.time()
            claim: dict[str, object] = {"now": now, "second": float(int(now)), "queue": "q", "worker": "w"}
            rows = self._run("claim", claim | {"limit": batch, "lease_end": float(int(now) + 300)})
            assert len(rows) == batch
            if batch == 1:
                done = self._run("ack", claim | {"id": rows[0][0], "attempt": rows[0][8]})
            else:
                done = self._run("ack_many", claim | {"ids": json.dumps([row[0] for row in rows])})
            assert len(done) == batch
