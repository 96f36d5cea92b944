"""How many jobs of a key, or of a queue, run at once or start in a span of time; what becomes of those held back."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.limit import Limit
from brant.testing import FakeClock
from tests.plainly import plain_connection
from tests.waiting import PATIENCE_S, in_thread, line_of, python

pytestmark = pytest.mark.both_backends

ONE = Limit("user:7", max_running=1)


@pytest.fixture
def queue(timed: brant.Database) -> brant.Queue:
    return timed.queue("q")


def payloads(jobs: list[brant.Job]) -> list[Any]:
    return [job.payload for job in jobs]


def held_back(queue: brant.Queue, count: int = 1) -> list[int]:
    """Jobs that wait for the one that runs."""
    queue.enqueue("runs", limit=ONE)
    ids = queue.enqueue_many(range(count), limit=ONE)
    assert payloads(queue.claim_batch("w", count + 1, 1000)) == ["runs"]
    assert queue.claim_batch("w", 1) == []
    return ids


# Bad input


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "needs max_running, or max_starts"),
        ({"max_running": 0}, "max_running must be a whole number of at least 1"),
        ({"max_running": 1.5}, "max_running must be"),
        ({"max_starts": 5}, "belong together"),
        ({"per_s": 5}, "needs max_running, or max_starts"),
        ({"max_running": 1, "per_s": 5}, "belong together"),
        ({"max_starts": 0, "per_s": 5}, "max_starts must be"),
        ({"max_starts": 5, "per_s": 0}, "per_s must be a positive number"),
        ({"key": 7, "max_running": 1}, "key of a limit must be a text"),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(brant.InvalidValue, match=told):
        Limit(**settings)


@pytest.mark.guarantee("G19")
def test_a_job_is_limited_under_a_key_only(queue: brant.Queue) -> None:
    with pytest.raises(brant.InvalidValue, match="needs a key"):
        queue.enqueue(1, limit=Limit(max_running=1))
    with pytest.raises(brant.InvalidValue, match=r"must be a brant\.limit\.Limit"):
        queue.enqueue_many([1], limit=3)  # type: ignore[arg-type]
    assert queue.stats().pending == 0


@pytest.mark.guarantee("G19")
def test_a_queue_is_limited_without_a_key_only(queue: brant.Queue) -> None:
    with pytest.raises(brant.InvalidValue, match="takes no key, not 'user:7'"):
        queue.set_limit(ONE)
    assert queue.limits() == []


# Running


@pytest.mark.guarantee("G23")
def test_at_most_so_many_jobs_of_a_key_are_leased_at_a_time(queue: brant.Queue) -> None:
    queue.enqueue_many(range(5), limit=Limit("a", max_running=2))
    queue.enqueue("b", limit=Limit("b", max_running=1))
    queue.enqueue("free")
    first = queue.claim_batch("w", 10)
    assert payloads(first) == [0, 1, "b", "free"]
    assert queue.claim_batch("other", 10) == []
    first[1].ack()
    assert payloads(queue.claim_batch("other", 10)) == [2]


def test_keys_of_other_queues_are_others(timed: brant.Database) -> None:
    for name in ("q", "r"):
        timed.queue(name).enqueue(1, limit=ONE)
        assert timed.queue(name).claim_one("w") is not None


@pytest.mark.guarantee("G23")
def test_a_retried_job_is_limited_again(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue_many(["first", "second"], limit=ONE)
    [job] = queue.claim_batch("w", 2)
    job.retry(5, "again")
    [other] = queue.claim_batch("w", 2, 1000)
    assert other.payload == "second"
    clock.advance(6)
    assert queue.claim_batch("w", 2) == []
    other.ack()
    assert payloads(queue.claim_batch("w", 2)) == ["first"]


@pytest.mark.guarantee("G23")
def test_a_requeued_dead_letter_is_limited_again(queue: brant.Queue) -> None:
    [waiting] = held_back(queue)
    dead = queue.enqueue("dies", limit=ONE, max_attempts=0)
    queue.claim_one("w")
    assert queue.get_dead(dead) is not None
    queue.requeue_dead(dead)
    assert queue.claim_one("w") is None
    assert all(queue.get_job(job_id)["state"] == "pending" for job_id in (waiting, dead))  # type: ignore[index]


@pytest.mark.guarantee("G23")
def test_a_zombies_late_ack_frees_nothing(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue_many(range(3), limit=ONE)
    [zombie] = queue.claim_batch("zombie", 3, 10)
    clock.advance(11)
    [again] = queue.claim_batch("w", 3, 1000)
    assert again.id == zombie.id
    assert not zombie.ack()
    assert not zombie.heartbeat()
    assert queue.claim_batch("w", 3) == []


@pytest.mark.guarantee("G23")
def test_room_is_made_by_whoever_ends_the_job(queue: brant.Queue, path: Path) -> None:
    [waiting] = held_back(queue)
    with plain_connection(path) as plain:
        plain.execute("DELETE FROM _honker_live WHERE state = 'processing'")
        plain.commit()
    [job] = queue.claim_batch("w", 5)
    assert job.id == waiting


@pytest.mark.guarantee("G23")
def test_what_others_claim_takes_room(queue: brant.Queue, path: Path, clock: FakeClock) -> None:
    ids = queue.enqueue_many(range(2), limit=ONE)
    with plain_connection(path) as plain:
        plain.execute(
            "UPDATE _honker_live SET state = 'processing', worker_id = 'honker', claim_expires_at = ? WHERE id = ?",
            [int(clock.now()) + 60, ids[0]],
        )
        plain.commit()
    assert queue.claim_batch("w", 5) == []


def test_a_lower_limit_lets_what_runs_go_on(queue: brant.Queue) -> None:
    queue.enqueue_many(range(4), limit=Limit("k", max_running=3))
    running = queue.claim_batch("w", 3)
    queue.enqueue(4, limit=Limit("k", max_running=1))
    assert all(job.ack() for job in running[:2])
    assert queue.claim_batch("w", 5) == []
    assert running[2].ack()
    assert len(queue.claim_batch("w", 5)) == 1


# Starts


@pytest.mark.guarantee("G23")
def test_a_key_starts_no_more_than_so_many_in_any_window(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue_many(range(100), limit=Limit("api", max_starts=3, per_s=10))
    starts: list[float] = []
    while len(starts) < 30:
        for job in queue.claim_batch("w", 2):
            starts.append(clock.now())
            job.ack()
        clock.advance(0.75)
    assert all(later - earlier >= 10 for earlier, later in zip(starts, starts[3:], strict=False))
    assert max(later - earlier for earlier, later in zip(starts, starts[3:], strict=False)) < 11.5


def test_both_kinds_hold_together(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue_many(range(9), limit=Limit("k", max_running=1, max_starts=2, per_s=10))
    [first] = queue.claim_batch("w", 9, 1000)
    clock.advance(20)
    assert queue.claim_batch("w", 9) == []
    first.ack()
    [second] = queue.claim_batch("w", 9, 1000)
    second.ack()
    [third] = queue.claim_batch("w", 9, 1000)
    third.ack()
    assert queue.due_in() == 0
    assert queue.claim_batch("w", 9) == []
    assert queue.due_in() == 10


def test_a_key_that_comes_back_finds_its_starts_counted(queue: brant.Queue, clock: FakeClock) -> None:
    rated = Limit("api", max_starts=1, per_s=60)
    queue.enqueue(1, limit=rated)
    for job in queue.claim_batch("w", 1):
        job.ack()
    clock.advance(59.5)
    queue.enqueue(2, limit=rated)
    assert queue.claim_one("w") is None
    clock.advance(0.5)
    assert queue.claim_one("w") is not None


# The whole queue


@pytest.mark.guarantee("G23")
def test_a_queue_as_a_whole_can_be_limited(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue_many(range(9))
    whole = Limit(max_running=2, max_starts=3, per_s=60)
    queue.set_limit(whole)
    assert queue.limits() == [whole]
    first = queue.claim_batch("w", 9, 1000)
    assert len(first) == 2
    assert queue.due_in() == 1001
    assert [job.ack() for job in first] == [True, True]
    assert queue.due_in() == 0
    assert len(queue.claim_batch("w", 9, 1000)) == 1
    assert queue.due_in() == 60
    queue.set_limit(None)
    assert queue.limits() == []
    assert len(queue.claim_batch("w", 9)) == 6


def test_the_limit_of_a_queue_survives_its_jobs(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.set_limit(Limit(max_running=1))
    queue.enqueue(1)
    queue.delete()
    assert queue.limits() == [Limit(max_running=1)]


# Those who wait


def test_a_claim_in_another_process_begins_when_room_is_made(path: Path, db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many(["first", "second"], limit=ONE)
    [job] = queue.claim_batch("w", 2)
    waits = (
        "import sys, brant; print(next(iter(brant.open(sys.argv[1]).queue('q').claim('o', None))).payload, flush=True)"
    )
    with python(waits, path) as other:
        answer = in_thread(line_of, other)
        assert job.ack()
        assert answer.result(PATIENCE_S) == "second"


def test_who_waits_is_told_nothing_is_due_while_all_is_held_back(queue: brant.Queue, clock: FakeClock) -> None:
    held_back(queue, 3)
    assert queue.due_in() == 1001
    queue.enqueue("later", delay=5)
    assert queue.due_in() == 5


# Jobs that are held back


def test_a_job_that_is_held_back_shows_its_own_time(queue: brant.Queue, clock: FakeClock) -> None:
    [job_id] = held_back(queue)
    job = queue.get_job(job_id)
    assert job is not None
    assert (job["state"], job["run_at"]) == ("pending", clock.now())
    stats = queue.stats()
    assert (stats.pending, stats.delayed, stats.next_run_at) == (1, 1, None)


def test_a_job_that_is_held_back_can_be_cancelled_and_purged(queue: brant.Queue) -> None:
    first, *_ = held_back(queue, 3)
    assert queue.cancel(first)
    assert queue.delete()
    assert not queue.exists()
    assert queue.limits() == []


def test_a_job_that_is_held_back_expires(queue: brant.Queue, clock: FakeClock) -> None:
    held_back(queue)
    expiring = queue.enqueue("expires", limit=ONE, expires=10)
    assert queue.claim_one("w") is None
    assert queue.due_in() == 10
    clock.advance(10)
    assert queue.due_in() == 0
    assert queue.claim_one("w") is None
    dead = queue.get_dead(expiring)
    assert dead is not None
    assert (dead.last_error, dead.run_at) == ("expired", clock.now() - 10)


def test_one_that_expires_before_its_turn_blocks_nobody(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue("runs", limit=ONE)
    [running] = queue.claim_batch("w", 1, 1000)
    queue.enqueue("expires", limit=ONE, expires=10)
    queue.enqueue("waits", limit=ONE)
    assert queue.claim_one("w") is None
    running.ack()
    queue.pause()
    clock.advance(10)
    queue.resume()
    assert payloads(queue.claim_batch("w", 5)) == ["waits"]


@pytest.mark.parametrize("end", ["cancel", "read"])
def test_one_that_was_let_go_and_never_ran_leaves_its_room(queue: brant.Queue, end: str) -> None:
    chosen, last = held_back(queue, 2)
    queue.ack_batch([row["id"] for row in queue.db.query("SELECT id FROM _honker_live WHERE worker_id = 'w'")], "w")
    queue.enqueue("urgent", priority=9)
    assert payloads(queue.claim_batch("w", 1)) == ["urgent"]  # and lets the chosen one go
    assert queue.read(message_id=chosen) if end == "read" else queue.cancel(chosen)
    assert queue.due_in() == 0
    assert [job.id for job in queue.claim_batch("w", 5)] == [last]


def test_the_shell_takes_what_is_ready_and_not_what_is_held_back(queue: brant.Queue) -> None:
    held_back(queue)
    queue.enqueue("ready", limit=ONE)
    assert queue.peek() == queue.read() == "ready"
    assert queue.read() is None


def test_a_job_that_is_moved_leaves_its_limit(timed: brant.Database) -> None:
    queue = timed.queue("q")
    queue.enqueue_many(range(3), limit=ONE)
    assert len(queue.move_many("there", 3)) == 3
    assert len(timed.queue("there").claim_batch("w", 5)) == 3
    assert queue.limits() == []


@pytest.mark.guarantee("G23")
def test_a_loaded_dump_has_the_limits_too(queue: brant.Queue, tmp_path: Path, clock: FakeClock) -> None:
    held_back(queue, 2)
    with brant.open(tmp_path / "copy.db", clock=clock) as copy:
        copy.load(queue.db.dump())
        there = copy.queue("q")
        assert there.limits() == [ONE]
        assert there.claim_batch("w", 5) == []
        clock.advance(1001)
        assert len(there.claim_batch("w", 5)) == 1


@pytest.mark.guarantee("G1")
def test_a_limited_job_commits_with_its_transaction(queue: brant.Queue) -> None:
    with pytest.raises(ZeroDivisionError), queue.db.transaction() as tx:
        queue.enqueue(1, tx=tx, limit=ONE)
        raise ZeroDivisionError
    assert queue.limits() == []


def test_a_unique_job_that_is_there_already_adds_nothing(queue: brant.Queue) -> None:
    held = queue.enqueue(1, unique_key="k", limit=ONE)
    assert queue.enqueue(1, unique_key="k", limit=ONE) == held
    assert len(queue.claim_batch("w", 5)) == 1


def test_nothing_is_left_of_a_key_that_nobody_uses(queue: brant.Queue, clock: FakeClock) -> None:
    queue.enqueue_many(range(4), limit=Limit("k", max_running=1, max_starts=2, per_s=60))
    for _ in range(4):
        for job in queue.claim_batch("w", 4):
            job.ack()
        clock.advance(30)
    clock.advance(60)
    queue.db.vacuum()
    assert queue.limits() == []
    assert queue.db.query("SELECT 1 FROM _brant_starts UNION ALL SELECT 1 FROM _brant_limited") == []


# Files and dumps of earlier versions


@pytest.mark.files_only("no server has tables of an earlier version")
def test_a_file_of_an_earlier_version_gets_the_tables(path: Path) -> None:
    brant.open(path).close()
    with closing(sqlite3.connect(path)) as plain, plain:
        triggers = plain.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE '_brant_limit%'")
        for (name,) in triggers.fetchall():
            plain.execute(f"DROP TRIGGER {name}")
        for table in ("_brant_limits", "_brant_limited", "_brant_starts"):
            plain.execute(f"DROP TABLE {table}")
        plain.execute("UPDATE _brant_meta SET value = '1' WHERE key = 'schema_version'")
    with brant.open(path) as db:
        held_back(db.queue("q"))


def test_a_dump_that_knows_of_no_limits_is_loaded(timed: brant.Database, tmp_path: Path) -> None:
    timed.queue("q").enqueue(1)
    *lines, end = timed.dump()
    told = json.loads(end)
    for table in ("limits", "limited", "starts"):
        del told["counts"][table]
    with brant.open(tmp_path / "copy.db") as copy:
        copy.load([*lines, json.dumps(told)])
        assert copy.queue("q").stats().pending == 1
