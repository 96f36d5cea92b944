"""The tables on disk, which other programs share."""

from __future__ import annotations

import pytest

import brant

COLUMNS = {
    "_honker_live": "id queue payload state priority run_at worker_id claim_expires_at attempts max_attempts "
    "created_at expires_at",
    "_honker_dead": "id queue payload priority run_at attempts max_attempts last_error created_at died_at",
    "_honker_notifications": "id channel payload created_at",
    "_honker_locks": "name owner expires_at",
    "_honker_rate_limits": "name window_start count",
    "_honker_scheduler_tasks": "name queue cron_expr payload priority expires_s next_fire_at enabled max_attempts",
    "_honker_results": "job_id value created_at expires_at",
    "_honker_stream": "offset topic key payload created_at",
    "_honker_stream_consumers": "name topic offset",
    "_honker_jobs": "id queue payload state priority run_at worker_id claim_expires_at attempts max_attempts "
    "last_error created_at",
}
INDEXES = {
    "_honker_notifications_recent",
    "_honker_live_claim",
    "_honker_live_pending_deadline",
    "_honker_live_processing_deadline",
    "_honker_stream_topic",
}


@pytest.mark.parametrize("table", COLUMNS)
@pytest.mark.guarantee("G17")
def test_shared_tables_have_exactly_the_shared_columns(db: brant.Database, table: str) -> None:
    db.queue("q")
    columns = [row["name"] for row in db.query("SELECT name FROM pragma_table_info(?)", [table])]
    assert columns == COLUMNS[table].split()


@pytest.mark.guarantee("G17")
def test_shared_indexes_are_there(db: brant.Database) -> None:
    found = {row["name"] for row in db.query("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    assert found >= INDEXES


@pytest.mark.guarantee("G17")
def test_brants_own_tables_have_its_own_prefix(db: brant.Database) -> None:
    names = {row["name"] for row in db.query("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert all(name.startswith(("_honker_", "_brant_", "sqlite_")) for name in names)


@pytest.mark.guarantee("G17")
def test_times_are_whole_seconds_on_disk_by_default(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue(1, expires=60)
    queue.claim_one("w")
    queue.enqueue(2, delay=5)
    times = ["run_at", "claim_expires_at", "created_at", "expires_at"]
    rows = timed.query("SELECT " + ", ".join(f"typeof({name}) AS {name}" for name in times) + " FROM _honker_live")
    assert {kind for row in rows for kind in row.values()} <= {"integer", "null"}


def test_the_view_shows_live_and_dead_jobs(db: brant.Database) -> None:
    queue = db.queue("q")
    dead, live = queue.enqueue("dies"), queue.enqueue("lives")
    queue.claim_batch("w", 2)
    queue.fail(dead, "w", "boom")
    rows = db.query("SELECT id, state, worker_id, last_error FROM _honker_jobs ORDER BY id")
    assert rows == [
        {"id": dead, "state": "dead", "worker_id": None, "last_error": "boom"},
        {"id": live, "state": "processing", "worker_id": "w", "last_error": None},
    ]


def test_work_on_queues_sends_no_notifications(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.record_events()
    for _ in range(3):
        queue.enqueue(1)
    retried, failed, acked = queue.claim_batch("w", 3)
    retried.retry(0, "again")
    failed.fail("no")
    acked.ack()
    queue.requeue_dead()
    assert db.query("SELECT count(*) AS n FROM _honker_notifications") == [{"n": 0}]


def test_a_finished_job_is_a_deleted_row(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    job = queue.claim_one("w")
    assert job is not None
    assert job.ack()
    assert db.query("SELECT count(*) AS n FROM _honker_jobs") == [{"n": 0}]
