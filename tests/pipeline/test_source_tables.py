"""Every table of the source: rows as they are, typed, those that change in place as of one moment."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import brant
from brant.pipeline import PipelineError
from brant.testing import FakeClock, drain_tasks
from tests.pipeline.reading import rows, slices

pytestmark = pytest.mark.both_backends
NOW = datetime.fromtimestamp(1_700_000_000, UTC)


def test_jobs_that_wait_or_run(timed: brant.Database, path: Path) -> None:
    queue = timed.queue("mail")
    first = queue.enqueue({"to": "a"}, priority=5)
    second = queue.enqueue({"to": "b"}, expires=60)
    queue.claim_one("w")
    found = {row["id"]: row for row in rows(path, table="queue")}
    assert found[first] == {
        "id": first,
        "queue": "mail",
        "payload": '{"to": "a"}',
        "state": "processing",
        "priority": 5,
        "run_at": NOW,
        "worker_id": "w",
        "claim_expires_at": datetime.fromtimestamp(1_700_000_300, UTC),
        "attempts": 1,
        "max_attempts": 3,
        "created_at": NOW,
        "expires_at": None,
    }
    assert found[second]["expires_at"] == datetime.fromtimestamp(1_700_000_060, UTC)


def test_dead_letters_with_their_errors(timed: brant.Database, path: Path) -> None:
    job_id = timed.queue("mail").enqueue(1)
    job = timed.queue("mail").claim_one("w")
    assert job is not None
    job.fail("boom")
    (row,) = rows(path, table="dead")
    assert (row["id"], row["queue"], row["last_error"], row["died_at"]) == (job_id, "mail", "boom", NOW)


def test_the_inbox_with_its_deliveries_events_and_attempts(timed: brant.Database, path: Path) -> None:
    inbox = brant.Inbox(timed)
    hooks = inbox.endpoint("hooks", path="/hooks", provider="bearer", secrets=lambda: "hush")
    hooks.handle("any")(lambda event, tx: None)
    good = [("Authorization", "Bearer hush")]
    assert hooks.receive(b'{"n": 1}', good, event_type="any").status_code == 204
    assert hooks.receive(b"\xff", [("Authorization", "Bearer wrong")]).status_code == 401
    drain_tasks(timed, "knocker.events")

    stored, refused = rows(path, table="deliveries")
    (event,) = rows(path, table="events", subscribe="hooks")
    (attempt,) = rows(path, table="attempts")
    assert (stored["endpoint"], stored["event_id"], stored["body"]) == ("hooks", event["id"], b'{"n": 1}')
    assert (refused["event_id"], refused["signature_valid"], refused["body"]) == (None, 0, b"\xff"), "as it came"
    assert (stored["provider"], event["body"]) == ("bearer-token", b'{"n": 1}')
    assert (event["status"], event["event_type"], event["received_at"]) == ("handled", "any", NOW)
    assert (attempt["event_id"], attempt["endpoint"], attempt["outcome"]) == (event["id"], "hooks", "handled")


def test_a_file_without_an_inbox_says_so(db: brant.Database, path: Path) -> None:
    with pytest.raises(PipelineError, match="has no inbox"):
        rows(path, table="deliveries")


def test_results(timed: brant.Database, path: Path) -> None:
    timed.queue("q").save_result(7, {"ok": True}, ttl=60)
    (row,) = rows(path, table="results")
    assert (row["job_id"], row["value"], row["expires_at"]) == (
        7,
        '{"ok": true}',
        datetime.fromtimestamp(1_700_000_060, UTC),
    )


def test_notifications(timed: brant.Database, path: Path) -> None:
    for channel in ("a", "b", "a"):
        with timed.transaction() as tx:
            tx.notify(channel, {"n": 1})
    found = rows(path, table="notifications", subscribe="a")
    assert [(row["channel"], row["payload"], row["created_at"]) for row in found] == [("a", '{"n": 1}', NOW)] * 2
    assert len(rows(path, table="notifications")) == 3


def test_named_consumers(timed: brant.Database, path: Path) -> None:
    timed.stream("orders").publish_many(range(3))
    timed.stream("orders").save_offset("dashboard", 2)
    assert rows(path, table="consumers") == [{"name": "dashboard", "topic": "orders", "offset": 2}]


def test_the_life_of_jobs_as_typed_columns(timed: brant.Database, clock: FakeClock, path: Path) -> None:
    queue = timed.queue("mail")
    queue.record_events()
    job_id = queue.enqueue({"to": "a"})
    clock.advance(2)
    job = queue.claim_one("w")
    assert job is not None
    job.fail("boom")
    found = rows(path, table="jobs")
    later = datetime.fromtimestamp(1_700_000_002, UTC)
    assert [(row["event"], row["queue"], row["job_id"], row["attempt"], row["at"]) for row in found] == [
        ("enqueued", "mail", job_id, 0, NOW),
        ("claimed", "mail", job_id, 1, later),
        ("dead", "mail", job_id, 1, later),
    ]
    assert [(row["worker"], row["error"]) for row in found] == [(None, None), ("w", None), (None, "boom")]


def test_the_life_of_the_jobs_of_some_queues(timed: brant.Database, path: Path) -> None:
    for name in ("a", "b", "c"):
        timed.queue(name).record_events()
        timed.queue(name).enqueue(1)
    assert [row["queue"] for row in rows(path, table="jobs", subscribe="a,c", fetchSize=1)] == ["a", "c"]


@pytest.mark.files_only("a server stores only text as text")
def test_a_broken_lifecycle_event_is_a_row_of_nulls(db: brant.Database, path: Path) -> None:
    other = sqlite3.connect(path)
    for payload in ("'{'", "'3'", "x'ff'", '\'{"event": "odd", "at": "x"}\''):
        other.execute(f"INSERT INTO _honker_stream (topic, payload) VALUES ('_brant:jobs', {payload})")
    other.commit()
    other.close()
    assert [row["event"] for row in rows(path, table="jobs")] == [None, None, None, "odd"]


def test_queues_can_be_chosen(db: brant.Database, path: Path) -> None:
    for name in ("mail", "mail-retry", "audit"):
        db.queue(name).enqueue(1)
    assert {row["queue"] for row in rows(path, table="queue", subscribe="mail")} == {"mail"}
    assert {row["queue"] for row in rows(path, table="queue", subscribePattern="mail.*")} == {"mail", "mail-retry"}
    assert {row["queue"] for row in rows(path, table="queue")} == {"mail", "mail-retry", "audit"}


def test_a_table_that_changes_in_place_is_one_slice_a_file(db: brant.Database, path: Path) -> None:
    db.queue("mail").enqueue_many(range(500))
    (only,) = slices(path, table="queue", minPartitions=8)
    assert len(only.extents) == 1
    assert len(rows(path, table="queue", minPartitions=8, fetchSize=10)) == 500


@pytest.mark.files_only("a server's columns have types")
def test_values_of_another_type_than_the_column_do_not_stop_the_read(db: brant.Database, path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("INSERT INTO _honker_live (queue, payload, priority, run_at) VALUES ('q', x'ff', 'high', 1.5)")
    other.commit()
    other.close()
    (row,) = rows(path, table="queue")
    assert (row["payload"], row["priority"], row["run_at"]) == ("\ufffd", None, datetime.fromtimestamp(1.5, UTC))


@pytest.mark.parametrize("table", ["stream", "queue", "dead", "results", "notifications", "consumers", "jobs"])
def test_spark_takes_every_table(db: brant.Database, path: Path, spark: SparkSession, table: str) -> None:
    queue = db.queue("q")
    queue.record_events()
    queue.enqueue(1)
    queue.enqueue(2, expires=-1)
    queue.sweep_expired()
    queue.save_result(1, "x")
    db.stream("t").save_offset("c", 1)
    with db.transaction() as tx:
        tx.notify("n", 1)
    expected = rows(path, table=table)
    found = spark.read.format("brant").option("table", table).load(str(path)).toArrow().to_pylist()
    assert expected
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
