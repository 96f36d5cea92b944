"""Traces: one span for each attempt, current inside the function, ended whatever becomes of the attempt."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import brant
from brant import tasks
from brant.contrib.opentelemetry import WorkerTraces
from brant.outcomes import Retry
from brant.worker import Worker, WorkerEvent
from tests.looping import run


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_process_wide", tasks.Registry())


@pytest.fixture
def finished() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(finished: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(finished))
    return made


def drained(db: brant.Database, traces: WorkerTraces, slots: int = 1) -> None:
    asyncio.run(Worker(db, {"q": slots}, scheduler=False, drain=True, observers=(traces,)).run())


def facts(span: ReadableSpan) -> Mapping[str, object]:
    assert span.attributes is not None
    return span.attributes


def test_each_attempt_is_a_span(db: brant.Database, provider: TracerProvider, finished: InMemorySpanExporter) -> None:
    @db.task("q", name="flaky", retry_delay_s=0)
    def flaky() -> None:
        if db.query("SELECT attempts FROM _honker_live") == [{"attempts": 1}]:
            raise ConnectionError("no route")

    result = flaky()
    drained(db, WorkerTraces(provider))
    first, second = finished.get_finished_spans()
    assert (first.name, first.kind) == ("run flaky", SpanKind.CONSUMER)
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "no route")
    assert "Traceback" in str(first.events[0].attributes)
    assert second.status.status_code is StatusCode.UNSET
    assert [facts(span)["brant.attempt"] for span in (first, second)] == [1, 2]
    assert [facts(span)["brant.outcome"] for span in (first, second)] == ["retry", "success"]
    assert facts(second)["messaging.destination.name"] == "q"
    assert facts(second)["messaging.message.id"] == str(result.id)


def test_spans_made_inside_a_task_are_children_of_its_attempt(
    db: brant.Database, provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("app")

    @db.task("q")
    def in_thread(n: int) -> None:
        with tracer.start_as_current_span(f"thread {n}"):
            pass

    @db.task("q")
    async def on_loop(n: int) -> None:
        with tracer.start_as_current_span(f"loop {n}"):
            await asyncio.sleep(0)

    for n in range(4):
        in_thread(n)
        on_loop(n)
    drained(db, WorkerTraces(provider), slots=4)
    spans = finished.get_finished_spans()
    attempts = {span.context.span_id for span in spans if span.context and span.name.startswith("run ")}
    parents = [span.parent.span_id for span in spans if span.parent is not None]
    assert len(attempts) == 8
    assert sorted(parents) == sorted(attempts)


def test_an_attempt_is_a_root_whatever_was_current_when_the_worker_started(
    db: brant.Database, provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    @db.task("q", name="note")
    def note() -> None: ...

    note()
    with provider.get_tracer("app").start_as_current_span("start-up"):
        drained(db, WorkerTraces(provider))
    assert {span.name: span.parent for span in finished.get_finished_spans()} == {"run note": None, "start-up": None}


def test_what_nobody_knows_is_a_failed_span(
    db: brant.Database, provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    db.queue("q").enqueue("raw")
    drained(db, WorkerTraces(provider))
    (span,) = finished.get_finished_spans()
    assert (span.name, span.status.status_code) == ("run unknown task", StatusCode.ERROR)
    assert facts(span)["brant.outcome"] == "dead"


def test_a_cut_off_attempt_is_a_span_that_did_not_fail(
    db: brant.Database, provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    async def cut_off() -> None:
        worker = Worker(db, {"q": 1}, scheduler=False, observers=(WorkerTraces(provider),))

        @db.task("q")
        async def endless() -> None:
            worker.stop(now=True)
            await asyncio.Event().wait()

        endless()
        await worker.run()

    run(cut_off())
    (span,) = finished.get_finished_spans()
    assert facts(span)["brant.outcome"] == "release"
    assert span.status.status_code is StatusCode.UNSET


def test_a_retry_without_a_reason_is_told_by_its_kind(
    db: brant.Database, provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    @db.task("q")
    def later() -> object:
        return Retry(60)

    later()
    drained(db, WorkerTraces(provider))
    (span,) = finished.get_finished_spans()
    assert (span.status.description, span.events) == ("retry", ())


def test_the_stop_of_a_worker_leaves_the_spans_of_other_queues_open(
    provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    traces = WorkerTraces(provider)
    contextvars.copy_context().run(traces, WorkerEvent("start", "a", 1, "t", 1))
    traces(WorkerEvent("stop", "b,c"))
    assert finished.get_finished_spans() == ()
    traces(WorkerEvent("stop", "b,a"))
    assert [span.status.description for span in finished.get_finished_spans()] == ["the worker stopped"]
