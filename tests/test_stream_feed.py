"""Subscribing to a stream: what is there, what is to come, and what a named consumer has done."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import brant
from brant.errors import DatabaseBusy
from brant.stream import EventFeed
from brant.testing import FakeClock
from tests.plainly import note_transactions
from tests.waiting import PATIENCE_S, in_thread, line_of, python, write_lock_held

pytestmark = pytest.mark.both_backends

PUBLISHES = """
import sys
import brant

stream = brant.open(sys.argv[1]).stream("s")
print("ready", flush=True)
for line in sys.stdin:
    stream.publish(line.strip())
"""

CONSUMES_AND_DIES = """
import os, signal, sys
import brant

feed = brant.open(sys.argv[1]).stream("s").subscribe("reader", save_every_n=2, save_every_s=0)
for event in feed:
    print(event.offset, flush=True)
    if event.offset == 6:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def _filled(db: brant.Database, count: int) -> brant.Stream:
    stream = db.stream("s")
    stream.publish_many(range(1, count + 1))
    return stream


def _take(feed: EventFeed, count: int) -> list[int]:
    return [event.offset for event in itertools.islice(feed, count)]


def _wait_until(db: brant.Database, condition: Callable[[], bool]) -> None:
    """Until it holds, which only a commit can bring about."""
    commits = db.update_events()
    while not condition():
        assert commits.wait(PATIENCE_S)


def test_without_a_name_everything_is_replayed_and_then_what_comes(db: brant.Database) -> None:
    stream = _filled(db, 2)
    with stream.subscribe() as feed:
        assert _take(feed, 2) == [1, 2]
        coming = in_thread(next, feed)
        stream.publish("new")
        assert coming.result(PATIENCE_S).payload == "new"


def test_a_replay_goes_through_all_pages_in_order(db: brant.Database) -> None:
    stream = _filled(db, 2500)
    with stream.subscribe() as feed:
        assert _take(feed, 2500) == list(range(1, 2501))


def test_a_task_gets_the_same(db: brant.Database) -> None:
    stream = _filled(db, 2)

    async def consume() -> list[object]:
        async with asyncio.timeout(PATIENCE_S), stream.subscribe() as feed:
            seen = [(await anext(feed)).payload, (await anext(feed)).payload]
            coming = asyncio.create_task(anext(feed))
            await asyncio.to_thread(stream.publish, "new")
            return [*seen, (await coming).payload]

    assert asyncio.run(consume()) == [1, 2, "new"]


@pytest.mark.parametrize(("from_offset", "expected"), [(None, [3, 4]), (0, [1, 2]), (1, [2, 3]), (3, [4])])
def test_from_offset_wins_over_the_saved_one(db: brant.Database, from_offset: int | None, expected: list[int]) -> None:
    stream = _filled(db, 4)
    stream.save_offset("c", 2)
    with stream.subscribe("c", from_offset=from_offset) as feed:
        assert _take(feed, len(expected)) == expected


def test_a_subscription_sees_only_its_topic(db: brant.Database) -> None:
    db.stream("other").publish("not mine")
    with db.stream("s").subscribe() as feed:
        db.stream("other").publish("not mine")
        db.stream("s").publish("mine")
        assert next(feed).payload == "mine"


@pytest.mark.parametrize(
    ("events", "save_every_n", "saved"),
    [(25, 10, 20), (12, 5, 10), (10, 10, 0), (11, 10, 10), (3, 1, 2), (25, 0, 0)],
)
def test_the_offset_is_saved_after_so_many_events(
    db: brant.Database, events: int, save_every_n: int, saved: int
) -> None:
    stream = _filled(db, events)
    feed = stream.subscribe("c", save_every_n=save_every_n, save_every_s=0)
    assert len(_take(feed, events)) == events
    assert stream.get_offset("c") == saved


def test_the_offset_is_saved_in_an_event_loop_too(db: brant.Database) -> None:
    stream = _filled(db, 25)

    async def consume() -> int:
        feed = stream.subscribe("c", save_every_n=10, save_every_s=0)
        for _ in range(25):
            await anext(feed)
        return stream.get_offset("c")

    assert asyncio.run(consume()) == 20


def test_the_offset_is_saved_after_so_much_time(timed: brant.Database, clock: FakeClock) -> None:
    stream = _filled(timed, 5)
    feed = stream.subscribe("c", save_every_n=0, save_every_s=10)
    _take(feed, 2)
    clock.advance(9)
    next(feed)
    assert stream.get_offset("c") == 0
    clock.advance(1)
    next(feed)
    assert stream.get_offset("c") == 3
    next(feed)
    assert stream.get_offset("c") == 3


def test_the_last_offset_is_saved_when_nothing_more_is_there(db: brant.Database) -> None:
    stream = _filled(db, 3)
    feed = stream.subscribe("c")
    _take(feed, 3)
    waiting = in_thread(next, feed, None)
    _wait_until(db, lambda: stream.get_offset("c") == 3)
    feed.close()
    assert waiting.result(PATIENCE_S) is None


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_close_saves_all_but_the_event_whose_successor_was_not_asked_for(db: brant.Database, taken: int) -> None:
    stream = _filled(db, 3)
    with stream.subscribe("c") as feed:
        _take(feed, taken)
    assert stream.get_offset("c") == max(taken - 1, 0)
    with stream.subscribe("c") as feed:
        assert next(feed).offset == max(taken, 1)


def test_nothing_is_saved_by_itself_with_both_thresholds_off(db: brant.Database) -> None:
    stream = _filled(db, 3)
    feed = stream.subscribe("c", save_every_n=0, save_every_s=0)
    assert _take(feed, 3) == [1, 2, 3]
    coming = in_thread(next, feed)
    stream.publish("asked for, so the feed was idle or is done")
    coming.result(PATIENCE_S)
    feed.close()
    assert stream.get_offset("c") == 0


@pytest.mark.guarantee("G11")
def test_a_save_that_fails_loses_no_event(path: Path) -> None:
    with brant.open(path, busy_timeout_ms=0) as db:
        stream = _filled(db, 5)
        feed = stream.subscribe("c", save_every_n=2, save_every_s=0)
        assert [next(feed).offset, next(feed).offset] == [1, 2]
        with write_lock_held(path):
            for _ in range(2):
                with pytest.raises(DatabaseBusy):
                    next(feed)
        assert stream.get_offset("c") == 0
        assert [next(feed).offset, next(feed).offset] == [3, 4]
        feed.close()
        assert stream.get_offset("c") == 3


@pytest.mark.guarantee("G11")
def test_a_save_that_fails_in_a_task_loses_no_event(path: Path) -> None:
    async def consume(stream: brant.Stream) -> list[int]:
        feed = stream.subscribe("c", save_every_n=1, save_every_s=0)
        first = await anext(feed)
        with write_lock_held(path), pytest.raises(DatabaseBusy):
            await anext(feed)
        return [first.offset, (await anext(feed)).offset]

    with brant.open(path, busy_timeout_ms=0) as db:
        assert asyncio.run(consume(_filled(db, 3))) == [1, 2]


def test_saving_does_not_block_the_event_loop(db: brant.Database) -> None:
    stream = _filled(db, 2)

    async def consume() -> int:
        feed = stream.subscribe("c", save_every_n=1, save_every_s=0)
        await anext(feed)
        locked, release = threading.Event(), threading.Event()

        def hold_the_writer() -> None:
            with db.transaction():
                locked.set()
                assert release.wait(PATIENCE_S)

        holder = in_thread(hold_the_writer)
        assert locked.wait(PATIENCE_S)
        second = asyncio.create_task(anext(feed))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        release.set()  # reached only if the loop is free while the save waits
        holder.result(PATIENCE_S)
        return (await second).offset

    assert asyncio.run(consume()) == 2


@pytest.mark.guarantee("G11")
def test_a_second_reader_of_the_same_name_never_takes_the_offset_back(db: brant.Database) -> None:
    stream = _filled(db, 6)
    slow = stream.subscribe("c", save_every_n=1, save_every_s=0)
    _take(slow, 2)
    fast = stream.subscribe("c", save_every_n=1, save_every_s=0)
    _take(fast, 5)
    fast_saved = stream.get_offset("c")
    _take(slow, 1)
    slow.close()
    assert stream.get_offset("c") == fast_saved == 5


@pytest.mark.guarantee("G11")
def test_after_a_crash_the_consumer_goes_on_and_nothing_is_skipped(path: Path) -> None:
    with brant.open(path) as db:
        stream = _filled(db, 8)
        with python(CONSUMES_AND_DIES, path) as crashed:
            seen, _ = crashed.communicate(timeout=PATIENCE_S)
            assert crashed.returncode == -signal.SIGKILL
        assert seen.split() == ["1", "2", "3", "4", "5", "6"]
        with stream.subscribe("reader") as feed:
            assert _take(feed, 4) == [5, 6, 7, 8]


@pytest.mark.guarantee("G9")
def test_a_publisher_in_another_process_wakes_the_subscriber(db: brant.Database, path: Path) -> None:
    with python(PUBLISHES, path) as publisher, db.stream("s").subscribe() as feed:
        assert line_of(publisher) == "ready"
        assert publisher.stdin is not None
        for text in ("one", "two"):
            coming = in_thread(next, feed)
            print(text, file=publisher.stdin, flush=True)
            assert coming.result(PATIENCE_S).payload == text


@pytest.mark.guarantee("G9")
def test_an_event_between_subscribing_and_the_first_step_is_seen(db: brant.Database) -> None:
    with db.stream("s").subscribe() as feed:
        db.stream("s").publish("in between")
        assert next(feed).payload == "in between"


@pytest.mark.guarantee("G8")
def test_a_wake_for_nothing_writes_nothing(timed: brant.Database, clock: FakeClock, path: Path) -> None:
    stream = _filled(timed, 1)
    feed = stream.subscribe("c")
    next(feed)
    coming = in_thread(next, feed)
    _wait_until(timed, lambda: stream.get_offset("c") == 1)
    begun = note_transactions(timed)
    for _ in range(5):
        clock.advance(0)
    with brant.open(path, clock=clock) as other:
        other.stream("s").publish(2)
    assert coming.result(PATIENCE_S).payload == 2
    assert begun == []


def test_a_step_that_is_cancelled_loses_nothing(db: brant.Database) -> None:
    stream = db.stream("s")

    async def consume() -> list[object]:
        async with asyncio.timeout(PATIENCE_S):
            feed = stream.subscribe("c")
            for _ in range(3):
                step = asyncio.create_task(anext(feed))
                await asyncio.sleep(0)
                step.cancel()
                await asyncio.wait({step})
            await asyncio.to_thread(stream.publish_many, [1, 2])
            return [(await anext(feed)).payload, (await anext(feed)).payload]

    assert asyncio.run(consume()) == [1, 2]


def test_closing_ends_a_thread_and_a_task_that_wait(db: brant.Database) -> None:
    feed = db.stream("s").subscribe()
    waiting = in_thread(list, feed)
    feed.close()
    assert waiting.result(PATIENCE_S) == []

    async def consume() -> list[object]:
        async with asyncio.timeout(PATIENCE_S):
            feed = db.stream("s").subscribe()
            asyncio.get_running_loop().call_soon(feed.close)
            return [event async for event in feed]

    assert asyncio.run(consume()) == []


def test_closing_the_database_ends_a_subscriber_with_an_error(path: Path) -> None:
    db = brant.open(path)
    waiting = in_thread(next, db.stream("s").subscribe())
    db.close()
    with pytest.raises(brant.BrantError, match="closed"):
        waiting.result(PATIENCE_S)


@pytest.mark.guarantee("G12")
def test_a_consumer_counts_for_pruning_from_its_first_look_on(db: brant.Database) -> None:
    stream = db.stream("s")
    stream.publish_many(range(3))
    with stream.subscribe(consumer="new") as feed:
        assert next(feed).payload == 0
        assert stream.prune(keep=0) == 0
        assert [next(feed).payload, next(feed).payload] == [1, 2]
