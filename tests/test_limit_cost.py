"""A claim from a queue with limits costs the same whatever is held back: counted in steps of SQLite's machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import brant
from brant.limit import Limit
from brant.storage.sqlite.connection import SqliteSession
from brant.testing import FakeClock
from tests.test_claim_cost import Meter

pytestmark = pytest.mark.guarantee("G7")

ROWS = 5_000
MANY_KEYS = 2_000
MINE = Limit("mine", max_running=3)


@pytest.fixture
def meter(timed: brant.Database, path: Path, clock: FakeClock) -> Iterator[Meter]:
    meter = Meter(path, clock)
    yield meter
    meter.connection.close()


def refuse_all(queue: brant.Queue) -> None:
    """Pays for holding them back, once."""
    while queue.claim_batch("busy", 1, 10_000):
        pass


def held_back_of_one_key(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), limit=Limit("other", max_running=1), priority=5)
    refuse_all(queue)


def held_back_of_the_same_key(queue: brant.Queue) -> None:
    busy = Limit("mine", max_running=1)
    queue.enqueue_many(range(ROWS), limit=busy, priority=-5)
    refuse_all(queue)
    queue.enqueue("the next", limit=MINE)


def held_back_of_many_keys(queue: brant.Queue) -> None:
    with queue.db.transaction() as tx:
        for number in range(MANY_KEYS):
            queue.enqueue_many([1, 2], tx=tx, limit=Limit(f"user:{number}", max_running=1), priority=5)
    queue.claim_batch("busy", MANY_KEYS, 10_000)
    refuse_all(queue)


def many_starts(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), limit=Limit("api", max_starts=ROWS, per_s=3600), priority=5)
    queue.ack_batch([job.id for job in queue.claim_batch("busy", ROWS)], "busy")
    queue.enqueue("held back", limit=Limit("api", max_starts=ROWS, per_s=3600), priority=5)
    refuse_all(queue)


def many_starts_of_the_queue(queue: brant.Queue) -> None:
    queue.set_limit(Limit(max_starts=2 * ROWS, per_s=3600))
    queue.enqueue_many(range(ROWS), priority=5)
    queue.ack_batch([job.id for job in queue.claim_batch("busy", ROWS)], "busy")


def forgotten_keys(queue: brant.Queue) -> None:
    with queue.db.transaction() as tx:
        for number in range(MANY_KEYS):
            queue.enqueue(1, tx=tx, limit=Limit(f"user:{number}", max_starts=1, per_s=60), priority=5)
    queue.ack_batch([job.id for job in queue.claim_batch("busy", MANY_KEYS)], "busy")


CROWDS = [
    held_back_of_one_key,
    held_back_of_the_same_key,
    held_back_of_many_keys,
    many_starts,
    many_starts_of_the_queue,
    forgotten_keys,
]


@pytest.mark.parametrize("crowd", CROWDS, ids=lambda crowd: crowd.__name__)
def test_a_limited_claim_costs_the_same_beside_many_that_are_held_back(
    timed: brant.Database, meter: Meter, crowd: Callable[[brant.Queue], None]
) -> None:
    queue = timed.queue("q", max_wait_s=None)
    queue.set_limit(Limit(max_starts=100_000, per_s=3600))
    queue.enqueue_many(range(4), limit=MINE)
    queue.enqueue_many(range(100), limit=Limit("small", max_running=1), delay=60)
    meter.claim_and_ack()
    alone = meter.claim_and_ack()
    crowd(queue)
    queue.enqueue("one more", limit=MINE, priority=9)
    crowded = [meter.claim_and_ack()]
    queue.enqueue("another", limit=MINE, priority=9)
    crowded.append(meter.claim_and_ack())
    assert max(crowded) < 3 * alone


@pytest.mark.parametrize("crowd", CROWDS, ids=lambda crowd: crowd.__name__)
def test_a_look_at_a_limited_queue_costs_the_same_beside_many_that_are_held_back(
    timed: brant.Database, path: Path, clock: FakeClock, crowd: Callable[[brant.Queue], None]
) -> None:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    def look() -> int:
        nonlocal steps
        steps = 0
        with closing(sqlite3.connect(path)) as connection:
            session = SqliteSession(connection, clock)
            connection.set_progress_handler(count, 1)
            session.claimable("q")
        return steps

    queue = timed.queue("q", max_wait_s=None)
    queue.enqueue("mine", limit=MINE)
    alone = look()
    crowd(queue)
    assert 0 < look() < 2 * alone
