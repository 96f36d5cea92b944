"""kill -9 at random moments: nothing that was confirmed is lost, and nothing happens twice that must happen once."""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock, drain
from tests.faults.actors import TABLES, Ledger, produce, work_at_least_once, work_exactly_once
from tests.waiting import PATIENCE_S, line_of, python

KILLS = int(os.environ.get("BRANT_KILLS", "100"))
LONGEST_PAUSE_S = 0.04
CREW = (produce, produce, produce, work_exactly_once, work_exactly_once, work_at_least_once)
Actor = Callable[[Path, Path], None]


def crew_of(path: Path, ledgers: Path) -> Callable[[Actor], BaseProcess]:
    # A server that has imported everything forks them: they are processes of their own, and start at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["brant.opening", "tests.faults.actors"])

    def start(actor: Actor) -> BaseProcess:
        process = context.Process(target=actor, args=(path, ledgers), daemon=True)
        process.start()
        return process

    return start


def kill_at_random(chance: random.Random, start: Callable[[Actor], BaseProcess]) -> None:
    crew = {place: start(actor) for place, actor in enumerate(CREW)}
    try:
        for _ in range(KILLS):
            died = wait([process.sentinel for process in crew.values()], chance.uniform(0, LONGEST_PAUSE_S))
            assert not died, [process for process in crew.values() if process.sentinel in died]
            place = chance.randrange(len(CREW))
            kill(crew[place])
            crew[place] = start(CREW[place])
    finally:
        for process in crew.values():
            kill(process)


def kill(process: BaseProcess) -> None:
    process.kill()
    process.join(PATIENCE_S)
    process.close()


def names(db: brant.Database, sql: str) -> Counter[str]:
    return Counter(row["name"] for row in db.query(sql))


def live_and_dead(db: brant.Database, queue: str) -> Counter[str]:
    rows = db.query(
        "SELECT payload FROM _honker_live WHERE queue = ? UNION ALL SELECT payload FROM _honker_dead WHERE queue = ?",
        [queue, queue],
    )
    return Counter(row["payload"].strip('"').split()[0] for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.guarantee("G2")
@pytest.mark.guarantee("G3")
def test_nothing_is_lost_or_done_twice_by_hundreds_of_kills(path: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("BRANT_SEED") or secrets.randbits(32))
    print(f"again by BRANT_SEED={seed}")
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    with brant.open(path) as db, db.transaction() as tx:
        for table in TABLES:
            tx.execute(table)
    kill_at_random(random.Random(seed), crew_of(path, ledgers))

    committed, started = Ledger.read(ledgers, "committed"), set(Ledger.read(ledgers, "started"))
    settled = {int(line) for line in Ledger.read(ledgers, "settled")}
    an_hour_later = FakeClock(time.time() + 3600)
    with brant.open(path, clock=an_hour_later) as db:
        assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        orders, effects = names(db, "SELECT name FROM orders"), names(db, "SELECT name FROM effects")
        exact, plain = live_and_dead(db, "exact"), live_and_dead(db, "plain")

        assert set(committed) <= set(orders)
        assert orders == Counter(event.payload for event in db.stream("orders").read(limit=-1))
        assert effects + exact == orders
        assert set(orders) <= started | set(plain)
        assert not settled & {row["id"] for row in db.query("SELECT id FROM _honker_live")}

        for name in ("exact", "plain"):
            db.queue(name, visibility_timeout_s=1, max_attempts=4)
        drain(db.queue("exact"), lambda job: effects.update([job.payload]))
        drain(db.queue("plain"), lambda job: started.add(job.payload.split()[0]))
        letters = [*db.queue("exact").list_dead(10_000), *db.queue("plain").list_dead(10_000)]
        assert effects + live_and_dead(db, "exact") == orders
        assert set(orders) <= started | set(live_and_dead(db, "plain"))
        assert {letter.last_error for letter in letters} <= {"max attempts exceeded"}
    print(f"{len(committed)} orders committed, {len(settled)} jobs settled, {len(letters)} dead letters")
    assert len(committed) > KILLS


COMMITS = """
import sys
import brant
db = brant.open(sys.argv[1])
queue = db.queue("q")
with db.transaction() as tx:
    tx.execute("CREATE TABLE orders (id)")
    job_id = queue.enqueue("job", tx=tx)
    queue.save_result(7, "answer", tx=tx)
    if sys.argv[2] == "before":
        print(job_id, flush=True)
        sys.stdin.read()
print(job_id, flush=True)
sys.stdin.read()
"""


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize(("moment", "jobs"), [("before", 0), ("after", 1)])
def test_a_producer_killed_around_its_commit_leaves_all_or_nothing(path: Path, moment: str, jobs: int) -> None:
    with python(COMMITS, path, moment) as process:
        job_id = int(line_of(process))
        process.kill()
        process.wait(PATIENCE_S)
    with brant.open(path) as db:
        queue = db.queue("q")
        assert [message.id for message in queue.peek_many()] == [job_id] * jobs
        assert queue.get_result(7)[0] is bool(jobs)
        assert len(db.query("SELECT * FROM sqlite_schema WHERE name = 'orders'")) == jobs
        assert queue.enqueue("the next writer does not wait") > 0


WORKS = """
import sys
import brant
db = brant.open(sys.argv[1])
job = db.queue("q").claim_one("w")
with job.transaction() as tx:
    tx.execute("INSERT INTO effects VALUES (1)")
    if sys.argv[2] == "before":
        print("in the middle", flush=True)
        sys.stdin.read()
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.guarantee("G3")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_effects_of_a_killed_worker_happen_once(path: Path, moment: str) -> None:
    with brant.open(path) as db:
        with db.transaction() as tx:
            tx.execute("CREATE TABLE effects (n)")
        db.queue("q").enqueue("job")
        with python(WORKS, path, moment) as process:
            line_of(process)
            process.kill()
            process.wait(PATIENCE_S)
    with brant.open(path, clock=FakeClock(time.time() + 3600)) as db:
        for job in db.queue("q").claim_batch("again", 9):
            with job.transaction() as tx:
                tx.execute("INSERT INTO effects VALUES (1)")
        assert db.query("SELECT count(*) AS n FROM effects") == [{"n": 1}]
        assert db.queue("q").stats().total == 0
