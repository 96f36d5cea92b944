"""A database that holds something of everything, and a look at all that is in one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import brant
from brant.limit import Limit

ODD_TEXTS = ["", "plain", "é 漢 🦆", "a\0b", "line\nline\r\n\u2028\u0085\t", '"\\', "\x7f\u200b"]
NOT_UTF8 = b'"\xff\xc3\xed\xa0\x80 \0"'


def fill(db: brant.Database) -> None:
    """Through the public API: every table, odd names, fractions, and a payload of 1 MB."""
    _fill_queues(db)
    for number, text in enumerate(ODD_TEXTS):
        db.stream("events").publish(text, key=text)
        db.notify("channel \U0001f986", text)
        db.queue("work").save_result(number, text, ttl=None if number % 2 else 60.25)
    db.stream("events").save_offset("reader 1", 3)
    db.stream("events").save_offset("réader", 7)
    db.stream("pruned").publish_many([1, 2, 3])
    db.stream("pruned").prune(up_to=10**9)
    db.prune_notifications(max_keep=3)
    scheduler = db.scheduler()
    scheduler.add(name="nightly", queue="work", schedule="0 3 * * *", payload={"n": 1}, missed="one", expires=1.5)
    scheduler.add(name="often é", queue="work", schedule="@every 5s", priority=-3)
    scheduler.pause("nightly")
    db.try_rate_limit("api", 10, 60)
    db.try_rate_limit("api", 10, 60)
    db.add_alias("short", "work")


def _fill_queues(db: brant.Database) -> None:
    work, odd = db.queue("work"), db.queue("odd: é 漢")
    work.record_events()
    for number, text in enumerate(ODD_TEXTS):
        work.enqueue(text, priority=number - 3, delay=None if number % 2 else 0.25, expires=100.5)
        odd.enqueue(text)
    odd.enqueue({"x": "é" * 500_000})
    first, second, third, fourth = work.claim_batch("wörker", 3, lease_s=30.125) + odd.claim_batch("w", 1)
    first.retry(0.5, "it failed: é")
    second.fail("for good\0")
    third.ack()
    assert fourth.state == "processing"
    work.enqueue("once", unique_key="key é")
    work.enqueue("once a day", unique_key="key", unique_for=86_400.5)
    limited = db.queue("limited")
    limited.set_limit(Limit(max_running=5, max_starts=7, per_s=0.5))
    limited.enqueue_many([1, 2, 3], limit=Limit("kéy", max_running=1, max_starts=2, per_s=60))
    limited.claim_batch("w", 3)
    db.queue("paused").pause()
    with db.batch(then=("follows", {"é": 1}), note="é 漢") as batch:
        odd.enqueue("in a batch", batch=batch)


def add_foreign_rows(path: Path) -> None:
    """By plain SQL: what Brant itself never writes."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO _honker_live (queue, payload, state, priority, run_at, worker_id)"
            " VALUES (CAST(:broken AS TEXT), CAST(:broken AS TEXT), 'stränge', 2.5, 9e999, :broken)",
            {"broken": NOT_UTF8},
        )
        connection.execute("INSERT INTO _honker_live (queue, payload, attempts) VALUES ('q', x'00ff', 'many')")
        connection.execute("INSERT INTO _honker_locks VALUES ('held', 'somebody', 1.5), (NULL, '', -9e999)")
        connection.execute("INSERT INTO _brant_queues (name) VALUES (CAST(? AS TEXT)), (x'ff')", [NOT_UTF8])
        connection.execute("INSERT INTO _brant_unique VALUES ('', '', -1, 1e300)")
        connection.execute("INSERT INTO _honker_results (job_id, value) VALUES (-9223372036854775808, NULL)")
        connection.commit()


def everything(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every value of every table, with its type and its bytes, and the numbers from which ids go on."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
        return {name.decode(): _rows(connection, name.decode()) for (name,) in tables}


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    columns = [row[1].decode() for row in connection.execute(f"PRAGMA table_info({table})")]
    types = ", ".join(f"typeof({column})" for column in columns)
    order = "rowid" if table == "_brant_attempts" else ", ".join(columns)
    return connection.execute(f"SELECT {', '.join(columns)}, {types} FROM {table} ORDER BY {order}").fetchall()
