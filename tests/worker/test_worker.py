"""What becomes of jobs: good ones, bad ones, failing ones; and that the worker goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import DatabaseClosed
from brant.outcomes import Cancel, Dead, Retry, Snooze
from brant.tasks import envelope
from brant.testing import FakeClock
from brant.worker import WorkerEvent, current_task
from tests.plainly import note_transactions, plain_connection
from tests.waiting import PATIENCE_S, ObservedClock, write_lock_held
from tests.worker.observing import Heard, running, start

pytestmark = pytest.mark.both_backends

KNOWN = '{"__honker_task__": {"task": "known", "args": %s, "kwargs": %s}}'
BAD_JOBS = {
    "not json": ("{", "the payload is not JSON"),
    "nested too deeply": ("[" * 100_000 + "]" * 100_000, "the payload is not JSON"),
    "empty": ("", "raw (non-decorated) payload"),
    "a number": ("7", "raw (non-decorated) payload"),
    "no envelope": ('{"to": "alice"}', "raw (non-decorated) payload"),
    "an envelope of nothing": ('{"__honker_task__": null}', "raw (non-decorated) payload"),
    "an unknown task": ('{"__honker_task__": {"task": "gone"}}', "unknown task: 'gone'; this worker knows known"),
    "a task that is no name": ('{"__honker_task__": {"task": [1]}}', "unknown task: [1]"),
    "arguments that are no list": (KNOWN % ("7", "{}"), "the payload of the task is malformed"),
    "keywords that are no object": (KNOWN % ("[]", "[]"), "the payload of the task is malformed"),
    "too few arguments": (KNOWN % ("[]", "{}"), "wrong arguments for known: missing a required argument: 'n'"),
    "an unknown keyword": (KNOWN % ("[1]", '{"x": 1}'), "wrong arguments for known: got an unexpected keyword"),
}
NOT_TEXT = {"not utf-8": (b'"\xff"', "raw (non-decorated) payload")}


@pytest.mark.parametrize(
    "bad_jobs",
    [
        pytest.param(BAD_JOBS, id="texts"),
        pytest.param(NOT_TEXT, id="bytes", marks=pytest.mark.files_only("a server stores only text as text")),
    ],
)
def test_what_nobody_can_run_is_dead_with_its_reason_and_the_worker_goes_on(
    db: brant.Database, bad_jobs: dict[str, tuple[str | bytes, str]]
) -> None:
    q = db.queue("q")
    known = q.task("known")(lambda n: n + 1)
    ids = {name: q.enqueue(name) for name in bad_jobs}
    with db.transaction() as tx:
        for name, (payload, _) in bad_jobs.items():
            tx.execute("UPDATE _honker_live SET payload = ? WHERE id = ?", [payload, ids[name]])
    with running(db, slots=2) as crew:
        assert known(1).get(PATIENCE_S) == 2
        crew.wait("dead", len(bad_jobs))
    for name, (_, reason) in bad_jobs.items():
        letter = q.get_dead(ids[name])
        assert letter is not None
        assert letter.last_error is not None
        assert letter.last_error.startswith(reason), name
        assert letter.attempts == 1
    assert q.stats().total == 0


def test_a_foreign_write_lock_longer_than_the_busy_timeout_is_survived(path: Path) -> None:
    with brant.open(path, busy_timeout_ms=50) as db:
        q = db.queue("q")
        claimed, held = threading.Event(), threading.Event()

        @q.task("wait")
        def wait_for_lock() -> str:
            claimed.set()
            held.wait(PATIENCE_S)
            return "settled all the same"

        first = wait_for_lock()
        with running(db, slots=2) as crew:
            assert claimed.wait(PATIENCE_S)
            second = q.task("plain")(lambda: "claimed all the same")()
            with write_lock_held(path):
                held.set()
                # One can't settle, the other can't be claimed.
                crew.wait("trouble", 4)
            assert first.get(PATIENCE_S) == "settled all the same"
            assert second.get(PATIENCE_S) == "claimed all the same"
            assert len(crew.wait("start", 2)) == 2


@contextmanager
def jobs_unreadable(path: Path) -> Iterator[None]:
    """As while a server is away: whoever reads the jobs fails."""
    with plain_connection(path, autocommit=True) as other:
        other.execute("ALTER TABLE _honker_live RENAME TO live_elsewhere")
        try:
            yield
        finally:
            other.execute("ALTER TABLE live_elsewhere RENAME TO _honker_live")


def test_a_worker_whose_slots_are_full_survives_that_the_jobs_cant_be_read(db: brant.Database, path: Path) -> None:
    q, begun, go = db.queue("q"), threading.Event(), threading.Event()

    @q.task("long")
    def takes_its_time() -> str:
        begun.set()
        go.wait(PATIENCE_S)
        return "done"

    first, second = takes_its_time(), takes_its_time()
    with running(db, slots=1, grace_s=PATIENCE_S) as crew:
        assert begun.wait(PATIENCE_S)
        with jobs_unreadable(path):
            crew.wait("trouble", 2)
        go.set()
        assert [call.get(PATIENCE_S) for call in (first, second)] == ["done", "done"]
    assert not crew.heard.all("lost")


def test_a_worker_whose_slots_are_full_ends_when_the_database_is_closed(path: Path) -> None:
    db = brant.open(path)
    begun = threading.Event()

    @db.queue("q").task("long")
    async def takes_its_time() -> None:
        begun.set()
        await asyncio.sleep(PATIENCE_S)

    takes_its_time()
    crew = start(db, slots=1)
    assert begun.wait(PATIENCE_S)
    db.close()
    with pytest.raises(DatabaseClosed):
        crew.ended.result(PATIENCE_S)


def test_the_errors_of_all_attempts_are_kept(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q")

    @q.task(retries=3, retry_delay_s=10, retry_backoff=2, retry_jitter=0)
    def breaks() -> None:
        raise ValueError(f"attempt {current_task().attempt}")

    answer = breaks()
    with running(timed) as crew:
        for attempt in (1, 2):
            crew.wait("retry", attempt)
            row = q.get_job(answer.id)
            assert row is not None
            assert row["run_at"] == clock.now() + 10 * attempt
            clock.advance(10 * attempt)
        crew.wait("dead")
    errors = [failed.error.partition("\n")[0] for failed in q.errors(answer.id)]
    assert errors == ["attempt 1", "attempt 2", "attempt 3"]


def test_what_was_snoozed_or_given_back_makes_no_later_wait_longer(timed: brant.Database, clock: FakeClock) -> None:
    q, begun = timed.queue("q"), threading.Event()

    @q.task(retries=3, retry_delay_s=10, retry_backoff=2, retry_jitter=0)
    async def waits_then_breaks() -> None:
        attempt = current_task().attempt
        if attempt in (1, 2, 5):
            raise Snooze(0)
        if attempt == 3:
            begun.set()
            await asyncio.sleep(PATIENCE_S)
        raise ValueError(f"attempt {attempt}")

    answer = waits_then_breaks()
    with running(timed):
        assert begun.wait(PATIENCE_S)
    with running(timed) as crew:
        for failures in (1, 2):
            crew.wait("retry", failures)
            row = q.get_job(answer.id)
            assert row is not None
            assert row["run_at"] == clock.now() + 10 * failures
            clock.advance(10 * failures)
        crew.wait("dead")
    assert [failed.attempt for failed in q.errors(answer.id)] == [4, 6, 7]


def test_waits_grow_also_for_a_job_that_may_be_tried_more_often_than_others(
    timed: brant.Database, clock: FakeClock
) -> None:
    q = timed.queue("q", max_attempts=2)
    q.task("breaks", retry_delay_s=10, retry_backoff=2, retry_jitter=0)(lambda: 1 / 0)
    job_id = q.enqueue(envelope("breaks", (), {}), max_attempts=9)
    with running(timed) as crew:
        for failures, wait in enumerate([10, 20, 40], start=1):
            crew.wait("retry", failures)
            row = q.get_job(job_id)
            assert row is not None
            assert row["run_at"] == clock.now() + wait
            clock.advance(wait)
        crew.wait("retry", 4)


def ends_with(outcome: BaseException, *, raised: bool) -> Any:
    def end() -> Any:
        if raised:
            raise outcome
        return outcome

    return end


OUTCOMES: list[tuple[Any, str]] = [
    (Retry(30, "later"), "retry"),
    (Snooze(30), "snooze"),
    (Cancel("not needed"), "cancel"),
    (Dead("never"), "dead"),
]


@pytest.mark.parametrize("raised", [False, True])
@pytest.mark.parametrize(("outcome", "kind"), OUTCOMES)
def test_an_outcome_decides_whether_returned_or_raised(
    timed: brant.Database, clock: FakeClock, outcome: BaseException, kind: str, raised: bool
) -> None:
    q = timed.queue("q")
    answer = q.task("end", retries=2)(ends_with(outcome, raised=raised))()
    with running(timed) as crew:
        crew.wait(kind)
    row, letter = q.get_job(answer.id), q.get_dead(answer.id)
    assert q.get_result(answer.id) == (False, None)
    if kind in ("retry", "snooze"):
        assert row is not None
        assert row["run_at"] == clock.now() + 30
        left = row["max_attempts"] - row["attempts"]
        assert left == (1 if kind == "retry" else 2)
    else:
        assert row is None
        assert (letter is not None) == (kind == "dead")
    if kind == "dead":
        assert letter is not None
        assert letter.last_error == "never"


def test_retryable_asks_for_its_own_delay(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q")
    answer = q.task("end")(ends_with(brant.Retryable("rate limited", delay_s=7), raised=True))()
    with running(timed) as crew:
        assert [event.error for event in crew.wait("retry")] == ["rate limited"]
    row = q.get_job(answer.id)
    assert row is not None
    assert row["run_at"] == clock.now() + 7


@pytest.mark.parametrize("delay", [float("nan"), "soon"])
def test_a_delay_that_makes_no_sense_is_a_retry_that_says_so(timed: brant.Database, delay: Any) -> None:
    q = timed.queue("q")
    for name, outcome in (("retry", Retry(delay)), ("snooze", Snooze(delay))):
        q.task(name)(ends_with(outcome, raised=False))()
    with running(timed) as crew:
        texts = [event.error or "" for event in crew.wait("retry", 2)]
    assert all("bad Retry" in text or "bad Snooze" in text for text in texts)


def test_a_result_that_cannot_be_stored_does_not_repeat_the_work(db: brant.Database) -> None:
    q = db.queue("q")
    ran = []

    @q.task
    def odd() -> object:
        ran.append(1)
        return object()

    answer = odd()
    with running(db) as crew:
        crew.wait("success")
        assert "the result was not stored" in str(crew.wait("trouble")[0].error)
    assert ran == [1]
    assert q.stats().total == 0
    assert q.get_result(answer.id) == (False, None)


def raises(error: BaseException) -> Any:
    def plain() -> None:
        raise error

    return plain


def raises_async(error: BaseException) -> Any:
    async def on_loop() -> None:
        await asyncio.sleep(0)
        raise error

    return on_loop


@pytest.mark.parametrize("make", [raises, raises_async])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError("the server was slow"), "the server was slow\nTraceback"),
        (SystemExit(3), "3\nTraceback"),
        (asyncio.CancelledError(), "the task was cancelled from within"),
        (LookupError(), "LookupError\nTraceback"),
        (ValueError("\ud800 is no character"), "\\ud800 is no character"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_function_raises_costs_an_attempt_and_not_the_worker(
    db: brant.Database, make: Any, error: BaseException, text: str
) -> None:
    q = db.queue("q")
    answer = q.task("breaks", retries=1, timeout_s=PATIENCE_S)(make(error))()
    after = q.task("after")(lambda: "alive")()
    with running(db, slots=1) as crew:
        crew.wait("dead")
        assert after.get(PATIENCE_S) == "alive"
    letter = q.get_dead(answer.id)
    assert letter is not None
    assert letter.last_error is not None
    assert letter.last_error.startswith(text)
    assert "timeout after" not in letter.last_error


def test_a_plain_function_does_not_block_the_others(db: brant.Database) -> None:
    q = db.queue("q")
    go = threading.Event()
    blocked = q.task("blocked")(lambda: go.wait(PATIENCE_S))()
    free = q.task("free")(lambda: "free")()
    with running(db, slots=2):
        assert free.get(PATIENCE_S) == "free"
        go.set()
        assert blocked.get(PATIENCE_S) is True


def test_no_more_is_claimed_than_can_run(db: brant.Database) -> None:
    q = db.queue("q")
    go = threading.Event()
    task = q.task("blocked")(lambda: go.wait(PATIENCE_S))
    answers = [task() for _ in range(5)]
    with running(db, slots=2) as crew:
        crew.wait("start", 2)
        assert q.stats().processing == 2
        go.set()
        assert [answer.get(PATIENCE_S) for answer in answers] == [True] * 5


def test_an_observer_that_fails_stops_nobody(db: brant.Database) -> None:
    def broken(event: WorkerEvent) -> None:
        raise ValueError(event.kind)

    q = db.queue("q")
    answer = q.task("sum")(lambda: 1)()
    heard = Heard()
    worker = db.worker({"q": 1}, drain=True, scheduler=False, observers=(broken, heard))
    asyncio.run(worker.run())
    assert answer.get(PATIENCE_S) == 1
    assert heard.kinds() == ["start", "success", "stop"]


def test_a_worker_without_tasks_or_with_an_endless_claim_is_refused(db: brant.Database) -> None:
    with pytest.raises(brant.BrantError, match="no tasks"):
        db.worker()
    with pytest.raises(ValueError, match="concurrency"):
        db.worker({"q": 0})
    db.queue("leaseless", visibility_timeout_s=0)
    with pytest.raises(ValueError, match="visibility_timeout_s"):
        db.worker({"leaseless": 1})


def test_draining_ends_when_all_queues_are_empty_at_once(db: brant.Database) -> None:
    steps = {name: db.queue(name) for name in ("a", "b", "c")}
    done = []

    def step(left: int) -> None:
        done.append(left)
        if left:
            tasks["abc"[left % 3]](left - 1)

    tasks = {name: queue.task(name, store_result=False)(lambda left: step(left)) for name, queue in steps.items()}
    tasks["a"](20)
    db.run_workers_sync(concurrency=1, drain=True, scheduler=False)
    assert done == list(range(20, -1, -1))


def test_what_expired_before_the_worker_came_is_dead_at_once(timed: brant.Database, clock: FakeClock) -> None:
    late = timed.queue("q").task("late", expires_s=3)(lambda: None)
    answers = [late(), late()]
    clock.advance(3)
    with running(timed, drain=True) as crew:
        for answer in answers:
            with pytest.raises(brant.TaskFailed, match="expired"):
                answer.get(PATIENCE_S)
    assert crew.heard.kinds() == ["stop"]


def test_what_expires_while_the_worker_is_idle_is_dead_soon(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q")
    late = q.task("late", expires_s=3)(lambda: None)
    q.pause()
    with running(timed):
        answer = late()
        clock.advance(6)
        with pytest.raises(brant.TaskFailed, match="expired"):
            answer.get(PATIENCE_S)


def test_a_worker_that_finds_nothing_expired_writes_nothing(path: Path) -> None:
    clock = ObservedClock()
    with brant.open(path, clock=clock) as db:
        db.queue("q").enqueue("later", delay=3600, expires=7200)
        with running(db) as crew:
            clock.wait_for_looks(1)
            begun = note_transactions(db)
            for _ in range(4):
                before = clock.looks()
                clock.advance(6)
                clock.wait_for_looks(1, each=2, since=before)
            assert begun == []
        assert not crew.heard.all("trouble")
