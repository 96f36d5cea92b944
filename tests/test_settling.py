"""Ending a claim: ack, retry, fail, heartbeat, cancel; and who may."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import brant
from brant.testing import FakeClock

pytestmark = pytest.mark.both_backends

SETTLING: dict[str, Callable[[brant.Job], bool]] = {
    "ack": lambda job: job.ack(),
    "retry": lambda job: job.retry(0, "late"),
    "fail": lambda job: job.fail("late"),
    "heartbeat": lambda job: job.heartbeat(60),
}
BY_QUEUE: dict[str, Callable[[brant.Queue, int, str], object]] = {
    "ack": lambda queue, job_id, worker: queue.ack(job_id, worker),
    "ack_batch": lambda queue, job_id, worker: queue.ack_batch([job_id], worker),
    "retry": lambda queue, job_id, worker: queue.retry(job_id, worker, 0, "why"),
    "fail": lambda queue, job_id, worker: queue.fail(job_id, worker, "why"),
    "heartbeat": lambda queue, job_id, worker: queue.heartbeat(job_id, worker, 60),
}


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q", visibility_timeout_s=10)


def claimed(queue: brant.Queue, worker: str = "w") -> brant.Job:
    job = queue.claim_one(worker)
    assert job is not None
    return job


def row_of(queue: brant.Queue, job_id: int) -> dict[str, object]:
    row = queue.get_job(job_id)
    assert row is not None
    return row


def test_an_acked_job_is_gone(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    job = claimed(queue)
    assert job.ack()
    assert queue.get_job(job_id) is None
    assert queue.get_dead(job_id) is None
    assert not job.ack()


def test_a_retried_job_waits_and_keeps_its_attempts(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    assert claimed(queue).retry(30, "boom")
    row = row_of(queue, job_id)
    wanted = {"state": "pending", "run_at": 1_700_000_030, "worker_id": None, "claim_expires_at": None, "attempts": 1}
    assert {name: row[name] for name in wanted} == wanted


def test_the_delay_of_a_retry_is_a_minute_by_default(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    assert claimed(queue).retry()
    assert row_of(queue, job_id)["run_at"] == 1_700_000_060


@pytest.mark.guarantee("G5")
def test_a_retry_without_attempts_left_is_a_dead_letter_with_the_callers_error(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1, max_attempts=2)
    assert claimed(queue).retry(0, "first")
    assert claimed(queue).retry(0, "second")
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert (dead.last_error, dead.attempts) == ("second", 2)
    assert queue.get_job(job_id) is None


def test_the_errors_of_all_attempts_are_kept(queue: brant.Queue, clock: FakeClock) -> None:
    job_id = queue.enqueue(1)
    for error in ("first", "second", "third"):
        claimed(queue, error).retry(0, error)
        clock.advance(1)
    assert [(error.attempt, error.worker_id, error.error) for error in queue.errors(job_id)] == [
        (1, "first", "first"),
        (2, "second", "second"),
        (3, "third", "third"),
    ]
    assert [error.failed_at for error in queue.errors(job_id)] == [1_700_000_000, 1_700_000_001, 1_700_000_002]


def test_the_last_error_of_a_live_job_is_in_the_view(queue: brant.Queue) -> None:
    queue.enqueue(1)
    claimed(queue).retry(0, "why")
    assert queue.db.query("SELECT state, last_error FROM _honker_jobs") == [{"state": "pending", "last_error": "why"}]


def test_the_errors_go_when_the_job_is_done(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    claimed(queue).retry(0, "boom")
    claimed(queue).ack()
    assert queue.errors(job_id) == []
    assert queue.db.query("SELECT count(*) AS n FROM _brant_attempts") == [{"n": 0}]


def test_a_failed_job_is_a_dead_letter_though_attempts_are_left(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    assert claimed(queue).fail("no good")
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert (dead.last_error, dead.attempts, dead.max_attempts) == ("no good", 1, 3)
    assert queue.claim_one("w") is None


@pytest.mark.parametrize(
    "error",
    [
        "",
        "naïve 😀",
        pytest.param("nul \x00", marks=pytest.mark.files_only("a server stores no NUL")),
        "x" * 100_000,
        ValueError("an exception"),
        None,
    ],
)
@pytest.mark.parametrize("verb", ["retry", "fail"])
def test_any_error_text_is_kept(queue: brant.Queue, verb: str, error: object) -> None:
    job_id = queue.enqueue(1, max_attempts=1)
    getattr(queue, verb)(job_id, claimed(queue).worker_id, *([0] if verb == "retry" else []), error)
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert dead.last_error == str(error)


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("verb", ["retry", "fail"])
def test_an_error_text_with_lone_surrogates_does_not_keep_a_job_from_being_settled(
    queue: brant.Queue, verb: str
) -> None:
    job_id = queue.enqueue(1, max_attempts=1)
    error = "no such file: 'caf\udce9'"
    assert getattr(claimed(queue), verb)(error=error)
    dead = queue.get_dead(job_id)
    assert dead is not None
    assert dead.last_error == r"no such file: 'caf\udce9'"


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", SETTLING)
def test_a_namesakes_late_word_is_refused(queue: brant.Queue, clock: FakeClock, verb: str) -> None:
    job_id = queue.enqueue(1)
    late = claimed(queue, "pid-1")
    clock.advance(11)
    holder = claimed(queue, "pid-1")
    before = row_of(queue, job_id)
    assert not SETTLING[verb](late)
    assert row_of(queue, job_id) == before
    assert queue.errors(job_id)[1:] == []
    assert holder.ack()


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", SETTLING)
def test_a_late_word_of_another_worker_is_refused(queue: brant.Queue, clock: FakeClock, verb: str) -> None:
    queue.enqueue(1)
    late = claimed(queue, "first")
    clock.advance(11)
    holder = claimed(queue, "second")
    assert not SETTLING[verb](late)
    assert holder.heartbeat()


@pytest.mark.parametrize("verb", BY_QUEUE)
def test_only_the_holder_settles_by_id(queue: brant.Queue, verb: str) -> None:
    job_id = queue.enqueue(1)
    assert not BY_QUEUE[verb](queue, job_id, "w")
    claimed(queue, "w")
    before = row_of(queue, job_id)
    assert not BY_QUEUE[verb](queue, job_id, "other")
    assert row_of(queue, job_id) == before
    assert BY_QUEUE[verb](queue, job_id, "w")


@pytest.mark.parametrize("verb", BY_QUEUE)
def test_an_unknown_job_is_settled_by_nobody(queue: brant.Queue, verb: str) -> None:
    assert not BY_QUEUE[verb](queue, 42, "w")


def test_settling_is_not_scoped_to_a_queue(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    claimed(queue)
    assert queue.db.queue("another").ack(job_id, "w")


BAD_IDS = [None, "1", 1.5, float("nan"), [1], b"1", 2**70]


@pytest.mark.parametrize("job_id", BAD_IDS, ids=repr)
@pytest.mark.parametrize("verb", BY_QUEUE)
@pytest.mark.guarantee("G19")
def test_a_bad_job_id_is_refused(queue: brant.Queue, verb: str, job_id: int) -> None:
    with pytest.raises(brant.InvalidValue, match="job_id"):
        BY_QUEUE[verb](queue, job_id, "w")


@pytest.mark.parametrize("job_id", BAD_IDS, ids=repr)
@pytest.mark.parametrize("verb", ["cancel", "get_job", "errors", "get_dead", "get_result"])
@pytest.mark.guarantee("G19")
def test_a_bad_job_id_is_refused_by_the_other_verbs_too(queue: brant.Queue, verb: str, job_id: object) -> None:
    with pytest.raises(brant.InvalidValue, match="job_id"):
        getattr(queue, verb)(job_id)


@pytest.mark.parametrize("worker", [None, "", 5, b"w", "\ud800"])
@pytest.mark.parametrize("verb", BY_QUEUE)
@pytest.mark.guarantee("G19")
def test_a_bad_worker_id_is_refused(queue: brant.Queue, verb: str, worker: str) -> None:
    job_id = queue.enqueue(1)
    claimed(queue)
    with pytest.raises(brant.InvalidValue, match="worker_id"):
        BY_QUEUE[verb](queue, job_id, worker)
    assert row_of(queue, job_id)["worker_id"] == "w"


@pytest.mark.parametrize("seconds", ["5", None, float("nan"), float("inf"), 10**400, 1e300])
@pytest.mark.guarantee("G19")
def test_a_bad_delay_or_extension_is_refused_and_the_claim_stays(queue: brant.Queue, seconds: object) -> None:
    job_id = queue.enqueue(1)
    job = claimed(queue)
    before = row_of(queue, job_id)
    with pytest.raises(brant.InvalidValue, match="delay_s"):
        job.retry(seconds, "why")  # type: ignore[arg-type]
    if seconds is not None:
        with pytest.raises(brant.InvalidValue, match="extend_s"):
            job.heartbeat(seconds)  # type: ignore[arg-type]
    assert row_of(queue, job_id) == before
    assert queue.errors(job_id) == []


def test_acking_many_counts_those_still_held(queue: brant.Queue) -> None:
    queue.enqueue_many(range(5))
    ids = [job.id for job in queue.claim_batch("w", 3)]
    other = claimed(queue, "other")
    waiting = [row["id"] for row in queue.db.query("SELECT id FROM _honker_live WHERE state = 'pending'")]
    assert queue.ack_batch([*ids, other.id, *waiting, 42], "w") == 3
    assert queue.ack_batch(ids, "w") == 0
    assert queue.ack_batch([], "w") == 0
    assert queue.stats().total == 2


@pytest.mark.guarantee("G16")
def test_acking_many_with_one_bad_id_acks_none(queue: brant.Queue) -> None:
    queue.enqueue_many(range(2))
    ids: list[object] = [job.id for job in queue.claim_batch("w", 2)]
    with pytest.raises(brant.InvalidValue):
        queue.ack_batch([*ids, "x"], "w")  # type: ignore[list-item]
    assert queue.stats().processing == 2


def test_a_cancelled_job_is_gone_without_a_trace(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    assert queue.cancel(job_id)
    assert not queue.cancel(job_id)
    assert queue.get_job(job_id) is None
    assert queue.get_dead(job_id) is None


@pytest.mark.parametrize("verb", SETTLING)
def test_a_handler_whose_job_was_cancelled_learns_it_when_it_settles(queue: brant.Queue, verb: str) -> None:
    queue.enqueue(1)
    job = claimed(queue)
    assert queue.cancel(job.id)
    assert not SETTLING[verb](job)


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("verb", ["ack", "retry", "fail"])
def test_settling_in_a_transaction_that_rolls_back_never_happened(queue: brant.Queue, verb: str) -> None:
    queue.enqueue(1)
    job = claimed(queue)
    before = row_of(queue, job.id)
    with pytest.raises(ZeroDivisionError), queue.db.transaction() as tx:
        assert getattr(job, verb)(tx=tx)
        raise ZeroDivisionError
    assert row_of(queue, job.id) == before
    assert (queue.errors(job.id), queue.list_dead()) == ([], [])
    assert job.ack()


def test_a_job_says_who_it_is(queue: brant.Queue) -> None:
    queue.enqueue({"secret": "payload"})
    job = claimed(queue)
    assert repr(job) == f"Job(id={job.id}, queue='q', attempts=1/3)"
