"""Schedulers that stand still, come back and die: each (schedule, due time) is enqueued once, by policy."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import Popen

import pytest

import brant
from brant.storage.schedules import MAX_MISSED_FIRES
from tests.cli.processes import running
from tests.waiting import PATIENCE_S, in_thread, line_of, python

LOCK = brant.Scheduler.LOCK_NAME
# Says when it leads, and how its leading ended.
LEADS = """
import asyncio, sys
import brant

def leads(scheduler):
    holder = scheduler.db.query("SELECT owner FROM _honker_locks WHERE name = ?", [scheduler.lock_name])
    return holder == [{"owner": scheduler._owner}]

async def main(scheduler):
    scheduler.lock_ttl, scheduler.heartbeat_interval = float(sys.argv[2]), float(sys.argv[2]) / 3
    while True:
        running = asyncio.create_task(scheduler.run())
        while not running.done() and not leads(scheduler):
            await asyncio.sleep(0.02)
        if not running.done():
            print("leads", flush=True)
        try:
            await running
        except brant.LockHeld:
            await asyncio.sleep(0.1)
        except brant.LeadershipLost:
            print("lost", flush=True)

asyncio.run(main(brant.open(sys.argv[1]).scheduler()))
"""
# What each step of the schedule has enqueued, told by the database itself.
NOTES_STEPS = """
CREATE TRIGGER note_steps AFTER UPDATE OF next_fire_at ON _honker_scheduler_tasks BEGIN
    INSERT INTO steps VALUES (old.name, old.next_fire_at, new.next_fire_at, (SELECT count(*) FROM _honker_live));
END
"""
TEN_MINUTES = 600


def wait_until(db: brant.Database, condition: Callable[[], bool]) -> None:
    with closing(db.update_events()) as commits:
        while not condition():
            assert commits.wait(PATIENCE_S), "nothing happens"


def note_steps(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE steps (name, from_due, to_due, jobs)")
        tx.execute(NOTES_STEPS)


def jobs(db: brant.Database, queue: str = "q") -> int:
    return db.queue(queue).stats().pending


def steps(db: brant.Database) -> list[tuple[int, int, int]]:
    return [
        (row["from_due"], row["to_due"], row["jobs"])
        for row in db.query("SELECT from_due, to_due, jobs FROM steps ORDER BY rowid")
    ]


def stop(db: brant.Database, process: Popen[str]) -> None:
    """While nobody else is in a transaction: one that was stopped in the middle of it would keep the write lock."""
    with db.transaction():
        process.send_signal(signal.SIGSTOP)
        in_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT).result(PATIENCE_S)


def let_pass(db: brant.Database, seconds: int) -> None:
    """As if the schedules had been due for so much longer."""
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_scheduler_tasks SET next_fire_at = next_fire_at - ?", [seconds])


@pytest.mark.guarantee("G13")
@pytest.mark.parametrize(
    ("policy", "period_s", "made_up_for"),
    [("all", 100, 6), ("all", 1, MAX_MISSED_FIRES), ("one", 100, 1), ("one", 1, 1), ("skip", 1100, 0)],
)
def test_a_scheduler_that_stood_still_makes_up_for_what_the_policy_says(
    path: Path, db: brant.Database, policy: str, period_s: int, made_up_for: int
) -> None:
    db.scheduler().add(name="n", queue="q", schedule=f"@every {period_s}s", missed=policy)  # type: ignore[arg-type]
    note_steps(db)
    with python(LEADS, path, 3600) as scheduler:
        assert line_of(scheduler) == "leads"
        stop(db, scheduler)
        before = jobs(db)
        # In the middle of a period of 1100 s, 100 s late: too late to count as on time.
        let_pass(db, TEN_MINUTES if period_s != 1100 else 1200)
        due = db.scheduler().schedules()[0].next_fire_at
        scheduler.send_signal(signal.SIGCONT)
        wait_until(db, lambda: any(step[0] == due for step in steps(db)))
    (after,) = [jobs_then for from_due, _, jobs_then in steps(db) if from_due == due]
    assert after - before == made_up_for


@pytest.mark.guarantee("G15")
def test_of_two_leaders_the_one_that_stood_still_notices_and_each_time_is_enqueued_once(
    path: Path, db: brant.Database
) -> None:
    db.scheduler().add(name="tick", queue="q", schedule=brant.every_s(1), missed="all")
    note_steps(db)
    with python(LEADS, path, 1) as first:
        assert line_of(first) == "leads"
        wait_until(db, lambda: jobs(db) >= 1)
        stop(db, first)
        with python(LEADS, path, 1) as second:
            assert line_of(second) == "leads"
            so_far = jobs(db)
            wait_until(db, lambda: jobs(db) > so_far)
            first.send_signal(signal.SIGCONT)
            assert line_of(first) == "lost"
            so_far = jobs(db)
            wait_until(db, lambda: jobs(db) > so_far + 1)
    assert_contiguous(steps(db))


def assert_contiguous(steps: list[tuple[int, int, int]]) -> None:
    """Each step begins where the one before ended, and brought a job for each second in between."""
    due, jobs = steps[0][0], 0
    for from_due, to_due, jobs_then in steps:
        assert from_due == due
        assert jobs_then - jobs == to_due - from_due
        due, jobs = to_due, jobs_then


APP = """
import brant
db = brant.open("app.db")
db.queue("q").task("nothing")(lambda: None)
"""


@pytest.mark.guarantee("G15")
def test_a_killed_worker_is_replaced_as_the_leader_well_before_a_minute(tmp_path: Path, db: brant.Database) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    db.scheduler().add(name="tick", queue="other", schedule=brant.every_s(1))
    with running(tmp_path, "worker", "app:db") as leader:
        wait_until(db, lambda: jobs(db, "other") > 0)
        (lock,) = db.query("SELECT owner, expires_at - unixepoch() AS left FROM _honker_locks WHERE name = ?", [LOCK])
        leader.process.kill()
    assert lock["left"] <= 30
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_locks SET expires_at = 1")  # its time is over
    with running(tmp_path, "worker", "app:db"):
        wait_until(db, lambda: owner(db) != lock["owner"])
        so_far = jobs(db, "other")
        wait_until(db, lambda: jobs(db, "other") > so_far)


def owner(db: brant.Database) -> str | None:
    found = db.query("SELECT owner FROM _honker_locks WHERE name = ?", [LOCK])
    return found[0]["owner"] if found else None


def test_two_hundred_schedules_of_the_same_second_fire_once_each(path: Path, db: brant.Database) -> None:
    names = {f"schedule-{number}" for number in range(200)}
    for name in names:
        db.scheduler().add(name=name, queue="q", schedule="@every 1000s", payload=name)
    with python(LEADS, path, 3600), python(LEADS, path, 3600), python(LEADS, path, 3600) as last:
        let_pass(db, 1000)
        wait_until(db, lambda: jobs(db) >= len(names))
        last.kill()
    fired = Counter(message.payload for message in db.queue("q").peek_generator())
    assert fired == Counter(names)
