"""Limits under kill -9 and SIGSTOP: never more valid leases than allowed, and no room is lost or freed twice."""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import signal
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import brant
from brant.limit import Limit
from tests.faults.actors import Ledger
from tests.faults.limit_actors import LIMITS, TABLES, WHOLE, open_limited, work_within_limits
from tests.faults.test_kill import kill
from tests.waiting import PATIENCE_S, in_thread, line_of, python

KILLS = int(os.environ.get("BRANT_KILLS", "40"))
WORKERS = 4
LONGEST_PAUSE_S = 0.1
JOBS_OF_A_KEY = 30

ZOMBIE = """
import sys
import brant

job = brant.open(sys.argv[1]).queue("q").claim_one("zombie", 1)
print(job.id, flush=True)
sys.stdin.readline()
print(job.ack(), flush=True)
"""


def start_worker(path: Path, ledgers: Path) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["brant.opening", "tests.faults.limit_actors"])
    process = context.Process(target=work_within_limits, args=(path, ledgers), daemon=True)
    process.start()
    return process


def kill_at_random(path: Path, ledgers: Path, chance: random.Random) -> None:
    crew = [start_worker(path, ledgers) for _ in range(WORKERS)]
    try:
        for _ in range(KILLS):
            died = wait([process.sentinel for process in crew], chance.uniform(0, LONGEST_PAUSE_S))
            assert not died, "a worker died by itself"
            place = chance.randrange(WORKERS)
            kill(crew[place])
            crew[place] = start_worker(path, ledgers)
        wait_until_drained(path)
    finally:
        for process in crew:
            kill(process)


def wait_until_drained(path: Path) -> None:
    with brant.open(path) as db:
        queue, commits = db.queue("q"), db.update_events()
        done = in_thread(lambda: all(iter(lambda: queue.exists() and commits.wait(1) is not None, False)))
        done.result(2 * PATIENCE_S)


@pytest.mark.timeout(200)
@pytest.mark.guarantee("G23")
def test_limits_hold_and_no_room_is_lost_whatever_is_killed(path: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("BRANT_SEED") or secrets.randbits(32))
    print(f"again by BRANT_SEED={seed}")
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    queue = open_limited(path)
    with queue.db.transaction() as tx:
        for table in TABLES:
            tx.execute(table)
    queue.set_limit(WHOLE)
    for key, limit in LIMITS.items():
        queue.enqueue_many([key] * JOBS_OF_A_KEY, limit=limit)
    queue.enqueue_many(["free"] * JOBS_OF_A_KEY)
    kill_at_random(path, ledgers, random.Random(seed))
    assert Ledger.read(ledgers, "breaches") == []
    assert len(set(Ledger.read(ledgers, "settled"))) > 0
    for key, limit in LIMITS.items():
        assert_no_window_is_too_full(queue.db, key, limit)
    assert queue.db.query("SELECT 1 FROM _brant_limited") == []


def assert_no_window_is_too_full(db: brant.Database, key: str, limit: Limit) -> None:
    if limit.max_starts is None or limit.per_s is None:
        return
    starts = db.query("SELECT began, claimed FROM starts WHERE key = ? ORDER BY rowid", [key])
    assert len(starts) >= JOBS_OF_A_KEY
    for earlier, later in zip(starts, starts[limit.max_starts :], strict=False):
        assert later["claimed"] - earlier["began"] >= limit.per_s


@pytest.mark.guarantee("G23")
def test_a_zombies_slot_is_free_when_its_lease_ends_and_its_late_ack_frees_no_other(
    path: Path, db: brant.Database
) -> None:
    queue = db.queue("q")
    first, second = queue.enqueue_many([1, 2], limit=Limit("k", max_running=1))
    with python(ZOMBIE, path) as zombie:
        assert line_of(zombie) == str(first)
        os.kill(zombie.pid, signal.SIGSTOP)
        assert queue.claim_one("w") is None
        jobs = queue.claim("w")
        again = in_thread(next, jobs).result(PATIENCE_S)
        assert again.id == first
        os.kill(zombie.pid, signal.SIGCONT)
        assert zombie.stdin is not None
        zombie.stdin.write("\n")
        zombie.stdin.flush()
        assert line_of(zombie) == "False"
        assert queue.claim_batch("w", 5) == []
        assert again.ack()
        assert [job.id for job in queue.claim_batch("w", 5)] == [second]
        jobs.close()
