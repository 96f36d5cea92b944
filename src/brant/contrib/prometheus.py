"""Metrics for Prometheus: what workers do, and how full the queues are. Needs `brant[prometheus]`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from brant.database import Database
from brant.worker import WorkerEvent
from brant.worker.events import OUTCOMES

__all__ = ["QueueCollector", "WorkerMetrics"]

_BUCKETS_S = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)


class WorkerMetrics:
    """An observer: `Worker(db, observers=(WorkerMetrics(),))`. Make one for a registry and share it between workers.

    - `brant_task_attempts_total{queue,task,outcome}`: attempts that ended;
    - `brant_task_seconds{queue,task}`: how long they ran;
    - `brant_worker_troubles_total{queue}`: what went wrong outside of tasks.

    What no worker knows how to run has the task `(unknown)`.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, buckets: Sequence[float] = _BUCKETS_S) -> None:
        of_task = ["queue", "task"]
        self._attempts = Counter(
            "brant_task_attempts", "Attempts to run a task that ended.", [*of_task, "outcome"], registry=registry
        )
        self._seconds = Histogram(
            "brant_task_seconds", "How long attempts ran.", of_task, registry=registry, buckets=buckets
        )
        self._troubles = Counter(
            "brant_worker_troubles", "What went wrong in workers, outside of tasks.", ["queue"], registry=registry
        )

    def __call__(self, event: WorkerEvent) -> None:
        task = event.task or "(unknown)"
        if event.kind == "trouble":
            self._troubles.labels(event.queue).inc()
        elif event.kind in OUTCOMES:
            self._attempts.labels(event.queue, task, event.kind).inc()
            if event.duration_s is not None:  # it had started
                self._seconds.labels(event.queue, task).observe(event.duration_s)


class QueueCollector(Collector):
    """Reads the queues at each scrape: `REGISTRY.register(QueueCollector(db))`; the `brant_queue_*` gauges.

    In one process only, if several work on the file: the numbers are those of the file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def describe(self) -> Iterable[Metric]:
        return []  # registering must not read the database

    def collect(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily("brant_queue_jobs", "Jobs of a queue by state.", labels=["queue", "state"])
        oldest = GaugeMetricFamily("brant_queue_oldest_seconds", "How long the oldest due job waits.", labels=["queue"])
        paused = GaugeMetricFamily("brant_queue_paused", "Whether the queue hands out nothing.", labels=["queue"])
        for stats in self._db.list_queues():
            ready = stats.pending - stats.delayed
            states = {"ready": ready, "delayed": stats.delayed, "processing": stats.processing, "dead": stats.dead}
            for state, count in states.items():
                jobs.add_metric([stats.queue, state], count)
            oldest.add_metric([stats.queue], stats.oldest_age or 0)
            paused.add_metric([stats.queue], stats.paused)
        return [jobs, oldest, paused]
