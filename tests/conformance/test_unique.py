"""A unique key has at most one live job in its queue."""

from __future__ import annotations

import pytest

from brant.storage.session import Session
from brant.testing import FakeClock

pytestmark = pytest.mark.guarantee("G18")


def test_a_key_that_is_held_answers_with_its_holder_and_adds_nothing(session: Session) -> None:
    holder = session.enqueue("q", "1", unique_key="k")
    assert session.enqueue("q", "2", unique_key="k", delay=5) == holder
    assert session.queue_counts("q").pending == 1


def test_keys_of_other_queues_and_other_keys_are_free(session: Session) -> None:
    ids = {
        session.enqueue("q", "1", unique_key="k"),
        session.enqueue("other", "1", unique_key="k"),
        session.enqueue("q", "1", unique_key="K"),
        session.enqueue("q", "1"),
    }
    assert len(ids) == 4


def test_a_running_job_holds_its_key(session: Session) -> None:
    holder = session.enqueue("q", "1", unique_key="k")
    session.claim("q", "w", 1, 60)
    assert session.enqueue("q", "2", unique_key="k") == holder


def test_a_job_that_waits_for_its_retry_holds_its_key(session: Session) -> None:
    holder = session.enqueue("q", "1", unique_key="k")
    session.claim("q", "w", 1, 60)
    session.retry(holder, "w", 60, "not yet")
    assert session.enqueue("q", "2", unique_key="k") == holder


@pytest.mark.parametrize("end", ["ack", "fail", "cancel", "take", "move", "delete_message", "delete_queue"])
def test_a_key_is_free_once_its_job_is_gone_from_the_queue(session: Session, end: str) -> None:
    holder = session.enqueue("q", "1", unique_key="k")
    if end in ("ack", "fail"):
        session.claim("q", "w", 1, 60)
    match end:
        case "ack":
            session.ack(holder, "w")
        case "fail":
            session.fail(holder, "w", "broken")
        case "cancel":
            session.cancel(holder)
        case "take":
            session.take("q", 1)
        case "move":
            session.move("q", "there", 1)
        case "delete_message":
            session.delete_message("q", holder)
        case _:
            session.delete_queue("q")
    assert session.enqueue("q", "2", unique_key="k") != holder


def test_a_key_with_a_time_is_held_for_that_long_even_if_its_job_is_done(session: Session, clock: FakeClock) -> None:
    holder = session.enqueue("q", "1", unique_key="k", unique_for=1.5)
    session.take("q", 1)
    clock.advance(1.25)
    assert session.enqueue("q", "2", unique_key="k", unique_for=1.5) == holder
    clock.advance(0.25)
    assert session.enqueue("q", "3", unique_key="k", unique_for=1.5) != holder


def test_a_key_whose_time_is_over_is_held_for_as_long_as_its_job_is_live(session: Session, clock: FakeClock) -> None:
    holder = session.enqueue("q", "1", unique_key="k", unique_for=5)
    clock.advance(60)
    assert session.enqueue("q", "2", unique_key="k", unique_for=5) == holder
    session.take("q", 1)
    assert session.enqueue("q", "3", unique_key="k") != holder


def test_many_keys_whose_time_is_over_are_all_free(session: Session, clock: FakeClock) -> None:
    first = {session.enqueue("q", "1", unique_key=str(key), unique_for=5) for key in range(25)}
    session.delete_queue("q")
    clock.advance(5)
    second = {session.enqueue("q", "1", unique_key=str(key), unique_for=5) for key in range(25)}
    assert len(first | second) == 50
