"""What goes on in a database between two looks at it: how many jobs came and went, and who runs what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brant.arguments import decode_or_text
from brant.inspection import QueueStats
from brant.storage.jobs import JOB_EVENTS_TOPIC

if TYPE_CHECKING:
    from brant.database import Database
    from brant.storage.session import Session

_PAGE = 1000
_FINISHED = ("completed", "dead", "cancelled")


@dataclass(frozen=True)
class Flow:
    """Jobs a second, between two looks.

    Exact for a queue that records its events, and when no job came at all. Otherwise both are the least that it can
    have been: a job that came and went between the looks has left no trace.
    """

    enqueued: float
    finished: float
    is_exact: bool


@dataclass(frozen=True)
class RunningJob:
    """A claimed job and its worker. `lease_left_s` is below 0 when the worker has not been heard of in time."""

    id: int
    queue: str
    worker_id: str
    task: str | None
    attempt: int
    max_attempts: int
    lease_left_s: float


@dataclass(frozen=True)
class Look:
    """One moment. `flows` has the queues of which two looks are known."""

    queues: list[QueueStats]
    flows: dict[str, Flow]
    running: list[RunningJob]


@dataclass(frozen=True)
class _Mark:
    """Where a look ended, for the next one to go on from."""

    at: float
    last_id: int
    last_event: int
    totals: dict[str, int]


class Watcher:
    """Looks again and again; everything in a look is of the same moment."""

    def __init__(self, db: Database, *, most_running: int) -> None:
        self._storage = db._storage
        self._most_running = most_running
        self._before: _Mark | None = None

    def look(self) -> Look:
        at = self._storage.clock.monotonic()
        with self._storage.snapshot() as session:
            queues = [_stats(session, name) for name in session.queue_names(with_dead=True)]
            mark = _Mark(
                at,
                session.last_job_id(),
                session.stream_head(JOB_EVENTS_TOPIC),
                {stats.queue: stats.total for stats in queues},
            )
            flows = {} if self._before is None else _flows(session, self._before, mark)
            running = self._running(session, queues)
        self._before = mark
        return Look(queues, flows, running)

    def _running(self, session: Session, queues: list[QueueStats]) -> list[RunningJob]:
        rows = [
            row for stats in queues if stats.processing for row in session.running_jobs(stats.queue, self._most_running)
        ]
        rows.sort(key=lambda row: (row.worker_id or "", row.queue, row.id))
        now = session.now()
        return [
            RunningJob(
                row.id,
                row.queue,
                row.worker_id or "",
                row.task,
                row.attempts,
                row.max_attempts,
                (row.claim_expires_at or 0) - now,
            )
            for row in rows[: self._most_running]
        ]


def _stats(session: Session, name: str) -> QueueStats:
    return QueueStats.of(name, session.queue_counts(name), session.now())


def _flows(session: Session, before: _Mark, now: _Mark) -> dict[str, Flow]:
    passed_s = now.at - before.at
    if passed_s <= 0:
        return {}
    arrivals = session.arrivals(before.last_id, now.last_id)
    events = _event_counts(session, before.last_event, now.last_event)
    flows = {}
    for queue, total in now.totals.items():
        has_events = session.wants_events(queue)
        if has_events:
            enqueued, finished = events[queue, True], events[queue, False]
        else:
            grown = total - before.totals.get(queue, 0)
            # Jobs also come without a new id: moved here, or requeued.
            enqueued = max(arrivals.get(queue, 0), grown)
            finished = enqueued - grown
        is_exact = has_events or before.last_id == now.last_id
        flows[queue] = Flow(enqueued / passed_s, finished / passed_s, is_exact)
    return flows


def _event_counts(session: Session, after: int, until: int) -> Counter[tuple[str, bool]]:
    """How many jobs of a queue came (True) and went (False)."""
    counts: Counter[tuple[str, bool]] = Counter()
    while after < until:
        page = session.read_stream(JOB_EVENTS_TOPIC, after, _PAGE)
        if not page:
            break
        for offset, _, _, payload, _ in page:
            after = offset
            event = decode_or_text(payload)
            kind = event.get("event") if isinstance(event, dict) else None
            if kind == "enqueued" or kind in _FINISHED:
                counts[str(event.get("queue")), kind == "enqueued"] += 1
    return counts
