"""Traces: a span for each attempt to run a task, in the trace of who called it. Needs `brant[opentelemetry]`."""

from __future__ import annotations

import threading
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from brant import tasks
from brant.worker import WorkerEvent
from brant.worker.events import OUTCOMES

__all__ = ["WorkerTraces", "carry_traces"]

_FAILURES = frozenset({"retry", "dead", "lost"})
# Beside the task's name and arguments: workers that know nothing of it, Honker's too, pass it over.
_CARRIER = "trace"

_Attempt = tuple[str, int | None, int | None]

_w3c = TraceContextTextMapPropagator()


def carry_traces(wanted: bool = True) -> None:
    """From now on a task that is called inside a span carries its trace to the worker, as a W3C `traceparent`.

    For the whole process, as instrumentations are; `carry_traces(False)` ends it. Outside of a span calls stay as they
    are.
    """
    tasks.add_to_call = _add_trace if wanted else None


def _add_trace(call: dict[str, Any]) -> None:
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    if carrier:
        call[_CARRIER] = carrier


def _carried_by(call: dict[str, Any]) -> context.Context:
    """The caller's context; an empty one where none was carried, or what was is no such thing."""
    carrier = call.get(_CARRIER)
    headers = carrier.items() if isinstance(carrier, dict) else ()
    return _w3c.extract({name: value for name, value in headers if isinstance(value, str)}, context.Context())


class WorkerTraces:
    """An observer: `Worker(db, observers=(WorkerTraces(),))`.

    The span of an attempt is current while its function runs, so that spans made inside are its children. It is itself
    a child of the span in which the task was called, if the caller has `carry_traces()` on. Otherwise it is a root, and
    `messaging.message.id`, the job's id, is what both sides know.
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
        span = self._span(event, _carried_by(event.facts.get("call", {})))
        with self._lock:
            self._open[_attempt(event)] = span
        # Never detached: a worker tells of a start inside the asyncio task of that one attempt, whose context the
        # function inherits and which ends with it.
        context.attach(trace.set_span_in_context(span))

    def _end(self, event: WorkerEvent) -> None:
        with self._lock:
            span = self._open.pop(_attempt(event), None)
        if span is None:  # one that nobody knows how to run ends without a start
            span = self._span(event, context.Context())
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

    def _span(self, event: WorkerEvent, parent: context.Context) -> Span:
        attributes: dict[str, str | int] = {
            "messaging.system": "brant",
            "messaging.operation.type": "process",
            "messaging.destination.name": event.queue,
            "messaging.message.id": str(event.job_id),
            "brant.task": event.task or "(unknown)",
            "brant.attempt": event.attempt or 0,
        }
        name = f"run {event.task or 'unknown task'}"
        return self._tracer.start_span(name, parent, SpanKind.CONSUMER, attributes)


def _attempt(event: WorkerEvent) -> _Attempt:
    return event.queue, event.job_id, event.attempt
