"""Gold that Brant computes itself, from what an application did."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import brant
from brant.pipeline.project import Metrics
from brant.testing import FakeClock
from tests.pipeline.refining import NOON, Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIDNIGHT = datetime(2026, 1, 16, tzinfo=UTC)
MAIL = {"__honker_task__": {"task": "mail", "args": [], "kwargs": {}}}


class Office(Workshop):
    """An application whose lifecycle events reach bronze."""

    def __init__(self, spark: SparkSession, folder: Path, start: datetime) -> None:
        super().__init__(spark, folder)
        self.clock = FakeClock(start.timestamp())
        self.db = brant.open(folder / "app.db", clock=self.clock)
        self.queue = self.db.queue("mails")
        self.queue.record_events()
        self._archived = 0

    def claim(self) -> brant.Job:
        job = self.queue.claim_one("w")
        assert job is not None
        return job

    def archive(self) -> None:
        told = self.db.job_events().read(limit=-1)[self._archived :]
        self._archived += len(told)
        moments = [datetime.fromtimestamp(event.created_at, UTC) for event in told]
        self.arrive([json.dumps(event.payload) for event in told], "_brant:jobs", moments)

    def table(self, name: str, *columns: str) -> list[Any]:
        return self.rows(f"gold/{name}", *columns)


@pytest.fixture
def office(spark: SparkSession, tmp_path: Path) -> Office:
    return Office(spark, tmp_path, MIDNIGHT - timedelta(minutes=4))


def test_throughput_of_topics_by_window(spark: SparkSession, tmp_path: Path) -> None:
    workshop = Workshop(spark, tmp_path)
    workshop.arrive([{"n": 1}, {"n": 22}], "orders")
    workshop.arrive([{"n": 1}], "7", at=NOON + timedelta(minutes=4, seconds=59))
    workshop.metrics()
    workshop.arrive([{"n": 1}], "orders", at=NOON + timedelta(minutes=5))
    workshop.arrive([{"n": 1}], "orders", at=NOON + timedelta(days=1))
    workshop.metrics()
    columns = ("topic", "date_format(window_start, 'dd HH:mm')", "events", "bytes", "keys", "tenant")
    assert workshop.rows("gold/topics", *columns) == [
        ("7", "15 12:00", 1, 8, 0, "app"),
        ("orders", "15 12:00", 2, 17, 0, "app"),
        ("orders", "15 12:05", 1, 8, 0, "app"),
        ("orders", "16 12:00", 1, 8, 0, "app"),
    ]


def test_work_of_queues_and_tasks_over_midnight(office: Office) -> None:
    office.queue.enqueue(MAIL)
    office.clock.advance(60)
    first = office.claim()
    office.queue.enqueue(MAIL, delay=30)  # due in half a minute: until then it does not wait
    office.clock.advance(90)
    office.claim().retry(0, "timeout after 30 s")
    office.clock.advance(10)
    again = office.claim()
    office.archive()
    office.metrics()
    office.clock.advance(150)
    first.ack()
    again.ack()
    office.archive()
    office.metrics()

    columns = ("date", "enqueued", "claimed", "completed", "failed_attempts", "retries", "dead", "success_rate")
    before, after = (datetime(2026, 1, day, tzinfo=UTC).date() for day in (15, 16))
    assert office.table("queues", *columns) == [(before, 2, 3, 0, 1, 1, 0, None), (after, 0, 0, 2, 0, 0, 0, 1.0)]
    times = ("date", "wait_p50_s", "round(wait_p99_s, 1)", "run_p50_s", "oldest_age_s")
    assert office.table("queues", *times) == [(before, 60.0, 60.0, 0.0, 0.0), (after, None, None, 200.0, 0.0)]
    assert office.table("tasks", "date", "task", "claimed", "completed") == [
        (before, "mail", 3, 0),
        (after, "mail", 0, 2),
    ]


def test_the_oldest_job_that_waits_at_the_end_of_a_window(office: Office) -> None:
    office.queue.enqueue("first")
    office.clock.advance(60)
    office.queue.enqueue("second")
    office.archive()
    office.metrics()
    assert office.table("queues", "oldest_age_s") == [(240.0,)]


def test_dead_letters_by_the_kind_of_error(office: Office) -> None:
    errors = [
        "user 17 not found\n  at line 3",
        "user 4242 not found",
        "no order 0b7e4b6e-5a1c-4c39-9d0f-6a9a4a1d2c3e",
        "no order 11111111-2222-3333-4444-555555555555",
        "object at 0x7f00ab12",
        "bad commit deadbeef01",
    ]
    ids = []
    for error in errors:
        ids.append(office.queue.enqueue({}))
        office.claim().fail(error)
        office.clock.advance(1)
    office.archive()
    office.metrics()
    assert office.table("dead_letters", "error_class", "dead", "sample_error", "sample_job_ids") == [
        ("bad commit <id>", 1, errors[5], [ids[5]]),
        ("no order <id>", 2, errors[2], ids[2:4]),
        ("object at <id>", 1, errors[4], [ids[4]]),
        ("user # not found", 2, "user 17 not found", ids[:2]),
    ]


def test_junk_in_the_topic_of_lifecycle_events_harms_nothing(office: Office) -> None:
    office.project = replace(office.project, metrics=Metrics(window="1h"))
    office.arrive(["junk", '{"event": 1}', '{"event": "dead", "queue": "q", "job_id": "x"}', None], "_brant:jobs")
    office.queue.enqueue(1)
    office.archive()
    office.metrics()
    assert office.table("queues", "queue", "enqueued") == [("mails", 1)]


def test_a_second_run_over_the_same_changes_nothing(office: Office) -> None:
    office.queue.enqueue(MAIL)
    office.claim().ack()
    office.archive()
    office.metrics()
    before = office.table("queues", "*")
    office.metrics()
    assert office.table("queues", "*") == before
