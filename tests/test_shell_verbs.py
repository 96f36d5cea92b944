"""The shell's verbs on the rows of the work queue: write, read, peek, move, delete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import QueueNameError
from brant.testing import FakeClock
from tests.plainly import plain_connection

pytestmark = pytest.mark.both_backends


def test_a_read_message_is_gone(db: brant.Database) -> None:
    queue = db.queue("once")
    queue.write("only")
    assert queue.read() == "only"
    assert queue.read() is None
    assert db.query("SELECT count(*) AS rows FROM _honker_live") == [{"rows": 0}]


def test_messages_come_in_the_order_of_writing(db: brant.Database) -> None:
    queue = db.queue("fifo")
    ids = [queue.write(str(n)) for n in range(5)]
    assert ids == sorted(ids)
    assert queue.read() == "0"
    assert queue.read_many(2) == ["1", "2"]
    assert queue.read_many(100) == ["3", "4"]


@pytest.mark.guarantee("G6")
def test_due_rows_come_by_priority_and_then_by_age(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("work")
    queue.write("old")
    clock.advance(1)
    queue.write("newer")
    queue.enqueue("urgent", priority=5)
    queue.enqueue("later", delay=60, priority=9)
    expected = ["urgent", "old", "newer"]
    assert queue.peek_many() == expected
    assert [*queue.peek_generator()] == expected
    assert queue.read_many(10) == expected


def test_a_delayed_row_is_not_there_before_it_is_due(timed: brant.Database, clock: FakeClock) -> None:
    queue, other = timed.queue("later"), timed.queue("other")
    delayed = queue.enqueue("wait", delay=10)
    for _ in range(2):
        assert queue.peek() is None
        assert queue.read() is None
        assert queue.read(message_id=delayed) is None
        assert queue.move(other) is None
        assert queue.move(other, message_id=delayed) is None
        assert not queue.has_pending()
        clock.advance(4)
    assert queue.stats().pending == 1
    clock.advance(2)
    assert queue.has_pending()
    assert queue.read() == "wait"


def test_a_leased_row_is_out_of_reach_of_the_shell(db: brant.Database) -> None:
    queue, other = db.queue("leased"), db.queue("other")
    leased = queue.write("mine")
    job = queue.claim_one("worker")
    assert job is not None
    assert queue.peek() is queue.peek(message_id=leased) is None
    assert queue.read() is queue.read(message_id=leased) is None
    assert queue.move(other) is queue.move(other, message_id=leased) is None
    assert not queue.delete(message_id=leased)
    assert not queue.has_pending()
    assert queue.exists()
    assert job.ack()


@pytest.mark.parametrize("lease_s", [30, 0.5])
def test_a_row_whose_lease_ran_out_is_within_reach_again(
    timed: brant.Database, clock: FakeClock, lease_s: float
) -> None:
    queue = timed.queue("abandoned")
    ids = [queue.write("first"), queue.write("second"), queue.write("third")]
    queue.claim_batch("crashed", 2, lease_s=lease_s)
    clock.advance(lease_s + 1)
    assert queue.has_pending()
    assert queue.peek() == "first"
    assert queue.peek_many() == [*queue.peek_generator()] == ["first", "second", "third"]
    assert queue.peek_many(2, after=ids[0]) == ["second", "third"]
    assert queue.peek(message_id=ids[1]) == "second"
    assert queue.delete(message_id=ids[1])
    assert queue.read_many(9) == ["first", "third"]


def test_peeking_changes_nothing_and_pages_through_everything(db: brant.Database) -> None:
    queue = db.queue("many")
    queue.enqueue_many([str(n) for n in range(2500)])
    assert [*queue.peek_generator()] == [str(n) for n in range(2500)]
    assert queue.peek_many() == [str(n) for n in range(1000)]
    assert queue.peek_many(3) == ["0", "1", "2"]
    assert queue.stats().pending == 2500


def test_a_peek_goes_on_behind_what_others_took_meanwhile(db: brant.Database) -> None:
    queue = db.queue("shared")
    queue.enqueue_many([str(n) for n in range(1500)])
    peeked = queue.peek_generator()
    assert next(peeked) == "0"
    queue.read_many(500)
    assert [*peeked] == [str(n) for n in range(1, 1500)]


def test_peek_does_not_wait_for_a_writer(db: brant.Database) -> None:
    queue = db.queue("busy")
    queue.write("there")
    with db.transaction() as tx:
        queue.write("not yet", tx=tx)
        assert queue.peek_many() == ["there"]
        assert queue.has_pending()
        assert queue.exists()


def _written(queue: brant.Queue) -> list[int]:
    return [queue.write(str(n)) for n in range(5)]


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        (None, None, ["0", "1", "2", "3", "4"]),
        (1, None, ["2", "3", "4"]),
        (None, 3, ["0", "1", "2"]),
        (1, 3, ["2"]),
        (1, 2, []),
        (4, None, []),
        (None, 0, []),
    ],
)
@pytest.mark.parametrize("verb", ["read_many", "peek_many", "move_many", "read_generator", "peek_generator"])
def test_after_and_before_are_an_open_range_of_ids(
    db: brant.Database, verb: str, after: int | None, before: int | None, expected: list[str]
) -> None:
    queue = db.queue("ranged")
    ids = _written(queue)
    bounds = {"after": None if after is None else ids[after], "before": None if before is None else ids[before]}
    arguments: dict[str, tuple[Any, ...]] = {"read_many": (9,), "peek_many": (9,), "move_many": ("other",)}
    assert [*getattr(queue, verb)(*arguments.get(verb, ()), **bounds)] == expected


def test_read_in_a_range_takes_the_oldest_of_it(db: brant.Database) -> None:
    queue = db.queue("ranged")
    ids = _written(queue)
    assert queue.peek(after=ids[1]) == "2"
    assert queue.read(after=ids[1]) == "2"
    assert queue.has_pending(after=ids[2])
    assert not queue.has_pending(after=ids[4])


def test_message_id_names_one_message_of_this_queue(db: brant.Database) -> None:
    queue, other = db.queue("mine"), db.queue("other")
    ids = _written(queue)
    elsewhere = other.write("elsewhere")
    assert queue.peek(message_id=ids[3]) == "3"
    assert queue.read(message_id=ids[3]) == "3"
    assert queue.read(message_id=ids[3]) is None
    assert queue.read(message_id=elsewhere) is None
    assert queue.peek(message_id=elsewhere) is None
    assert not queue.delete(message_id=elsewhere)
    assert queue.read_many(9) == ["0", "1", "2", "4"]


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    "call",
    [
        lambda q: q.read(message_id=1, after=1),
        lambda q: q.peek(message_id=1, before=1),
        lambda q: q.move("other", message_id=1, after=1),
        lambda q: q.read(message_id="x"),
        lambda q: q.read(after=1.5),
        lambda q: q.read_many(0),
        lambda q: q.peek_many(0),
        lambda q: q.move_many("other", 0),
        lambda q: q.read_many(2**63),
        lambda q: q.delete(message_id="x"),
    ],
)
def test_a_bad_choice_is_refused_and_nothing_is_taken(db: brant.Database, call: Callable[[brant.Queue], Any]) -> None:
    queue = db.queue("intact")
    queue.write("still here")
    with pytest.raises(brant.InvalidValue):
        call(queue)
    assert queue.peek_many() == ["still here"]


def test_move_keeps_the_id_and_so_the_place_by_age(db: brant.Database) -> None:
    source, destination = db.queue("source"), db.queue("destination")
    old = source.write("old")
    destination.write("there first")
    moved = source.move(destination)
    assert moved == "old"
    assert (moved.id, moved.queue) == (old, "destination")
    assert destination.read_many(2) == ["old", "there first"]
    assert source.read() is None


def test_move_many_moves_all_or_the_oldest_ones(db: brant.Database) -> None:
    source = db.queue("source")
    _written(source)
    assert source.move_many("target", 2) == ["0", "1"]
    assert source.move_many("target") == ["2", "3", "4"]
    assert source.move_many("target") == []
    assert db.queue("target").read_many(9) == ["0", "1", "2", "3", "4"]


def test_move_generator_moves_each_as_it_is_consumed(db: brant.Database) -> None:
    source = db.queue("source")
    _written(source)
    moving = source.move_generator("target")
    assert db.queue("target").peek() is None
    assert [next(moving), next(moving)] == ["0", "1"]
    assert source.peek_many() == ["2", "3", "4"]


@pytest.mark.guarantee("G18")
def test_a_moved_job_no_longer_holds_its_unique_key_in_the_queue_it_left(db: brant.Database) -> None:
    source = db.queue("source")
    moved = source.enqueue("moved", unique_key="key")
    source.move("other")
    added = source.enqueue("added", unique_key="key")
    assert added != moved
    db.queue("other").read()
    assert source.enqueue("again", unique_key="key") == added
    assert source.peek_many() == ["added"]


def test_a_message_that_was_read_can_not_be_moved(db: brant.Database) -> None:
    queue = db.queue("source")
    read = queue.write("read")
    queue.read()
    assert queue.move("other", message_id=read) is None


@pytest.mark.parametrize("destination", ["same", "", "bad name", "-x", "q\n", "a" * 513])
def test_move_refuses_the_same_queue_and_bad_names(db: brant.Database, destination: str) -> None:
    queue = db.queue("same")
    queue.write("stays")
    with pytest.raises(ValueError, match=r"cannot be the same|Invalid queue name"):
        queue.move(destination)
    assert queue.peek() == "stays"


@pytest.mark.parametrize("name", ["a b", "q\n", "é", ".hidden", "-dash", "_outbox:x", "a" * 513])
def test_write_refuses_a_name_that_a_shell_could_not_type(db: brant.Database, name: str) -> None:
    with pytest.raises(QueueNameError, match="Invalid queue name"):
        db.queue(name).write("never stored")
    assert db.list_queues() == []


@pytest.mark.parametrize("name", ["a", "0", "_x", "A.b-c_9", "a" * 512])
def test_names_that_a_shell_can_type_are_taken(db: brant.Database, name: str) -> None:
    db.queue(name).write("stored")
    assert [stats.queue for stats in db.list_queues()] == [name]


def test_delete_empties_the_queue_and_the_worker_learns_that_its_claim_is_lost(db: brant.Database) -> None:
    queue, other = db.queue("gone"), db.queue("other")
    _written(queue)
    other.write("untouched")
    job = queue.claim_one("worker")
    assert job is not None
    assert queue.delete()
    assert not queue.exists()
    assert not queue.delete()
    assert not job.ack()
    assert other.read() == "untouched"


def test_delete_by_id_removes_a_message_that_waits_too(db: brant.Database) -> None:
    queue = db.queue("picked")
    due, delayed = queue.write("due"), queue.enqueue("delayed", delay=60)
    assert queue.delete(message_id=delayed)
    assert queue.delete(message_id=due)
    assert not queue.delete(message_id=due)
    assert not queue.exists()


@pytest.mark.guarantee("G20")
def test_a_paused_queue_hands_out_no_message(db: brant.Database) -> None:
    queue = db.queue("paused")
    waiting = queue.write("held back")
    queue.pause()
    assert queue.read() is queue.read(message_id=waiting) is None
    assert queue.read_many(5) == [*queue.read_generator()] == [*queue.read_generator(at_least_once=True)] == []
    assert not queue.has_pending()
    assert queue.peek() == "held back"
    queue.resume()
    assert queue.read() == "held back"


@pytest.mark.guarantee("G1")
def test_verbs_take_part_in_the_callers_transaction(db: brant.Database, path: Path) -> None:
    queue = db.queue("joined")
    ids = _written(queue)
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        assert queue.read(tx=tx) == "0"
        assert queue.read_many(1, tx=tx) == ["1"]
        assert queue.move("other", tx=tx) == "2"
        queue.delete(message_id=ids[4], tx=tx)
        queue.write("never", tx=tx)
        raise ZeroDivisionError
    assert queue.peek_many() == ["0", "1", "2", "3", "4"]
    with plain_connection(path) as mine:
        assert queue.read(tx=mine.tx) == "0"
        mine.commit()
    assert queue.peek() == "1"
