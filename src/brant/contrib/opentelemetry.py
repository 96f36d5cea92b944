"""Traces: a span for each attempt to run a task. Needs `brant[opentelemetry]`."""

from __future__ import annotations

import threading

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from brant.worker import WorkerEvent
from brant.worker.events import OUTCOMES

__all__ = ["WorkerTraces"]

_FAILURES = frozenset({"retry", "dead", "lost"})

_Attempt = tuple[str, int | None, int | None]


class WorkerTraces:
    """An observer: `Worker(db, observers=(WorkerTraces(),))`.

    The span of an attempt is current while its function runs, so that spans made inside are its children. The caller's
    trace is not carried through the queue: `messaging.message.id`, the job's id, is what both sides know.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer("brant", tracer_provider=provider)
        self._open: dict[_Attempt, Span] = {}
        self._lock = threading.Lock()

    def __call__(self, event: WorkerEvent) -> None:
        if event.kind == "start":
            self._begin(event)
        elif event.kind in OUTCOMES:
            self._end(event)
        elif event.kind == "stop":
            self._abandon(event.queue.split(","))

    def _begin(self, event: WorkerEvent) -> None:
        span = self._span(event)
        with self._lock:
            self._open[_attempt(event)] = span
        # Never detached: a worker tells of a start inside the asyncio task of that one attempt, whose context the
        # function inherits and which ends with it.
        context.attach(trace.set_span_in_context(span))

    def _end(self, event: WorkerEvent) -> None:
        with self._lock:
            span = self._open.pop(_attempt(event), None)
        if span is None:  # one that nobody knows how to run ends without a start
            span = self._span(event)
        span.set_attribute("brant.outcome", event.kind)
        if event.kind in _FAILURES:
            span.set_status(Status(StatusCode.ERROR, (event.error or event.kind).partition("\n")[0]))
            if event.error:
                span.add_event("exception", {"exception.stacktrace": event.error})
        span.end()

    def _abandon(self, queues: list[str]) -> None:
        """Attempts of which no end was told: what broke was the worker."""
        with self._lock:
            cut_off = [attempt for attempt in self._open if attempt[0] in queues]
            spans = [self._open.pop(attempt) for attempt in cut_off]
        for span in spans:
            span.set_status(Status(StatusCode.ERROR, "the worker stopped"))
            span.end()

    def _span(self, event: WorkerEvent) -> Span:
        attributes: dict[str, str | int] = {
            "messaging.system": "brant",
            "messaging.operation.type": "process",
            "messaging.destination.name": event.queue,
            "messaging.message.id": str(event.job_id),
            "brant.task": event.task or "(unknown)",
            "brant.attempt": event.attempt or 0,
        }
        name = f"run {event.task or 'unknown task'}"
        # A root of its own: what was current when the worker was started has nothing to do with the job.
        return self._tracer.start_span(name, context.Context(), SpanKind.CONSUMER, attributes)


def _attempt(event: WorkerEvent) -> _Attempt:
    return event.queue, event.job_id, event.attempt
