"""The trace of who calls a task goes with the call: the attempt's span is its child."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import brant
from brant import tasks
from brant.contrib.opentelemetry import WorkerTraces, carry_traces
from brant.testing import assert_enqueued, pending_payloads
from brant.worker import Worker
from tests.waiting import PATIENCE_S

ENVELOPE = "__honker_task__"


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_process_wide", tasks.Registry())


@pytest.fixture
def _carried() -> Iterator[None]:
    carry_traces()
    yield
    carry_traces(False)


@pytest.fixture
def finished() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(finished: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(finished))
    return made


@pytest.fixture
def ship(db: brant.Database) -> tasks.Task[[int], None]:
    @db.task("q", name="ship", retry_delay_s=0)
    def ship(order: int) -> None:
        if order < 0:
            raise LookupError

    return ship


def drained(db: brant.Database, traces: WorkerTraces) -> None:
    asyncio.run(Worker(db, {"q": 1}, scheduler=False, drain=True, observers=(traces,)).run())


def named(finished: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in finished.get_finished_spans() if span.name == name]


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


@pytest.mark.usefixtures("_carried")
def test_each_attempt_is_a_child_of_the_span_in_which_the_task_was_called(
    db: brant.Database, ship: tasks.Task[[int], None], provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    with provider.get_tracer("app").start_as_current_span("order"):
        ship.enqueue(-1)
    drained(db, WorkerTraces(provider))
    (order,) = named(finished, "order")
    attempts = named(finished, "run ship")
    assert len(attempts) == 3
    assert order.context is not None
    assert {parent_id(span) for span in attempts} == {order.context.span_id}
    assert {span.context.trace_id for span in attempts if span.context} == {order.context.trace_id}


@pytest.mark.usefixtures("_carried")
def test_a_task_called_by_a_task_is_in_the_same_trace(
    db: brant.Database, ship: tasks.Task[[int], None], provider: TracerProvider, finished: InMemorySpanExporter
) -> None:
    @db.task("q", name="order")
    def order() -> None:
        ship(1)

    order()
    drained(db, WorkerTraces(provider))
    (outer,), (inner,) = named(finished, "run order"), named(finished, "run ship")
    assert outer.context is not None
    assert (outer.parent, parent_id(inner)) == (None, outer.context.span_id)


@pytest.mark.usefixtures("_carried")
def test_what_is_carried_is_a_key_beside_the_arguments(
    db: brant.Database, ship: tasks.Task[[int], None], provider: TracerProvider
) -> None:
    with provider.get_tracer("app").start_as_current_span("order") as span:
        ship(1)
    found = span.get_span_context()
    traceparent = f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"
    call = {"task": "ship", "args": [1], "kwargs": {}, "trace": {"traceparent": traceparent}}
    assert pending_payloads(db.queue("q")) == [{ENVELOPE: call}]
    assert_enqueued(ship, args=[1])


@pytest.mark.usefixtures("_carried")
def test_outside_of_a_span_a_call_is_as_it_always_was(db: brant.Database, ship: tasks.Task[[int], None]) -> None:
    ship(1)
    assert pending_payloads(db.queue("q")) == [{ENVELOPE: {"task": "ship", "args": [1], "kwargs": {}}}]


@pytest.mark.usefixtures("_carried")
def test_jobs_that_are_no_calls_are_left_alone(db: brant.Database, provider: TracerProvider) -> None:
    payloads = ["text", {"order": 1}, None, {ENVELOPE: "no call"}]
    with provider.get_tracer("app").start_as_current_span("order"):
        for payload in payloads:
            db.queue("plain").enqueue(payload)
    assert pending_payloads(db.queue("plain")) == payloads


@pytest.mark.usefixtures("_carried")
def test_a_call_that_is_enqueued_again_keeps_its_first_trace(
    db: brant.Database, ship: tasks.Task[[int], None], provider: TracerProvider
) -> None:
    tracer = provider.get_tracer("app")
    with tracer.start_as_current_span("first"):
        ship(1)
    (payload,) = pending_payloads(db.queue("q"))
    with tracer.start_as_current_span("second"):
        db.queue("again").enqueue(payload)
    assert pending_payloads(db.queue("again")) == [payload]


@pytest.mark.usefixtures("_carried")
def test_a_schedule_that_is_added_inside_a_span_stays_the_same(db: brant.Database, provider: TracerProvider) -> None:
    with provider.get_tracer("app").start_as_current_span("start-up"):

        @db.periodic_task("@hourly", "q", name="beat")
        def beat() -> None: ...

    (schedule,) = db.scheduler().schedules()
    assert schedule.payload == {ENVELOPE: {"task": "beat", "args": [], "kwargs": {}}}


def test_nothing_is_carried_unless_asked_for(
    db: brant.Database, ship: tasks.Task[[int], None], provider: TracerProvider
) -> None:
    carry_traces()
    carry_traces(False)
    with provider.get_tracer("app").start_as_current_span("order"):
        ship(1)
    assert pending_payloads(db.queue("q")) == [{ENVELOPE: {"task": "ship", "args": [1], "kwargs": {}}}]


@pytest.mark.usefixtures("_carried")
def test_a_worker_without_traces_runs_a_call_that_carries_one(
    db: brant.Database, ship: tasks.Task[[int], None], provider: TracerProvider
) -> None:
    with provider.get_tracer("app").start_as_current_span("order"):
        result = ship(1)
    db.run_workers_sync("q", drain=True, scheduler=False)
    assert result.get(timeout=5) is None


HONKERS_WORKER = """
import asyncio, sys
import honker
db = honker.open(sys.argv[1])
@db.queue("q").task(name="double")
def double(number):
    return number * 2
asyncio.run(db.run_workers(concurrency=1))
"""


@pytest.mark.usefixtures("_carried")
def test_a_worker_of_honker_runs_a_call_that_carries_a_trace(
    db: brant.Database, path: Path, provider: TracerProvider
) -> None:
    pytest.importorskip("honker")

    @db.task("q", name="double")
    def double(number: int) -> int:
        return pytest.fail("Honker's shall run it")

    with provider.get_tracer("app").start_as_current_span("order"):
        result = double(21)
    assert "trace" in pending_payloads(db.queue("q"))[0][ENVELOPE]
    # A process of its own, since it brings another SQLite library along.
    with subprocess.Popen([sys.executable, "-c", HONKERS_WORKER, path]) as worker:
        try:
            assert result.get(timeout=PATIENCE_S) == 42
        finally:
            worker.kill()


@pytest.mark.parametrize("carrier", ["text", 5, {}, {"traceparent": 7}, {"traceparent": "no such thing"}, [1]])
def test_a_broken_trace_makes_a_root(
    db: brant.Database,
    ship: tasks.Task[[int], None],
    carrier: object,
    provider: TracerProvider,
    finished: InMemorySpanExporter,
) -> None:
    call = {"task": "ship", "args": [1], "kwargs": {}, "trace": carrier}
    db.queue("q").enqueue({ENVELOPE: json.loads(json.dumps(call))})
    drained(db, WorkerTraces(provider))
    (span,) = named(finished, "run ship")
    assert span.parent is None
