"""Limits hold at the claim, in the database."""

from __future__ import annotations

import pytest

from brant.storage.base import Storage
from brant.storage.jobs import Claimable
from brant.storage.limits import LimitRow
from brant.storage.session import Session
from brant.testing import FakeClock

NOW = 1_700_000_000

ONE = LimitRow("k", 1, None, None)
TWO_A_MINUTE = LimitRow("k", None, 2, 60)


def claimed(session: Session, *, limit: int = -1, lease: float = 60, worker: str = "w") -> list[int]:
    return [job.id for job, _ in session.claim("q", worker, limit, lease)]


def test_a_key_lets_no_more_run_than_its_limit(session: Session) -> None:
    first, *_ = session.enqueue_many("q", ["1", "2", "3"], limit=ONE)
    other = session.enqueue("q", "4", limit=LimitRow("other", 1, None, None))
    free = session.enqueue("q", "5")
    assert claimed(session) == [first, other, free]
    assert claimed(session) == []


@pytest.mark.parametrize("end", ["ack", "fail", "retry", "release", "cancel"])
def test_room_is_free_when_a_job_ends(session: Session, end: str) -> None:
    first, second = session.enqueue_many("q", ["1", "2"], limit=ONE)
    claimed(session)
    assert claimed(session) == []
    match end:
        case "ack":
            session.ack(first, "w")
        case "fail":
            session.fail(first, "w", "broken")
        case "retry":
            session.retry(first, "w", 600, "again")
        case "release":
            session.release([first], "w", delay=600)
        case _:
            session.cancel(first)
    assert session.claimable("q").now
    assert claimed(session) == [second]


def test_room_is_free_when_a_lease_runs_out(session: Session, clock: FakeClock) -> None:
    first, _ = session.enqueue_many("q", ["1", "2"], limit=ONE)
    claimed(session, lease=10)
    assert claimed(session) == []
    assert session.claimable("q") == Claimable(False, NOW + 11)
    clock.advance(11)
    assert claimed(session, worker="other") == [first]
    assert not session.ack(first, "w", 1)
    assert claimed(session) == []


def test_no_window_sees_more_starts_than_its_limit(session: Session, clock: FakeClock) -> None:
    ids = session.enqueue_many("q", ["1"] * 5, limit=TWO_A_MINUTE)
    assert claimed(session, limit=1, lease=600) == ids[:1]
    clock.advance(40)
    assert claimed(session, lease=600) == ids[1:2]
    assert session.claimable("q").next_at == NOW + 60
    clock.advance(19.5)
    assert claimed(session, lease=600) == []
    clock.advance(0.5)
    assert claimed(session, lease=600) == ids[2:3]
    clock.advance(39)
    assert claimed(session, lease=600) == []
    clock.advance(1)
    assert claimed(session, lease=600) == ids[3:4]


def test_the_limit_of_a_queue_is_that_of_all_its_jobs(session: Session) -> None:
    ids = session.enqueue_many("q", ["1"] * 4)
    session.set_limit("q", LimitRow("", 2, None, None))
    assert claimed(session) == ids[:2]
    assert claimed(session) == []
    assert not session.claimable("q").now
    session.ack(ids[0], "w")
    assert session.claimable("q").now
    assert claimed(session) == ids[2:3]


def test_a_limit_that_is_dropped_holds_no_more(session: Session) -> None:
    ids = session.enqueue_many("q", ["1"] * 4)
    session.set_limit("q", LimitRow("", 1, 1, 60))
    assert claimed(session) == ids[:1]
    assert session.list_limits("q") == [LimitRow("", 1, 1, 60)]
    assert session.drop_limit("q", "")
    assert not session.drop_limit("q", "")
    assert session.list_limits("q") == []
    assert claimed(session) == ids[1:]


def test_the_newest_settings_of_a_key_hold_for_all_its_jobs(session: Session) -> None:
    ids = session.enqueue_many("q", ["1"] * 4, limit=ONE)
    assert claimed(session) == ids[:1]
    more = session.enqueue("q", "1", limit=ONE._replace(max_running=3))
    assert claimed(session) == ids[1:3]
    assert session.list_limits("q") == [ONE._replace(max_running=3)]
    assert claimed(session) == []
    assert session.queue_counts("q").pending == 2
    assert session.cancel(more)


def test_a_raised_limit_lets_all_go_that_have_room_now(session: Session) -> None:
    ids = session.enqueue_many("q", ["1"] * 1200, limit=ONE)
    assert claimed(session) == ids[:1]
    assert claimed(session, limit=1) == []
    session.set_limit("q", ONE._replace(max_running=2000))
    assert claimed(session, limit=1) == ids[1:2]
    assert claimed(session, limit=2000) == ids[2:]


def test_all_keys_that_have_room_are_woken(session: Session) -> None:
    for number in range(60):
        session.enqueue_many("q", ["1", "2"], limit=LimitRow(f"k{number}", 1, None, None))
    first = claimed(session)
    assert len(first) == 60
    assert claimed(session) == []
    session.ack_many(first, "w")
    assert len(claimed(session, limit=60)) == 60


def test_those_held_back_go_in_order(session: Session) -> None:
    first = session.enqueue("q", "1", limit=ONE, priority=9)
    low, high = (session.enqueue("q", "1", limit=ONE, priority=priority) for priority in (1, 5))
    seen = []
    for expected in (first, high, low):
        assert claimed(session) == [expected]
        assert claimed(session) == []
        seen.append(expected)
        session.ack(expected, "w")
    assert seen == [first, high, low]


def test_a_key_without_jobs_is_forgotten(session: Session, clock: FakeClock) -> None:
    ids = session.enqueue_many("q", ["1", "2"], limit=ONE) + session.enqueue_many(
        "q", ["1"], limit=LimitRow("rated", None, 5, 60)
    )
    for job_id in ids:
        claimed(session)
        session.ack(job_id, "w")
    assert session.list_limits("q") == [LimitRow("rated", None, 5, 60)]
    assert session.forget_unused_limits() == 0
    clock.advance(60)
    assert session.forget_unused_limits() == 1
    assert session.list_limits("q") == []
    assert session.row_counts()["limited"] == session.row_counts()["starts"] == 0


def test_what_is_due_for_too_long_comes_first(session: Session, clock: FakeClock) -> None:
    old = session.enqueue("q", "old")
    clock.advance(301)
    new = session.enqueue_many("q", ["new"] * 2, priority=9)
    taken = [job.id for job, _ in session.claim("q", "w", 2, 60, overdue=1, max_wait=300)]
    assert taken == [new[0], old]


def test_a_claim_that_is_rolled_back_took_no_room(storage: Storage) -> None:
    with storage.transaction() as session:
        session.enqueue_many("q", ["1", "2"], limit=LimitRow("k", 1, 1, 60))
    with pytest.raises(ZeroDivisionError), storage.transaction() as session:
        assert len(session.claim("q", "w", 5, 60)) == 1
        raise ZeroDivisionError
    with storage.transaction() as session:
        assert len(session.claim("q", "w", 5, 60)) == 1
        assert session.claim("q", "w", 5, 60) == []
