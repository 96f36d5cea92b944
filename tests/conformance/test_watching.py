"""Verbs of who watches: what came since the last look, and what runs."""

from __future__ import annotations

from brant.storage.session import Session
from brant.storage.watching import RunningRow
from brant.testing import FakeClock

NOW = 1_700_000_000


def test_arrivals_are_those_of_a_range_that_are_still_there(session: Session) -> None:
    before = session.enqueue("q", "1")
    gone, _, dead = session.enqueue_many("q", ["1", "2", "3"])
    until = session.enqueue("other", "1")
    session.enqueue("q", "1")
    session.cancel(gone)
    session.bury([dead], "why")
    assert session.arrivals(before, until) == {"q": 2, "other": 1}
    assert session.arrivals(until, until) == {}


def test_running_jobs_are_those_of_the_queue_by_the_end_of_their_lease(session: Session, clock: FakeClock) -> None:
    call = session.enqueue("q", '{"__honker_task__": {"task": "app.send"}}')
    broken = session.enqueue("q", "no JSON")
    session.enqueue("q", "waits")
    session.enqueue("other", "1")
    session.claim("other", "w", 1, 60)
    session.claim("q", "a", 1, 60)
    session.claim("q", "b", 1, 5)
    clock.advance(30)
    rows = [RunningRow(broken, "q", "b", None, 1, 3, NOW + 5), RunningRow(call, "q", "a", "app.send", 1, 3, NOW + 60)]
    assert session.running_jobs("q", 10) == rows
    assert session.running_jobs("q", 1) == rows[:1]
