"""The cost of a claim does not grow with what else is in the queue: counted in steps of SQLite's machine."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock

pytestmark = pytest.mark.guarantee("G7")

ROWS = 5_000


class Meter:
    """A connection of the user's own, with the SQL functions on it and a counter of SQLite's steps."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        brant.attach(self.connection, clock)
        self.steps = 0
        self.connection.set_progress_handler(self._count, 1)

    def _count(self) -> int:
        self.steps += 1
        return 0

    def claim_and_ack(self) -> int:
        """The steps of one claim of one job and its ack."""
        self.steps = 0
        self.connection.execute("BEGIN IMMEDIATE")
        [text] = self.connection.execute("SELECT honker_claim_batch('q', 'w', 1, 60)").fetchone()
        [job] = json.loads(text)
        self.connection.execute("SELECT honker_ack(?, 'w')", [job["id"]]).fetchone()
        self.connection.execute("COMMIT")
        return self.steps


@pytest.fixture
def meter(timed: brant.Database, path: Path, clock: FakeClock) -> Iterator[Meter]:
    meter = Meter(path, clock)
    yield meter
    meter.connection.close()


def ready(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS))


def ready_of_lower_priority(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), priority=-5)


def delayed(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), delay=3600)


def delayed_of_higher_priority(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), delay=3600, priority=5)


def in_flight(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), priority=5)
    queue.claim_batch("busy", ROWS, lease_s=3600)


def in_flight_on_their_last_attempt(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), priority=5, max_attempts=1)
    queue.claim_batch("busy", ROWS, lease_s=3600)


def dead(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), max_attempts=0, priority=5)
    queue.claim_one("w")
    assert queue.stats().dead == ROWS


def expired(queue: brant.Queue) -> None:
    queue.enqueue_many(range(ROWS), expires=0, priority=5)
    queue.claim_one("w")


def in_another_queue(queue: brant.Queue) -> None:
    queue.db.queue("other").enqueue_many(range(ROWS))


CROWDS = [
    ready,
    ready_of_lower_priority,
    delayed,
    delayed_of_higher_priority,
    in_flight,
    in_flight_on_their_last_attempt,
    dead,
    expired,
    in_another_queue,
]


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("crowd", CROWDS, ids=lambda crowd: crowd.__name__)
def test_a_claim_costs_the_same_beside_many_other_rows(
    timed: brant.Database, meter: Meter, crowd: Callable[[brant.Queue], None], is_analyzed: bool
) -> None:
    queue = timed.queue("q")
    queue.enqueue_many(range(4))
    meter.claim_and_ack()
    alone = meter.claim_and_ack()
    crowd(queue)
    queue.enqueue("one more")
    if is_analyzed:
        with timed.transaction() as tx:
            tx.execute("ANALYZE")
    crowded = meter.claim_and_ack()
    assert alone > 0
    assert crowded < 2 * alone


def test_the_meter_sees_a_walk_over_the_crowd(timed: brant.Database, meter: Meter) -> None:
    queue = timed.queue("q")
    queue.enqueue_many(range(4))
    alone = meter.claim_and_ack()
    ready(queue)
    meter.steps = 0
    meter.connection.execute("SELECT max(payload) FROM _honker_live").fetchone()
    assert meter.steps > 10 * alone
