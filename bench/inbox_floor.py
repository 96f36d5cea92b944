"""The floor of the inbox: the same statements on a bare sqlite3 connection to a file with the same tables."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from pathlib import Path
from typing import cast

import brant
from brant.inbox.tables import QUEUE, statements
from brant.storage.sqlite.connection import STATEMENTS

_HEADERS = json.dumps({"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + "0" * 64})


class InboxFloor:
    """What storing and handling webhooks costs without Brant's Python around it: no request, no check, no worker."""

    def __init__(self, path: Path, synchronous: str) -> None:
        with brant.open(path) as db, brant.Inbox(db) as inbox:
            inbox.endpoint("hooks", verify="none")
            with db.transaction() as tx:
                tx.execute("CREATE TABLE ledger (event INTEGER)")
        self.connection = sqlite3.connect(path, isolation_level=None)
        for setting in (
            f"synchronous = {synchronous}",
            "cache_size = -32000",
            "temp_store = MEMORY",
            "foreign_keys = ON",
        ):
            self.connection.execute(f"PRAGMA {setting}")
        self.connection.execute("INSERT OR IGNORE INTO _brant_queues (name) VALUES (?)", [QUEUE])
        self._received = 0

    def receive(self, count: int) -> None:
        """An event, its job and its delivery in a commit for each."""
        for _ in range(count):
            self.connection.execute("BEGIN IMMEDIATE")
            self._store()
            self.connection.execute("COMMIT")

    def insert(self, count: int) -> None:
        """The smallest commit there is: one row of an integer."""
        for number in range(count):
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute("INSERT INTO ledger VALUES (?)", [number])
            self.connection.execute("COMMIT")

    def fill(self, count: int) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        for _ in range(count):
            self._store()
        self.connection.execute("COMMIT")

    def handle(self, count: int, batch: int) -> None:
        """Claims in batches; for each event a commit with a row of the handler's, the mark, the attempt and the ack."""
        for _ in range(count // batch):
            now = time.time()
            claim = {"now": now, "second": int(now), "queue": QUEUE, "worker": "w"}
            self.connection.execute("BEGIN IMMEDIATE")
            self._run("claim_upkeep", claim)
            rows = self._run("claim", claim | {"limit": batch, "lease_end": int(now) + 60})
            self.connection.execute("COMMIT")
            for row in rows:
                self._handle_one(row, claim)

    def _handle_one(self, row: tuple[object, ...], claim: dict[str, object]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        event_id = json.loads(cast("bytes", row[2]))["event_id"]
        self._inbox_run("event_to_run", event_id)
        self.connection.execute("INSERT INTO ledger VALUES (?)", [event_id])
        self._inbox_run("mark_handled", event_id, 1, claim["second"])
        self._inbox_run("insert_attempt", event_id, claim["second"], "handled", None, 0)
        self._inbox_run("close_order", event_id)
        self._run("ack", claim | {"id": row[0], "attempt": 1})
        self.connection.execute("COMMIT")

    def _store(self) -> None:
        self._received += 1
        now, body = time.time(), b'{"ref": "refs/heads/main", "n": %d}' % self._received
        # Brant's own kind of key: where it lands in its index decides how many pages a commit writes.
        key = f"sha256:{hashlib.sha256(body).hexdigest()}"
        facts = (None, None, "push", "POST", _HEADERS, body, "{}")
        [(event_id,)] = self._inbox_run("insert_event", 1, int(now), *facts, key, "received", None)
        job = {
            "micros": int(now * 1_000_000),
            "queue": QUEUE,
            "payload": json.dumps({"event_id": event_id}),
            "priority": 0,
            "run_at": int(now),
            "max_attempts": 8,
            "second": int(now),
            "expires_at": None,
        }
        self._run("enqueue", job)
        self._inbox_run("insert_delivery", 1, event_id, int(now), *facts, 1, None, key)

    def _run(self, name: str, params: dict[str, object]) -> list[tuple[object, ...]]:
        return self.connection.execute(STATEMENTS[name], params).fetchall()

    def _inbox_run(self, name: str, *values: object) -> list[tuple[object, ...]]:
        return self.connection.execute(statements()[name], values).fetchall()
