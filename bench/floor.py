"""The floor: Brant's own statements on a bare sqlite3 connection to a file with the same tables."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

import brant
from brant.storage.sqlite.connection import STATEMENTS


class Floor:
    """What the same work costs without Brant's Python around it."""

    def __init__(self, path: Path) -> None:
        brant.open(path).close()
        self.connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("synchronous = NORMAL", "cache_size = -32000", "temp_store = MEMORY"):
            self.connection.execute(f"PRAGMA {setting}")
        self.connection.execute("INSERT OR IGNORE INTO _brant_queues (name) VALUES ('q')")

    def _run(self, name: str, params: dict[str, object]) -> list[tuple[object, ...]]:
        return self.connection.execute(STATEMENTS[name], params).fetchall()

    def _new_job(self) -> dict[str, object]:
        now = time.time()
        return {
            "micros": int(now * 1_000_000),
            "queue": "q",
            "payload": '{"n": 1}',
            "priority": 0,
            "run_at": int(now),
            "max_attempts": 3,
            "second": int(now),
            "expires_at": None,
        }

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self.connection.execute("BEGIN IMMEDIATE")
            self._run("enqueue", self._new_job())
            self.connection.execute("COMMIT")

    def enqueue_hundreds(self, count: int) -> None:
        plain = (
            "INSERT INTO _honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at) "
            "VALUES (:id, :queue, :payload, :priority, :run_at, :max_attempts, :second, :expires_at)"
        )
        for _ in range(count // 100):
            self.connection.execute("BEGIN IMMEDIATE")
            last = self._run("last_job_id", {})[0][0]
            job = self._new_job()
            first = max(int(str(job["micros"])), int(str(last)) + 1)
            self.connection.executemany(plain, [{**job, "id": first + number} for number in range(100)])
            self.connection.execute("COMMIT")

    def claim_and_ack(self, count: int, batch: int = 1) -> None:
        for _ in range(count // batch):
            now = time.time()
            claim = {"now": now, "second": int(now), "queue": "q", "worker": "w"}
            self.connection.execute("BEGIN IMMEDIATE")
            self._run("claim_upkeep", claim)
            rows = self._run("claim", claim | {"limit": batch, "lease_end": int(now) + 300})
            self.connection.execute("COMMIT")
            self.connection.execute("BEGIN IMMEDIATE")
            if batch == 1:
                self._run("ack", claim | {"id": rows[0][0], "attempt": None})
            else:
                self._run("ack_many", claim | {"ids": json.dumps([row[0] for row in rows])})
            self.connection.execute("COMMIT")

    def drain(self, count: int, batch: int = 1) -> None:
        """Claims, and the acks and results of what was claimed before, in one commit each time."""
        rows: list[tuple[object, ...]] = []
        for _ in range(count // batch + 1):
            now = time.time()
            claim = {"now": now, "second": int(now), "queue": "q", "worker": "w"}
            self.connection.execute("BEGIN IMMEDIATE")
            for row in rows:
                self._run("ack", claim | {"id": row[0], "attempt": None})
                self._run("save_result", claim | {"job_id": row[0], "value": "1", "expires_at": now + 3600})
            self._run("claim_upkeep", claim)
            rows = self._run("claim", claim | {"limit": batch, "lease_end": int(now) + 300})
            self.connection.execute("COMMIT")

    def replay(self, count: int) -> None:
        last: object = 0
        for _ in range(count // 1000):
            rows = self._run("read_stream", {"topic": "t", "after": last, "limit": 1000})
            last = rows[-1][0]
