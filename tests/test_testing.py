"""The helpers for users' own tests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock, assert_enqueued, drain, pending_payloads


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q")


# FakeClock


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock()
    assert (clock.now(), clock.monotonic()) == (1_700_000_000, 0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (1_700_000_002.5, 2.5)


@pytest.mark.parametrize("start", [0, 5.5, datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)])
def test_a_fake_clock_starts_where_it_is_told(start: float | datetime) -> None:
    expected = start.timestamp() if isinstance(start, datetime) else start
    assert FakeClock(start).now() == expected


def test_time_only_passes_forwards() -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="forwards"):
        clock.advance(-1)
    assert clock.now() == 1_700_000_000


def test_a_step_of_the_wall_clock_lets_no_time_pass() -> None:
    clock = FakeClock()
    clock.step_wall(-100)
    assert (clock.now(), clock.monotonic()) == (1_699_999_900, 0)


def test_those_who_asked_are_told_when_time_moves_until_they_take_it_back() -> None:
    clock = FakeClock()
    told: list[float] = []
    forget = clock.on_change(lambda: told.append(clock.now()))
    clock.advance(1)
    clock.step_wall(-2)
    forget()
    clock.advance(1)
    assert told == [1_700_000_001, 1_699_999_999]


def test_a_clock_forgets_a_closed_database(path: Path) -> None:
    clock = FakeClock()
    db = brant.open(path, clock=clock)
    db.close()
    clock.advance(1)


def test_two_databases_share_one_clock(tmp_path: Path) -> None:
    clock = FakeClock()
    with brant.open(tmp_path / "a.db", clock=clock) as one, brant.open(tmp_path / "b.db", clock=clock) as other:
        for db in (one, other):
            db.queue("q").enqueue(1, delay=5)
        clock.advance(5)
        assert all(db.queue("q").claim_one("w") for db in (one, other))


# drain


def test_drain_runs_every_due_job_in_order_and_acks_it(queue: brant.Queue) -> None:
    queue.enqueue_many([1, 2], priority=1)
    queue.enqueue(0, priority=5)
    queue.enqueue("later", delay=60)
    ran: list[object] = []
    assert drain(queue, lambda job: ran.append(job.payload)) == 3
    assert ran == [0, 1, 2]
    assert pending_payloads(queue) == ["later"]


def test_drain_of_an_empty_queue_runs_nothing(queue: brant.Queue) -> None:
    assert drain(queue, lambda job: pytest.fail("nothing is due")) == 0


def test_drain_runs_what_handlers_add(queue: brant.Queue) -> None:
    queue.enqueue(3)
    assert drain(queue, lambda job: job.payload and queue.enqueue(job.payload - 1)) == 4


def test_drain_raises_the_handlers_error_and_puts_the_job_back(queue: brant.Queue) -> None:
    job_id = queue.enqueue(1)
    with pytest.raises(ZeroDivisionError):
        drain(queue, lambda job: 1 / 0)
    row = queue.get_job(job_id)
    assert row is not None
    assert row["state"] == "pending"
    assert drain(queue, lambda job: None) == 1


def test_drain_leaves_what_the_handler_settled(queue: brant.Queue) -> None:
    queue.enqueue(1)
    assert drain(queue, lambda job: job.fail("by the handler")) == 1
    assert [dead.last_error for dead in queue.list_dead()] == ["by the handler"]


def test_drain_gives_up_on_a_queue_that_never_empties(queue: brant.Queue) -> None:
    queue.enqueue(0)
    with pytest.raises(AssertionError, match="its own queue"):
        drain(queue, lambda job: queue.enqueue(job.payload + 1), limit=5)


def test_drain_of_exactly_as_many_jobs_as_the_limit_is_no_failure(queue: brant.Queue) -> None:
    queue.enqueue_many(range(5))
    assert drain(queue, lambda job: None, limit=5) == 5


# Assertions


def test_pending_payloads_are_those_of_all_live_jobs_by_id(queue: brant.Queue) -> None:
    queue.enqueue({"n": 1})
    queue.claim_one("w")
    queue.enqueue("later", delay=60)
    queue.enqueue("urgent", priority=9)
    queue.db.queue("other").enqueue("elsewhere")
    assert pending_payloads(queue) == [{"n": 1}, "later", "urgent"]


def test_pending_payloads_show_bad_json_as_it_is(queue: brant.Queue) -> None:
    with queue.db.transaction() as tx:
        tx.execute("INSERT INTO _honker_live (queue, payload) VALUES ('q', '{bad')")
    assert pending_payloads(queue) == ["{bad"]


def test_assert_enqueued_passes_on_what_is_there(queue: brant.Queue) -> None:
    queue.enqueue_many([{"to": "a"}, {"to": "b"}, {"to": "a"}, None])
    assert_enqueued(queue)
    assert_enqueued(queue, count=4)
    assert_enqueued(queue, {"to": "b"})
    assert_enqueued(queue, {"to": "a"}, count=2)
    assert_enqueued(queue, {"to": "c"}, count=0)
    assert_enqueued(queue, None, count=1)


@pytest.mark.parametrize(
    ("payload", "count", "message"),
    [({"to": "c"}, None, "has not got a job with"), ({"to": "a"}, 2, "1 times, not 2"), (..., 3, "1 times, not 3")],
)
def test_assert_enqueued_fails_and_shows_what_is_there(
    queue: brant.Queue, payload: object, count: int | None, message: str
) -> None:
    queue.enqueue({"to": "a"})
    with pytest.raises(AssertionError, match=message) as caught:
        assert_enqueued(queue, payload, count=count)
    assert "{'to': 'a'}" in str(caught.value)


def test_assert_enqueued_fails_on_an_empty_queue(queue: brant.Queue) -> None:
    with pytest.raises(AssertionError, match="a job"):
        assert_enqueued(queue)
