"""The shell's verbs on the same rows, queues as a whole, dead letters and aliases."""

from __future__ import annotations

from typing import Any

import pytest

from brant.errors import StorageError
from brant.storage.base import DeadRow, JobRow, MessageRow
from brant.storage.messages import QueueCounts
from brant.storage.session import Session
from brant.testing import FakeClock

NOW = 1_700_000_000
RANGES = [
    ({}, slice(0, 5)),
    ({"after": 1}, slice(2, 5)),
    ({"before": 3}, slice(0, 3)),
    ({"after": 0, "before": 4}, slice(1, 4)),
]

HIDDEN: dict[str, dict[str, Any]] = {
    "delayed": {"delay": 5},
    "expired": {"expires": 0},
    "exhausted": {"max_attempts": 0},
    "leased": {},
}


def chosen(ids: list[int], bounds: dict[str, Any]) -> dict[str, Any]:
    return {name: ids[position] for name, position in bounds.items()}


# Take


def test_a_taken_message_is_given_and_gone(session: Session) -> None:
    job_id = session.enqueue("q", '"text"', priority=2)
    assert session.take("q", 1) == [MessageRow(job_id, "q", '"text"', 2, NOW, 0)]
    assert session.take("q", 1) == []
    assert session.get_dead(job_id) is None


@pytest.mark.guarantee("G6")
def test_messages_are_taken_by_priority_then_time_then_id(session: Session) -> None:
    late = session.enqueue("q", "1", run_at=NOW - 1)
    early = session.enqueue("q", "2", run_at=NOW - 2)
    high = session.enqueue("q", "3", priority=1)
    last = session.enqueue("q", "4", run_at=NOW - 1)
    assert [row.id for row in session.peek("q", 10)] == [high, early, late, last]
    assert [row.id for row in session.take("q", 3)] == [high, early, late]
    assert [row.id for row in session.take("q", 3)] == [last]


@pytest.mark.parametrize(("bounds", "kept"), RANGES)
def test_a_range_of_ids_is_open_at_both_ends(session: Session, bounds: dict[str, Any], kept: slice) -> None:
    ids = session.enqueue_many("q", list("01234"))
    bounds = chosen(ids, bounds)
    assert [row.id for row in session.peek("q", 10, **bounds)] == ids[kept]
    assert [row.id for row in session.move("q", "there", 10, **bounds)] == ids[kept]
    assert [row.id for row in session.take("there", 10, **bounds)] == ids[kept]


def test_one_message_is_chosen_by_its_id(session: Session) -> None:
    ids = session.enqueue_many("q", list("012"))
    assert [row.id for row in session.peek("q", 1, message_id=ids[1])] == [ids[1]]
    assert [row.id for row in session.move("q", "there", 1, message_id=ids[1])] == [ids[1]]
    assert [row.id for row in session.take("q", 1, message_id=ids[2])] == [ids[2]]
    assert session.take("q", 1, message_id=ids[1]) == []
    assert session.peek("q", 1, message_id=ids[1]) == []
    assert session.move("q", "there", 1, message_id=ids[1]) == []


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_is_not_due_is_neither_taken_nor_peeked_at_nor_moved(session: Session, hidden: str, by_id: bool) -> None:
    job_id = session.enqueue("q", "1", **HIDDEN[hidden])
    if hidden == "leased":
        session.claim("q", "w", 1, 60)
    message_id = job_id if by_id else None
    assert session.peek("q", 1, message_id=message_id) == []
    assert session.move("q", "there", 1, message_id=message_id) == []
    assert session.take("q", 1, message_id=message_id) == []


@pytest.mark.guarantee("G20")
@pytest.mark.parametrize("by_id", [False, True])
def test_nothing_is_taken_from_a_paused_queue(session: Session, by_id: bool) -> None:
    job_id = session.enqueue("q", "1")
    session.pause_queue("q", True)
    assert session.take("q", 1, message_id=job_id if by_id else None) == []
    session.pause_queue("q", False)
    assert [row.id for row in session.take("q", 1)] == [job_id]


def test_a_message_whose_lease_ran_out_is_taken(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", "1")
    session.claim("q", "w", 1, 10)
    clock.advance(11)
    assert [(row.id, row.attempts) for row in session.take("q", 1)] == [(job_id, 1)]


# Peek and move


def test_peeking_leaves_the_message_as_it_is(session: Session) -> None:
    job_id = session.enqueue("q", "1")
    before = session.get_job(job_id)
    assert [row.id for row in session.peek("q", 5)] == [job_id]
    assert session.get_job(job_id) == before


def test_peeking_goes_on_behind_what_was_seen(session: Session) -> None:
    low = session.enqueue("q", "1", priority=-1, run_at=NOW - 9)
    late = session.enqueue("q", "2")
    early = session.enqueue("q", "3", run_at=NOW - 9)
    twin = session.enqueue("q", "4", run_at=NOW - 9)
    pages = []
    seen: MessageRow | None = None
    while page := session.peek("q", 1, seen=seen):
        seen = page[0]
        session.take("q", 1, message_id=seen.id)
        pages.append(seen.id)
    assert pages == [early, twin, late, low]


def test_a_moved_message_keeps_everything_but_its_queue(session: Session) -> None:
    job_id = session.enqueue("q", '"text"', priority=3, max_attempts=7, expires=60, run_at=NOW - 5)
    before = session.get_job(job_id)
    assert session.move("q", "there", 1) == [MessageRow(job_id, "there", '"text"', 3, NOW - 5, 0)]
    assert before is not None
    assert session.get_job(job_id) == before._replace(queue="there")
    assert session.queue_names() == ["q", "there"]


def test_moving_nothing_makes_no_queue(session: Session) -> None:
    assert session.move("q", "there", 1) == []
    assert session.queue_names() == []


# Queues as a whole


def test_only_a_message_that_is_not_leased_is_deleted_by_id(session: Session) -> None:
    leased, delayed, other = session.enqueue("q", "1"), session.enqueue("q", "2", delay=5), session.enqueue("o", "3")
    session.claim("q", "w", 1, 60)
    assert [session.delete_message("q", job_id) for job_id in (leased, delayed, other)] == [False, True, False]
    assert not session.delete_message("q", delayed)


def test_a_deleted_queue_is_forgotten_with_its_leased_jobs_and_keeps_its_dead_letters(session: Session) -> None:
    leased, buried = session.enqueue_many("q", ["1", "2"])
    session.claim("q", "w", 1, 60)
    session.bury([buried], "why")
    session.enqueue("other", "3")
    assert session.queue_has_rows("q")
    assert session.delete_queue("q") == 1
    assert not session.ack(leased, "w")
    assert not session.queue_has_rows("q")
    assert session.queue_names() == ["other"]
    assert session.queue_names(with_dead=True) == ["other", "q"]
    assert session.delete_queue("q") == 0


def test_a_drained_queue_is_still_known(session: Session) -> None:
    session.enqueue("q", "1")
    session.take("q", 1)
    assert session.queue_names() == ["q"]
    assert not session.queue_has_rows("q")


def test_deleting_a_paused_queue_leaves_it_paused(session: Session) -> None:
    session.enqueue("q", "1")
    session.pause_queue("q", True)
    session.delete_queue("q")
    assert session.queue_paused("q")


def test_the_counts_of_a_queue(session: Session, clock: FakeClock) -> None:
    assert session.queue_counts("q") == QueueCounts(0, 0, 0, 0, None, None, 0)
    session.enqueue_many("q", list("1234"))
    session.claim("q", "w", 1, 60)
    session.bury([session.enqueue("q", "5")], "why")
    session.enqueue("q", "6", delay=30)
    session.enqueue("q", "7", delay=20)
    session.enqueue("other", "8", delay=10)
    session.pause_queue("q", True)
    clock.advance(5)
    assert session.queue_counts("q") == QueueCounts(
        pending=5, delayed=2, processing=1, dead=1, oldest_due_at=NOW, next_run_at=NOW + 20, paused=1
    )


def test_pausing_tells_whether_it_changed_anything(session: Session) -> None:
    assert not session.queue_paused("q")
    assert [session.pause_queue("q", True), session.pause_queue("q", True)] == [True, False]
    assert session.queue_paused("q")
    assert [session.pause_queue("q", False), session.pause_queue("q", False)] == [True, False]
    assert not session.queue_paused("q")


# Dead letters


def test_dead_letters_are_listed_by_id_in_pages_and_by_queue(session: Session) -> None:
    ids = session.enqueue_many("q", list("0123"))
    session.bury(ids, "why")
    session.bury([session.enqueue("other", "4")], "why")
    assert [dead.id for dead in session.list_dead("q", 0, 3)] == ids[:3]
    assert [dead.id for dead in session.list_dead("q", ids[2], 3)] == ids[3:]


def test_a_dead_letter_is_found_by_its_id(session: Session) -> None:
    job_id = session.enqueue("q", '"p"', priority=2, max_attempts=4, run_at=NOW - 9)
    session.bury([job_id], "why")
    assert session.get_dead(job_id) == DeadRow(job_id, "q", '"p"', 2, NOW - 9, 0, 4, "why", NOW, NOW)
    assert session.get_dead(1) is None


def test_a_requeued_dead_letter_is_due_now_with_all_its_attempts(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", '"p"', priority=2, max_attempts=1, expires=60)
    session.claim("q", "w", 1, 60)
    session.fail(job_id, "w", "why")
    session.delete_queue("q")
    clock.advance(100)
    assert session.requeue_dead([job_id, 1]) == 1
    assert session.get_job(job_id) == JobRow(job_id, "q", '"p"', "pending", 2, NOW + 100, None, None, 0, 1, NOW, None)
    assert session.get_dead(job_id) is None
    assert session.queue_names() == ["q"]
    assert session.attempt_errors(job_id) == [(1, "w", "why", NOW)]


def released(session: Session, job_id: int, times: int) -> None:
    for _ in range(times):
        session.claim("q", "w", 1, 60)
        assert session.release([job_id], "w") == 1


def test_what_was_released_gives_a_requeued_dead_letter_no_more_attempts(session: Session, clock: FakeClock) -> None:
    job_id = session.enqueue("q", "1", max_attempts=3)
    released(session, job_id, 4)
    session.claim("q", "w", 1, 60)
    session.retry(job_id, "w", 0, "first")
    released(session, job_id, 2)
    session.claim("q", "w", 1, 60)
    clock.advance(61)  # the second attempt is lost with its lease
    session.claim("q", "w", 1, 60)
    session.retry(job_id, "w", 0, "third")
    assert session.get_dead(job_id) is not None
    session.requeue_dead([job_id])
    job = session.get_job(job_id)
    assert job is not None
    assert (job.attempts, job.max_attempts) == (0, 3)


def test_a_dead_letter_with_attempts_left_is_requeued_with_those_and_the_failed_ones(session: Session) -> None:
    job_id = session.enqueue("q", "1", max_attempts=5)
    released(session, job_id, 3)
    for _ in range(3):  # lives, each of which keeps the errors of those before
        session.claim("q", "w", 1, 60)
        session.fail(job_id, "w", "never")
        session.requeue_dead([job_id])
        job = session.get_job(job_id)
        assert job is not None
        assert (job.attempts, job.max_attempts) == (0, 5)


def test_a_dead_letter_whose_attempts_left_no_errors_keeps_its_attempts(session: Session) -> None:
    job_id = session.enqueue("q", "1", max_attempts=3)
    for _ in range(3):
        session.claim("q", "w", 1, 60)
        session.changed("reschedule", {"id": job_id, "run_at": NOW})  # as Honker retries
    session.claim("q", "w", 1, 60)
    session.requeue_dead([job_id])
    job = session.get_job(job_id)
    assert job is not None
    assert (job.attempts, job.max_attempts) == (0, 3)


def test_a_requeued_job_that_was_never_allowed_to_run_may_run_once(session: Session) -> None:
    job_id = session.enqueue("q", "1", max_attempts=0)
    session.claim("q", "w", 1, 60)
    session.requeue_dead([job_id])
    ((job, _),) = session.claim("q", "w", 1, 60)
    assert (job.id, job.attempts, job.max_attempts) == (job_id, 1, 1)


def test_dead_letters_are_purged_by_queue_and_age(session: Session, clock: FakeClock) -> None:
    old, other = session.enqueue("q", "1"), session.enqueue("other", "2")
    session.bury([old, other], "why")
    clock.advance(10)
    new = session.enqueue("q", "3")
    session.bury([new], "why")
    assert session.purge_dead("q", NOW) == 0
    assert session.purge_dead("q", NOW + 10) == 1
    assert [dead.id for dead in session.list_dead("q", 0, 9)] == [new]
    assert session.purge_dead("q", None) == 1
    assert session.get_dead(other) is not None


# Aliases


def test_an_alias_stands_for_a_queue_until_it_is_removed(session: Session) -> None:
    session.add_alias("b", "queue-1")
    session.add_alias("a", "queue-2")
    assert session.alias_target("b") == "queue-1"
    assert session.alias_target("queue-1") is None
    assert session.list_aliases(None) == [("a", "queue-2"), ("b", "queue-1")]
    assert session.list_aliases("queue-1") == [("b", "queue-1")]
    assert session.remove_alias("b")
    assert not session.remove_alias("b")
    assert session.alias_target("b") is None


def test_an_alias_is_not_replaced(session: Session) -> None:
    session.add_alias("a", "queue-1")
    with pytest.raises(StorageError):
        session.add_alias("a", "queue-2")
    assert session.alias_target("a") == "queue-1"
