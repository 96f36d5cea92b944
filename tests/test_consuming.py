"""Taking messages as a block consumes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import brant
from brant.errors import InvalidValue


@pytest.fixture
def queue(db: brant.Database) -> brant.Queue:
    queue = db.queue("work")
    queue.write_many(["a", "b", "c", "d"])
    return queue


def test_what_is_consumed_is_gone_after_the_block(db: brant.Database, queue: brant.Queue) -> None:
    with queue.consuming(3) as messages:
        assert [*messages] == ["a", "b", "c"]
        assert queue.peek_many() == ["a", "b", "c", "d"], "others see none of it before the end"
    assert queue.peek_many() == ["d"]


def test_the_message_in_hand_and_the_rest_stay(queue: brant.Queue) -> None:
    with queue.consuming(4) as messages:
        for message in messages:
            if message == "c":
                break
    assert queue.peek_many() == ["c", "d"]


def test_a_block_that_raises_has_consumed_what_it_has_passed(queue: brant.Queue) -> None:
    with pytest.raises(ZeroDivisionError), queue.consuming(4) as messages:
        for message in messages:
            assert message != "c" or 1 / 0
    assert queue.peek_many() == ["c", "d"]


def test_a_block_that_raises_at_its_end_has_consumed_all(queue: brant.Queue) -> None:
    with pytest.raises(ZeroDivisionError), queue.consuming(4) as messages:
        assert len([*messages]) == 4
        _ = 1 / 0
    assert not queue.exists()


def test_a_block_that_takes_nothing_leaves_all(queue: brant.Queue) -> None:
    with queue.consuming(4):
        pass
    assert queue.peek_many() == ["a", "b", "c", "d"]


def test_by_id_and_by_range(queue: brant.Queue) -> None:
    ids = [message.id for message in queue.peek_many()]
    with queue.consuming(message_id=ids[2]) as messages:
        assert [(message, message.id) for message in messages] == [("c", ids[2])]
    with queue.consuming(9, after=ids[0], before=ids[3]) as messages:
        assert [*messages] == ["b"]
    with pytest.raises(InvalidValue, match="can't be combined"), queue.consuming(message_id=1, after=1):
        raise AssertionError
    with pytest.raises(InvalidValue, match="limit must be"), queue.consuming(0):
        raise AssertionError
    assert queue.peek_many() == ["a", "d"]


def test_nothing_comes_from_an_empty_or_paused_queue(db: brant.Database, queue: brant.Queue) -> None:
    queue.pause()
    for name in ("work", "empty"):
        with db.queue(name).consuming(4) as messages:
            assert [*messages] == []
    assert queue.stats().pending == 4


def test_events_tell_of_the_consumed_ones_only(db: brant.Database, queue: brant.Queue) -> None:
    queue.record_events()
    with queue.consuming(4) as messages:
        next(messages)
        next(messages)
    completed = [event.payload for event in db.job_events().read() if event.payload["event"] == "completed"]
    assert len(completed) == 1
    assert queue.peek_many() == ["b", "c", "d"]


def test_jobs_with_priorities_and_attempts_keep_them(db: brant.Database, queue: brant.Queue) -> None:
    job = queue.claim_one("w")
    assert job is not None
    job.retry(0, "again")
    before = db.query("SELECT * FROM _honker_live ORDER BY id")
    with queue.consuming(4):
        pass
    assert db.query("SELECT * FROM _honker_live ORDER BY id") == before


def test_no_other_writer_comes_between(db: brant.Database, queue: brant.Queue) -> None:
    def consume() -> Iterator[str]:
        with queue.consuming(2) as messages:
            yield from messages

    both = consume()
    assert next(both) == "a"
    with pytest.raises(brant.BrantError, match="nested"):
        queue.write("late")
    assert [*both] == ["b"]
    queue.write("late")
    assert queue.peek_many() == ["c", "d", "late"]
