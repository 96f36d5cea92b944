"""Taking messages one after the other, at most once or at least once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock

pytestmark = pytest.mark.both_backends

KILLED_MID_BATCH = """
import os, signal, sys
import brant

queue = brant.open(sys.argv[1]).queue("work")
for message in queue.read_generator(at_least_once=True, lease_s=float(sys.argv[2])):
    print(message, flush=True)
    if message == "1":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def _filled(db: brant.Database, count: int = 5) -> brant.Queue:
    queue = db.queue("work")
    queue.enqueue_many([str(n) for n in range(count)])
    return queue


def _rows(db: brant.Database) -> list[tuple[str, str, int]]:
    rows = db.query("SELECT payload, state, attempts FROM _honker_live ORDER BY id")
    return [(row["payload"].strip('"'), row["state"], row["attempts"]) for row in rows]


def test_the_default_takes_one_at_a_time(db: brant.Database) -> None:
    queue = _filled(db)
    reading = queue.read_generator()
    assert queue.stats().pending == 5
    assert next(reading) == "0"
    assert [row[0] for row in _rows(db)] == ["1", "2", "3", "4"]
    assert [*reading] == ["1", "2", "3", "4"]


def test_the_default_also_takes_what_comes_while_it_runs(db: brant.Database) -> None:
    queue = _filled(db, 1)
    reading = queue.read_generator()
    next(reading)
    queue.write("late")
    assert [*reading] == ["late"]
    assert [*reading] == []


def test_a_message_read_by_default_is_gone_even_if_the_reader_stops(db: brant.Database) -> None:
    queue = _filled(db)
    for _ in queue.read_generator():
        break
    assert queue.peek_many() == ["1", "2", "3", "4"]


def test_at_least_once_gives_all_batch_by_batch_and_leaves_nothing(db: brant.Database) -> None:
    queue = _filled(db, 25)
    assert [*queue.read_generator(at_least_once=True, batch_size=10)] == [str(n) for n in range(25)]
    assert not queue.exists()
    assert queue.list_dead() == []


def test_at_least_once_leases_a_batch_and_removes_it_when_it_is_consumed(db: brant.Database) -> None:
    queue = _filled(db)
    reading = queue.read_generator(at_least_once=True, batch_size=3)
    assert [next(reading) for _ in range(3)] == ["0", "1", "2"]
    assert _rows(db)[:3] == [("0", "processing", 1), ("1", "processing", 1), ("2", "processing", 1)]
    assert next(reading) == "3"
    assert _rows(db) == [("3", "processing", 1), ("4", "processing", 1)]


def _stop_by_close(reading: Iterator[brant.Message]) -> None:
    reading.close()  # type: ignore[attr-defined]


def _stop_by_an_error(reading: Iterator[brant.Message]) -> None:
    with pytest.raises(ZeroDivisionError):
        reading.throw(ZeroDivisionError)  # type: ignore[attr-defined]


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("stop", [_stop_by_close, _stop_by_an_error])
def test_stopping_early_gives_back_at_once_what_was_not_consumed(
    db: brant.Database, stop: Callable[[Iterator[brant.Message]], None]
) -> None:
    queue = _filled(db)
    reading = queue.read_generator(at_least_once=True)
    assert [next(reading) for _ in range(3)] == ["0", "1", "2"]
    stop(reading)
    # Whether "2" was dealt with nobody knows, so it comes back; no attempt is counted for any.
    assert [(text, state) for text, state, _ in _rows(db)] == [("2", "pending"), ("3", "pending"), ("4", "pending")]
    left = db.query("SELECT max_attempts - attempts AS left FROM _honker_live")
    assert left == [{"left": 3}] * 3
    assert queue.read_many(9) == ["2", "3", "4"]


def test_leaving_the_loop_gives_back_at_once(db: brant.Database) -> None:
    queue = _filled(db)
    for message in queue.read_generator(at_least_once=True):
        if message == "1":
            break
    assert queue.peek_many() == ["1", "2", "3", "4"]


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("lease_s", [30, 0.5])
def test_after_a_crash_the_batch_comes_back_when_the_lease_is_over(path: Path, lease_s: float) -> None:
    with brant.open(path) as db:
        _filled(db)
    crashed = subprocess.run(
        [sys.executable, "-c", KILLED_MID_BATCH, str(path), str(lease_s)], capture_output=True, text=True, check=False
    )
    assert (crashed.stdout, crashed.returncode) == ("0\n1\n", -9)
    with brant.open(path) as db:
        lease_end = db.query("SELECT max(claim_expires_at) AS at FROM _honker_live")[0]["at"]
    with brant.open(path, clock=FakeClock(lease_end)) as during:
        assert [*during.queue("work").read_generator()] == []
    with brant.open(path, clock=FakeClock(lease_end + 1)) as later:
        assert [*later.queue("work").read_generator()] == ["0", "1", "2", "3", "4"]


@pytest.mark.guarantee("G8")
def test_others_write_and_read_while_a_batch_is_consumed(db: brant.Database, path: Path) -> None:
    queue = _filled(db, 2)
    reading = queue.read_generator(at_least_once=True)
    assert next(reading) == "0"
    queue.write("by the same Database")
    with brant.open(path, busy_timeout_ms=0) as other:
        other.queue("work").write("by another")
        assert other.queue("work").read() == "by the same Database"
    assert [*reading] == ["1", "by another"]


def test_two_readers_share_the_messages(db: brant.Database) -> None:
    queue = _filled(db, 8)
    one = queue.read_generator(at_least_once=True, batch_size=2)
    two = queue.read_generator(at_least_once=True, batch_size=2)
    taken: list[str] = []
    while len(taken) < 8:
        taken += [next(one), next(two)]
    assert sorted(taken, key=int) == [str(n) for n in range(8)]
    assert [*one] == [*two] == []
    assert not queue.exists()


def test_a_reader_slower_than_its_lease_does_not_remove_what_another_has_taken(
    timed: brant.Database, clock: FakeClock
) -> None:
    queue = _filled(timed, 1)
    slow = queue.read_generator(at_least_once=True, lease_s=5)
    assert next(slow) == "0"
    clock.advance(10)
    job = queue.claim_one("another")
    assert job is not None
    assert [*slow] == []
    assert job.ack()


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    "options",
    [{"after": 1}, {"before": 1}, {"batch_size": 0}, {"batch_size": 1.5}, {"lease_s": 0}, {"lease_s": -1}],
)
def test_bad_options_are_refused_at_the_call(db: brant.Database, options: dict[str, Any]) -> None:
    with pytest.raises(brant.InvalidValue):
        db.queue("work").read_generator(at_least_once=True, **options)


@pytest.mark.guarantee("G4")
def test_a_batch_that_takes_longer_than_its_lease_stays_with_its_reader(
    timed: brant.Database, clock: FakeClock
) -> None:
    queue = _filled(timed)
    seen = []
    for message in queue.read_generator(at_least_once=True, lease_s=30):
        seen.append(message)
        clock.advance(20)
        assert queue.read() is None
    assert seen == ["0", "1", "2", "3", "4"]
    assert not queue.exists()
