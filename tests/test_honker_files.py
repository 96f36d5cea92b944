"""Files are interchangeable with Honker: its tables, made and filled here by plain SQL as Honker would."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock

NOW = 1_700_000_000
DDL = """
CREATE TABLE _honker_notifications(id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL,
    payload TEXT NOT NULL, created_at INTEGER NOT NULL DEFAULT (unixepoch()));
CREATE INDEX _honker_notifications_recent ON _honker_notifications(channel, id);
CREATE TABLE _honker_live(id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, payload TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', priority INTEGER NOT NULL DEFAULT 0,
    run_at INTEGER NOT NULL DEFAULT (unixepoch()), worker_id TEXT, claim_expires_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL DEFAULT 3,
    created_at INTEGER NOT NULL DEFAULT (unixepoch()), expires_at INTEGER);
CREATE INDEX _honker_live_claim ON _honker_live(queue, priority DESC, run_at, id)
    WHERE state IN ('pending','processing');
CREATE INDEX _honker_live_pending_deadline ON _honker_live(queue, run_at) WHERE state='pending';
CREATE INDEX _honker_live_processing_deadline ON _honker_live(queue, claim_expires_at) WHERE state='processing';
CREATE TABLE _honker_dead(id INTEGER PRIMARY KEY, queue TEXT NOT NULL, payload TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0, run_at INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL DEFAULT 0, last_error TEXT,
    created_at INTEGER NOT NULL DEFAULT (unixepoch()), died_at INTEGER NOT NULL DEFAULT (unixepoch()));
CREATE TABLE _honker_locks(name TEXT PRIMARY KEY, owner TEXT NOT NULL, expires_at INTEGER NOT NULL);
CREATE TABLE _honker_rate_limits(name TEXT NOT NULL, window_start INTEGER NOT NULL, count INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY(name, window_start));
CREATE TABLE _honker_scheduler_tasks(name TEXT PRIMARY KEY, queue TEXT NOT NULL, cron_expr TEXT NOT NULL,
    payload TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 0, expires_s INTEGER,
    next_fire_at INTEGER NOT NULL, enabled INTEGER NOT NULL DEFAULT 1,
    max_attempts INTEGER NOT NULL DEFAULT 3);
CREATE TABLE _honker_results(job_id INTEGER PRIMARY KEY, value TEXT,
    created_at INTEGER NOT NULL DEFAULT (unixepoch()), expires_at INTEGER);
CREATE TABLE _honker_stream(offset INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT,
    payload TEXT NOT NULL, created_at INTEGER NOT NULL DEFAULT (unixepoch()));
CREATE INDEX _honker_stream_topic ON _honker_stream(topic, offset);
CREATE TABLE _honker_stream_consumers(name TEXT NOT NULL, topic TEXT NOT NULL, offset INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY(name, topic));
"""
OLD_SCHEDULES = """
DROP TABLE _honker_scheduler_tasks;
CREATE TABLE _honker_scheduler_tasks(name TEXT PRIMARY KEY, queue TEXT NOT NULL, cron_expr TEXT NOT NULL,
    payload TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 0, expires_s INTEGER, next_fire_at INTEGER NOT NULL);
INSERT INTO _honker_scheduler_tasks VALUES ('nightly', 'q', '@every 60s', '{"n": 1}', 2, NULL, 1700000010);
CREATE TABLE _honker_scheduler_state(name TEXT PRIMARY KEY, last_fire_at INTEGER);
INSERT INTO _honker_scheduler_state VALUES ('nightly', 5);
"""
OLD_COLUMNS = (
    "(id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, payload TEXT NOT NULL, priority INTEGER NOT NULL"
    " DEFAULT 0, run_at INTEGER NOT NULL DEFAULT 0, worker_id TEXT, claim_expires_at INTEGER, attempts INTEGER NOT NULL"
    " DEFAULT 0, max_attempts INTEGER NOT NULL DEFAULT 3, created_at INTEGER NOT NULL DEFAULT 0)"
)
OLD_JOBS = f"""
CREATE TABLE _honker_pending{OLD_COLUMNS};
CREATE INDEX _honker_pending_claim ON _honker_pending(queue, priority DESC, run_at, id);
CREATE TABLE _honker_processing{OLD_COLUMNS};
CREATE INDEX _honker_processing_reclaim ON _honker_processing(queue, claim_expires_at);
CREATE INDEX _honker_jobs_claim ON _honker_live(queue);
CREATE INDEX _honker_jobs_claim_v2 ON _honker_live(queue);
INSERT INTO _honker_pending(queue, payload, priority, attempts) VALUES ('q', '"first"', 1, 0), ('q', '"second"', 0, 2);
INSERT INTO _honker_processing(queue, payload, worker_id, claim_expires_at, attempts)
    VALUES ('q', '"in flight"', 'w', 5, 1);
"""


@pytest.fixture
def plain(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that Honker made, with nothing of Brant's in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(DDL)
        yield connection


def definitions(connection: sqlite3.Connection, prefix: str) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type <> 'view' AND sql IS NOT NULL").fetchall()
    return {name: re.sub(r"\s+", "", sql).lower() for name, sql in rows if name.startswith(prefix)}


@pytest.mark.guarantee("G17")
def test_every_shared_table_and_index_is_defined_as_honker_defines_it(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as honkers,
        brant.open(tmp_path / "brants.db") as db,
        closing(sqlite3.connect(db.path)) as brants,
    ):
        honkers.executescript(DDL)
        assert definitions(brants, "_honker_") == definitions(honkers, "_honker_")


@pytest.mark.guarantee("G17")
def test_what_brant_adds_bears_its_name(db: brant.Database) -> None:
    names = {row["name"] for row in db.query("SELECT name FROM sqlite_schema")}
    assert {name for name in names if not name.startswith(("_honker_", "_brant_", "sqlite_"))} == set()


@pytest.mark.guarantee("G17")
def test_opening_a_file_of_honkers_changes_no_shared_definition(plain: sqlite3.Connection, path: Path) -> None:
    before = definitions(plain, "_honker_")
    with brant.open(path) as db:
        db.queue("q")
        assert definitions(plain, "_honker_") == before


@pytest.mark.guarantee("G17")
def test_what_honker_stored_is_what_brant_finds(plain: sqlite3.Connection, path: Path, clock: FakeClock) -> None:
    plain.executescript(f"""
        INSERT INTO _honker_live(id, queue, payload, run_at, priority) VALUES (1, 'q', '{{"n": 1}}', {NOW}, 7);
        INSERT INTO _honker_live(id, queue, payload, run_at, state, worker_id, claim_expires_at, attempts)
            VALUES (2, 'q', 'null', {NOW}, 'processing', 'theirs', {NOW + 60}, 1);
        INSERT INTO _honker_dead(id, queue, payload, last_error) VALUES (3, 'q', '"x"', 'bad');
        INSERT INTO _honker_notifications(channel, payload) VALUES ('c', '"hello"');
        INSERT INTO _honker_locks VALUES ('backup', 'theirs', {NOW + 60});
        INSERT INTO _honker_rate_limits VALUES ('api', {NOW // 60 * 60}, 10);
        INSERT INTO _honker_scheduler_tasks VALUES ('s', 'q', '@every 60s', '{{}}', 0, NULL, {NOW + 5}, 0, 4);
        INSERT INTO _honker_results VALUES (1, '{{"ok": true}}', {NOW}, NULL);
        INSERT INTO _honker_stream(topic, key, payload) VALUES ('t', 'k', '[1]'), ('t', NULL, '[2]');
        INSERT INTO _honker_stream_consumers VALUES ('reader', 't', 1);
    """)
    with brant.open(path, clock=clock) as db:
        queue, stream = db.queue("q"), db.stream("t")
        (job,) = queue.claim_batch("ours", 9)
        assert (job.id, job.payload, job.priority, job.attempts) == (1, {"n": 1}, 7, 1)
        assert queue.ack(2, "theirs")
        assert [(letter.id, letter.payload, letter.last_error) for letter in queue.list_dead()] == [(3, "x", "bad")]
        with pytest.raises(brant.LockHeld), db.lock("backup"):
            pass
        assert not db.try_rate_limit("api", 10, 60)
        (schedule,) = db.scheduler().schedules()
        assert (schedule.enabled, schedule.max_attempts, schedule.next_fire_at) == (False, 4, NOW + 5)
        assert queue.get_result(1) == (True, {"ok": True})
        assert [(event.offset, event.key, event.payload) for event in stream.read()] == [(1, "k", [1]), (2, None, [2])]
        assert stream.get_offset("reader") == 1


@pytest.mark.guarantee("G17")
@pytest.mark.guarantee("G6")
def test_ids_go_on_growing_whoever_inserts(plain: sqlite3.Connection, path: Path, clock: FakeClock) -> None:
    def by_sql(table: str, column: str) -> int:
        row = plain.execute(f"INSERT INTO {table}(payload, {column}) VALUES ('1', 'q') RETURNING id").fetchone()
        return int(row[0])

    with brant.open(path, clock=clock) as db:
        queue = db.queue("q")
        ids = [by_sql("_honker_live", "queue"), queue.enqueue(1), by_sql("_honker_live", "queue"), queue.enqueue(1)]
        assert ids == [1, NOW * 1_000_000, NOW * 1_000_000 + 1, NOW * 1_000_000 + 2]
        clock.advance(1)
        assert queue.enqueue(1) == (NOW + 1) * 1_000_000
        ids = [by_sql("_honker_notifications", "channel"), db.notify("q", 1)]
        assert [*ids, by_sql("_honker_notifications", "channel")] == [1, ids[1], ids[1] + 1]


def test_a_row_of_plain_sql_with_nothing_but_its_defaults_is_a_job(plain: sqlite3.Connection, path: Path) -> None:
    with brant.open(path) as db:
        queue = db.queue("q")
        plain.execute("INSERT INTO _honker_live(queue, payload) VALUES ('q', '[1, 2]')")
        job = queue.claim_one("w")
        assert job is not None
        assert (job.payload, job.attempts, job.max_attempts) == ([1, 2], 1, 3)
        assert job.ack()


@pytest.mark.guarantee("G4")
@pytest.mark.guarantee("G17")
def test_a_lease_taken_by_honker_holds_to_the_end_of_its_last_second(
    plain: sqlite3.Connection, path: Path, clock: FakeClock
) -> None:
    with brant.open(path, clock=clock) as db:
        queue = db.queue("q")
        job_id = queue.enqueue(1)
        plain.execute(
            "UPDATE _honker_live SET state = 'processing', worker_id = 'theirs', claim_expires_at = ?, attempts = 1",
            [NOW + 60],
        )
        clock.advance(60.9)
        assert queue.claim_one("ours") is None
        clock.advance(0.1)
        job = queue.claim_one("ours")
        assert job is not None
        assert (job.id, job.attempts) == (job_id, 2)


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("gone", ["honker acked it", "honker buried it"])
def test_a_job_that_honker_ends_frees_its_unique_key(plain: sqlite3.Connection, path: Path, gone: str) -> None:
    with brant.open(path) as db:
        queue = db.queue("q")
        job_id = queue.enqueue(1, unique_key="k")
        assert queue.enqueue(2, unique_key="k") == job_id
        plain.execute("BEGIN")
        plain.execute("DELETE FROM _honker_live WHERE id = ?", [job_id])
        if gone == "honker buried it":
            plain.execute("INSERT INTO _honker_dead(id, queue, payload) VALUES (?, 'q', '1')", [job_id])
        plain.execute("COMMIT")
        assert queue.enqueue(3, unique_key="k") != job_id


def test_a_schedule_stores_no_fraction_that_honker_could_not_read(plain: sqlite3.Connection, path: Path) -> None:
    with brant.open(path) as db:
        scheduler = db.scheduler()
        scheduler.add(name="s", queue="q", schedule="@daily", expires=1.5)
        scheduler.add(name="t", queue="q", schedule="@daily")
        scheduler.update("t", expires=2.1)
    assert plain.execute("SELECT expires_s, typeof(next_fire_at) FROM _honker_scheduler_tasks").fetchall() == [
        (2, "integer"),
        (3, "integer"),
    ]


@pytest.mark.guarantee("G17")
def test_times_are_whole_seconds_unless_a_fraction_is_asked_for(path: Path, clock: FakeClock) -> None:
    clock.advance(0.75)
    with brant.open(path, clock=clock) as db:
        queue = db.queue("q", max_attempts=1)
        queue.enqueue(1, delay=5, expires=9)
        queue.enqueue(2)
        job = queue.claim_one("w")
        assert job is not None
        job.retry(5, "bad")
        queue.enqueue(3)
        queue.claim_one("w")
        queue.save_result(1, 1, ttl=5)
        db.stream("s").publish(1)
        db.notify("c", 1)
        with db.lock("l"):
            locks = db.query("SELECT expires_at FROM _honker_locks")
        times = [
            *locks,
            *db.query("SELECT run_at, created_at, claim_expires_at, expires_at FROM _honker_live"),
            *db.query("SELECT run_at, created_at, died_at FROM _honker_dead"),
            *db.query("SELECT created_at, expires_at FROM _honker_results"),
            *db.query("SELECT created_at FROM _honker_stream UNION ALL SELECT created_at FROM _honker_notifications"),
        ]
    assert len(times) == 7
    assert {type(value) for row in times for value in row.values()} <= {int, type(None)}


def test_columns_that_an_old_file_lacks_are_added_and_its_schedules_kept(
    plain: sqlite3.Connection, path: Path, clock: FakeClock
) -> None:
    plain.executescript(OLD_SCHEDULES)
    with brant.open(path, clock=clock) as db:
        (schedule,) = db.scheduler().schedules()
        assert (schedule.name, schedule.enabled, schedule.max_attempts) == ("nightly", True, 3)
        clock.advance(10)
        assert len(db.scheduler().tick()) == 1
    with brant.open(path):
        assert plain.execute("SELECT * FROM _honker_scheduler_state").fetchall() == [("nightly", 5)]


def test_jobs_of_the_old_layout_are_taken_over_and_its_tables_vanish(plain: sqlite3.Connection, path: Path) -> None:
    plain.executescript(OLD_JOBS)
    with brant.open(path) as db:
        jobs = db.queue("q").claim_batch("w", 9)
        assert [(job.payload, job.attempts) for job in jobs] == [("first", 1), ("second", 3), ("in flight", 2)]
        assert len({job.id for job in jobs}) == 3
    left = plain.execute("SELECT name FROM sqlite_schema WHERE name GLOB '_honker_*'").fetchall()
    assert not {name for (name,) in left} & {
        "_honker_pending",
        "_honker_processing",
        "_honker_pending_claim",
        "_honker_processing_reclaim",
        "_honker_jobs_claim",
        "_honker_jobs_claim_v2",
    }


@pytest.mark.guarantee("G16")
def test_taking_over_the_old_layout_is_all_or_nothing(plain: sqlite3.Connection, path: Path) -> None:
    plain.executescript(OLD_JOBS)
    plain.execute(
        "CREATE TRIGGER no BEFORE INSERT ON _honker_live WHEN NEW.payload = '\"in flight\"'"
        " BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with brant.open(path) as db:
        db.queue("q")
        assert any("_honker_pending" in problem for problem in db.health().problems)
    assert plain.execute("SELECT count(*) FROM _honker_pending").fetchone() == (2,)
    assert plain.execute("SELECT count(*) FROM _honker_live").fetchone() == (0,)


def test_the_view_shows_live_and_dead_jobs(db: brant.Database) -> None:
    queue = db.queue("q", max_attempts=1)
    doomed = queue.enqueue("doomed")
    job = queue.claim_one("w")
    assert job is not None
    job.fail("bad")
    waiting = queue.enqueue("waiting")
    rows = db.query("SELECT * FROM _honker_jobs ORDER BY id")
    assert list(rows[0]) == [
        *("id", "queue", "payload", "state", "priority", "run_at", "worker_id", "claim_expires_at"),
        *("attempts", "max_attempts", "last_error", "created_at"),
    ]
    assert [(row["id"], row["state"], row["last_error"]) for row in rows] == [
        (doomed, "dead", "bad"),
        (waiting, "pending", None),
    ]


def test_honker_may_replace_the_view(db: brant.Database, path: Path) -> None:
    with closing(sqlite3.connect(path)) as theirs:
        theirs.executescript("DROP VIEW _honker_jobs; CREATE VIEW _honker_jobs AS SELECT id FROM _honker_live;")
    queue = db.queue("q")
    job_id = queue.enqueue(1)
    assert db.query("SELECT * FROM _honker_jobs") == [{"id": job_id}]
    assert queue.read() is not None
