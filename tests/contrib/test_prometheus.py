"""Metrics: each worker event is counted where a dashboard looks for it, and queues show their depth at each scrape."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import brant
from brant import tasks
from brant.contrib.prometheus import QueueCollector, WorkerMetrics
from brant.outcomes import Cancel, Dead, Retry, Snooze
from brant.testing import FakeClock
from brant.worker import Worker, WorkerEvent


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_process_wide", tasks.Registry())


@pytest.fixture
def scraped() -> CollectorRegistry:
    return CollectorRegistry()


def drained(db: brant.Database, metrics: WorkerMetrics) -> None:
    asyncio.run(Worker(db, {"q": 1}, scheduler=False, drain=True, observers=(metrics,)).run())


def test_attempts_are_counted_by_queue_task_and_outcome(timed: brant.Database, scraped: CollectorRegistry) -> None:
    outcomes = {"retry": Retry(60), "snooze": Snooze(60), "cancel": Cancel(), "dead": Dead("never"), "success": 1}

    @timed.task("q", name="decide")
    def decide(which: str) -> object:
        return outcomes[which]

    for which in [*outcomes, "success"]:
        decide(which)
    drained(timed, WorkerMetrics(scraped))
    counted = {
        which: scraped.get_sample_value("brant_task_attempts_total", {"queue": "q", "task": "decide", "outcome": which})
        for which in outcomes
    }
    assert counted == {"retry": 1, "snooze": 1, "cancel": 1, "dead": 1, "success": 2}


def test_run_times_are_those_of_the_database_clock(
    timed: brant.Database, clock: FakeClock, scraped: CollectorRegistry
) -> None:
    @timed.task("q", name="slow")
    def slow() -> None:
        clock.advance(7)

    slow()
    drained(timed, WorkerMetrics(scraped, buckets=(5, 10)))
    of_slow = {"queue": "q", "task": "slow"}
    assert scraped.get_sample_value("brant_task_seconds_sum", of_slow) == 7
    assert scraped.get_sample_value("brant_task_seconds_bucket", {**of_slow, "le": "5.0"}) == 0
    assert scraped.get_sample_value("brant_task_seconds_bucket", {**of_slow, "le": "10.0"}) == 1


def test_what_nobody_knows_makes_one_label_and_no_run_time(timed: brant.Database, scraped: CollectorRegistry) -> None:
    timed.queue("q").enqueue(tasks.envelope("gone-1", (), {}))
    timed.queue("q").enqueue(tasks.envelope("gone-2", (), {}))
    drained(timed, WorkerMetrics(scraped))
    unknown = {"queue": "q", "task": "(unknown)"}
    assert scraped.get_sample_value("brant_task_attempts_total", {**unknown, "outcome": "dead"}) == 2
    assert scraped.get_sample_value("brant_task_seconds_count", unknown) is None


def test_troubles_are_counted_and_other_events_are_not(scraped: CollectorRegistry) -> None:
    metrics = WorkerMetrics(scraped)
    metrics(WorkerEvent("trouble", "q", error="busy"))
    metrics(WorkerEvent("renew", "q", 1, "t", 1, 0.5))
    metrics(WorkerEvent("start", "q", 1, "t", 1, 0.0))
    assert scraped.get_sample_value("brant_worker_troubles_total", {"queue": "q"}) == 1
    assert scraped.get_sample_value("brant_task_seconds_count", {"queue": "q", "task": "t"}) is None


def test_queues_show_their_depth_at_each_scrape(
    timed: brant.Database, clock: FakeClock, scraped: CollectorRegistry
) -> None:
    scraped.register(QueueCollector(timed))
    queue = timed.queue("q")
    queue.enqueue_many([1, 2, 3])
    queue.enqueue("later", delay=60)
    claimed = queue.claim_one("w")
    assert claimed is not None
    clock.advance(5)
    assert depths(scraped) == {"ready": 2, "delayed": 1, "processing": 1, "dead": 0}
    assert scraped.get_sample_value("brant_queue_oldest_seconds", {"queue": "q"}) == 5
    claimed.fail("never")
    queue.pause()
    assert depths(scraped) == {"ready": 2, "delayed": 1, "processing": 0, "dead": 1}
    assert scraped.get_sample_value("brant_queue_paused", {"queue": "q"}) == 1


def depths(scraped: CollectorRegistry) -> dict[str, float | None]:
    return {
        state: scraped.get_sample_value("brant_queue_jobs", {"queue": "q", "state": state})
        for state in ("ready", "delayed", "processing", "dead")
    }


def test_registering_does_not_read_the_database_but_a_scrape_does(
    db: brant.Database, scraped: CollectorRegistry
) -> None:
    db.close()
    scraped.register(QueueCollector(db))
    with pytest.raises(brant.BrantError, match="closed"):
        generate_latest(scraped)
