"""Tasks by the clock: any running worker fires them, one of them at a time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from brant.worker import current_task
from tests.waiting import PATIENCE_S, line_of, python
from tests.worker.observing import running

pytestmark = pytest.mark.both_backends


def test_a_periodic_task_runs_at_each_due_time(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q")
    ran = []

    @q.periodic_task("@every 20s", name="tidy", retries=2)
    def tidy() -> None:
        ran.append(clock.now())

    with running(timed, scheduler=True) as crew:
        for runs in (1, 2, 3):
            clock.advance(20)  # less than the lock of the scheduler holds, which is taken anew after a while only
            crew.wait("success", runs)
    assert ran == [1_700_000_020, 1_700_000_040, 1_700_000_060]
    assert q.stats().total == 0


def test_a_periodic_task_keeps_its_own_attempts(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q", max_attempts=9)
    attempts = []

    @q.periodic_task("@every 60s", name="breaks", retries=2, retry_delay_s=0)
    def breaks() -> None:
        attempts.append(current_task().attempt)
        raise ValueError("no good")

    with running(timed, scheduler=True) as crew:
        clock.advance(60)
        crew.wait("dead")
    assert attempts == [1, 2]
    assert [str(letter.last_error).partition("\n")[0] for letter in q.list_dead()] == ["no good"]


def test_starting_again_does_not_put_off_what_is_due(path: Path) -> None:
    clock = FakeClock()
    ran = []

    def start() -> brant.Database:
        db = brant.open(path, clock=clock)
        db.periodic_task("@every 60s", "q", name="tidy")(tidy)
        return db

    def tidy() -> None:
        ran.append(1)

    with start():
        clock.advance(40)
    with start() as db, running(db, scheduler=True) as crew:
        clock.advance(20)
        crew.wait("success")
    assert ran == [1]


def test_a_schedule_that_is_added_later_is_fired_too(timed: brant.Database, clock: FakeClock) -> None:
    q = timed.queue("q")
    q.task("tidy", store_result=False)(lambda: None)
    with running(timed, scheduler=True) as crew:
        timed.scheduler().add(
            name="late", queue="q", schedule="@every 60s", payload={"__honker_task__": {"task": "tidy"}}
        )
        clock.advance(60)
        crew.wait("success")


LEADS = """
import sys
import brant
db = brant.open(sys.argv[1])

@db.queue("q").periodic_task("@every 1s", name="tidy")
def tidy():
    print("fired", flush=True)

db.run_workers_sync()
"""


def test_a_standby_takes_over_when_the_leader_is_killed(path: Path) -> None:
    clock = FakeClock(time.time())
    with brant.open(path, clock=clock) as db, python(LEADS, path) as leader:
        assert line_of(leader) == "fired"
        fired = []
        db.queue("q").periodic_task("@every 1s", name="tidy")(lambda: fired.append(1))
        with running(db, "elsewhere", scheduler=True):
            assert line_of(leader) == "fired"
            leader.kill()
            leader.wait(PATIENCE_S)
            holder = db.query("SELECT owner FROM _honker_locks WHERE name = 'honker-scheduler'")
            before = {row["id"] for row in db.query("SELECT id FROM _honker_live")}
            changes = db.update_events()
            clock.advance(3600)  # beyond the lock of the dead leader
            while not {row["id"] for row in db.query("SELECT id FROM _honker_live")} - before:
                assert changes.wait(PATIENCE_S)
            assert db.query("SELECT owner FROM _honker_locks WHERE name = 'honker-scheduler'") != holder
