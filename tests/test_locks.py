"""Locks by name: one holder among all threads and processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import TransactionError
from brant.testing import FakeClock
from tests.looping import Warnings
from tests.waiting import PATIENCE_S, in_thread, line_of, python, write_lock_held

pytestmark = pytest.mark.both_backends

HOLDS = """
import sys
import brant

with brant.open(sys.argv[1]).lock("job", ttl=float(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""

WORKS_ALONE = """
import os, sys
import brant

db = brant.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    with db.lock("job", ttl=30, wait=60):
        os.close(os.open(sys.argv[2], os.O_CREAT | os.O_EXCL))
        db.notify("worked", number)
        os.unlink(sys.argv[2])
print("alone", flush=True)
"""


def _row(db: brant.Database, name: str = "job") -> dict[str, Any] | None:
    rows = db.query("SELECT owner, expires_at FROM _honker_locks WHERE name = ?", [name])
    return rows[0] if rows else None


def _steal(db: brant.Database, name: str = "job") -> None:
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_locks SET owner = 'thief' WHERE name = ?", [name])


def test_a_lock_is_held_for_the_length_of_the_block(timed: brant.Database, clock: FakeClock) -> None:
    lock = timed.lock("job", ttl=30)
    assert not lock.acquired
    with lock as held:
        assert held is lock
        assert (lock.name, lock.ttl, lock.db, lock.acquired, lock.lost) == ("job", 30, timed, True, False)
        assert _row(timed) == {"owner": lock.owner, "expires_at": clock.now() + 30}
    assert not lock.acquired
    assert _row(timed) is None


@pytest.mark.guarantee("G15")
def test_a_held_lock_is_refused_to_others(db: brant.Database, path: Path) -> None:
    with db.lock("job"), brant.open(path) as other:
        for database in (db, other):
            with pytest.raises(brant.LockHeld, match="'job'"), database.lock("job"):
                pass
        with db.lock("another"):
            pass
    with db.lock("job"):
        pass


def test_the_block_s_own_exception_comes_through_and_the_lock_is_free(db: brant.Database) -> None:
    with pytest.raises(ZeroDivisionError), db.lock("job"):
        raise ZeroDivisionError
    assert _row(db) is None


def test_owners_are_unique_unless_given(db: brant.Database) -> None:
    assert db.lock("job").owner != db.lock("job").owner
    with db.lock("job", owner="me"):
        assert _row(db) is not None
        assert _row(db)["owner"] == "me"  # type: ignore[index]


def test_the_same_owner_gets_it_again_and_its_time_is_not_prolonged(timed: brant.Database, clock: FakeClock) -> None:
    with timed.lock("job", ttl=30, owner="me"):
        before = _row(timed)
        clock.advance(10)
        with timed.lock("job", ttl=30, owner="me"):
            assert _row(timed) == before


@pytest.mark.guarantee("G15")
def test_one_lock_object_in_two_threads_still_excludes(db: brant.Database) -> None:
    lock = db.lock("job")

    def enter() -> None:
        with lock:
            pass

    with lock:
        with pytest.raises(brant.LockHeld):
            in_thread(enter).result(PATIENCE_S)
        with pytest.raises(brant.LockHeld):
            enter()
        assert lock.acquired
        assert _row(db) is not None
    enter()


@pytest.mark.guarantee("G15")
def test_a_lock_that_ran_out_can_be_taken(timed: brant.Database, clock: FakeClock) -> None:
    with timed.lock("job", ttl=30) as first:
        clock.advance(29)
        with pytest.raises(brant.LockHeld), timed.lock("job"):
            pass
        clock.advance(1)
        with timed.lock("job") as second:
            assert not first.renew()
            assert first.lost
            assert second.renew()


def test_release_leaves_the_new_holder_alone(timed: brant.Database, clock: FakeClock) -> None:
    first = timed.lock("job", ttl=30)
    first.__enter__()
    clock.advance(31)
    with timed.lock("job") as second:
        first.__exit__(None, None, None)
        assert _row(timed)["owner"] == second.owner  # type: ignore[index]
        with pytest.raises(brant.LockHeld), timed.lock("job"):
            pass


def test_renew_holds_it_for_that_long_from_now(timed: brant.Database, clock: FakeClock) -> None:
    with timed.lock("job", ttl=30) as lock:
        clock.advance(20)
        assert lock.renew()
        assert _row(timed)["expires_at"] == clock.now() + 30  # type: ignore[index]
        assert lock.renew(ttl=5)
        assert _row(timed)["expires_at"] == clock.now() + 5  # type: ignore[index]


@pytest.mark.guarantee("G15")
@pytest.mark.parametrize("ttl", [30, 0.5])
def test_renewal_after_the_time_is_over_is_refused_even_if_nobody_took_it(
    timed: brant.Database, clock: FakeClock, ttl: float
) -> None:
    with timed.lock("job", ttl=ttl) as lock:
        clock.advance(ttl + 1)
        assert not lock.renew()
        assert lock.lost
        assert not lock.renew()


def test_renewing_what_is_not_held_is_refused(db: brant.Database) -> None:
    lock = db.lock("job")
    assert not lock.renew()
    with lock:
        pass
    assert not lock.renew()
    assert not lock.lost


def test_a_lock_object_can_be_used_again_after_a_loss(db: brant.Database) -> None:
    lock = db.lock("job")
    with lock:
        _steal(db)
        assert not lock.renew()
    with db.transaction() as tx:
        tx.execute("DELETE FROM _honker_locks")
    with lock:
        assert not lock.lost
        assert lock.renew()


@pytest.mark.guarantee("G15")
def test_it_is_renewed_in_the_background_for_longer_than_its_time(db: brant.Database) -> None:
    commits = db.update_events()
    with db.lock("job", ttl=1.2) as lock:
        first = _row(db)
        assert first is not None
        while (now := _row(db)) is None or now["expires_at"] < first["expires_at"] + 1.2:
            assert commits.wait(PATIENCE_S)
        with pytest.raises(brant.LockHeld), db.lock("job"):
            pass
        assert not lock.lost


def test_the_background_renewal_notices_a_loss(db: brant.Database, caplog: pytest.LogCaptureFixture) -> None:
    with db.lock("job", ttl=0.3) as lock:
        _steal(db)
        renewer = next(thread for thread in threading.enumerate() if thread.name == "brant-lock-job")
        renewer.join(PATIENCE_S)
        assert lock.lost
    assert _row(db)["owner"] == "thief"  # type: ignore[index]
    assert "'job'" in caplog.text


def test_who_asked_for_it_is_told_of_a_loss(db: brant.Database, caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()
    lock = db.lock("job", ttl=0.3)
    lock.on_lost = told.set
    with lock:
        _steal(db)
        assert told.wait(PATIENCE_S)
        assert lock.lost
    assert caplog.text == ""


def test_a_release_is_no_loss(db: brant.Database) -> None:
    told = threading.Event()
    lock = db.lock("job", ttl=0.3)
    lock.on_lost = told.set
    with lock:
        pass
    assert not told.is_set()


def test_whoever_asked_is_told_of_the_loss(db: brant.Database) -> None:
    told = threading.Event()
    lock = db.lock("job", ttl=0.3)
    lock.on_lost = told.set
    with lock:
        _steal(db)
        assert told.wait(PATIENCE_S)


def test_a_renewal_that_can_not_reach_the_database_is_tried_again(path: Path) -> None:
    warnings = Warnings("brant.lock")
    with brant.open(path, busy_timeout_ms=0) as db, db.lock("job", ttl=2.4) as lock:
        first = _row(db)
        assert first is not None
        with write_lock_held(path):
            assert warnings.heard.wait(PATIENCE_S)
        commits = db.update_events()
        while (now := _row(db)) == first:
            assert commits.wait(PATIENCE_S)
        assert now is not None
        assert not lock.lost


def test_no_thread_is_left_behind(db: brant.Database) -> None:
    with db.lock("job"):
        assert any(thread.name == "brant-lock-job" for thread in threading.enumerate())
    assert not any(thread.name == "brant-lock-job" for thread in threading.enumerate())


@pytest.mark.guarantee("G9")
def test_who_waits_gets_it_when_it_is_released(db: brant.Database) -> None:
    def take() -> bool:
        with db.lock("job", wait=PATIENCE_S) as lock:
            return lock.acquired

    with db.lock("job"):
        waiting = in_thread(take)
    assert waiting.result(PATIENCE_S)


def test_who_waits_gets_it_when_it_runs_out(timed: brant.Database, clock: FakeClock) -> None:
    def take() -> str:
        with timed.lock("job", wait=3600) as lock:
            return lock.owner

    with timed.lock("job", ttl=30) as first:
        waiting = in_thread(take)
        clock.advance(31)
        assert waiting.result(PATIENCE_S) != first.owner


def test_waiting_ends_with_the_time_given(timed: brant.Database, clock: FakeClock) -> None:
    def take() -> None:
        with timed.lock("job", wait=10):
            pass

    with timed.lock("job", ttl=60):
        waiting = in_thread(take)
        while not waiting.done():
            clock.advance(11)
            with timed.transaction() as tx:
                tx.execute("UPDATE _honker_locks SET expires_at = ?", [clock.now() + 60])
        with pytest.raises(brant.LockHeld):
            waiting.result(PATIENCE_S)


@pytest.mark.guarantee("G8")
def test_who_waits_for_a_lock_does_not_wait_for_a_writer(db: brant.Database, path: Path) -> None:
    def take() -> None:
        with db.lock("job", wait=0.5):
            pass

    with db.lock("job"), write_lock_held(path), pytest.raises(brant.LockHeld):
        in_thread(take).result(PATIENCE_S)


@pytest.mark.guarantee("G15")
def test_threads_exclude_each_other(db: brant.Database) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(5):
            with db.lock("job", wait=PATIENCE_S):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    workers = [in_thread(work) for _ in range(6)]
    for worker in workers:
        worker.result(PATIENCE_S)
    assert most == [1] * 30


@pytest.mark.guarantee("G15")
def test_processes_exclude_each_other(db: brant.Database, path: Path, tmp_path: Path) -> None:
    with ExitStack() as running:
        workers = [running.enter_context(python(WORKS_ALONE, path, tmp_path / "inside")) for _ in range(3)]
        assert [line_of(worker) for worker in workers] == ["ready"] * 3
        for worker in workers:
            assert worker.stdin is not None
            print(file=worker.stdin, flush=True)
        assert [line_of(worker) for worker in workers] == ["alone"] * 3
    assert len(db.query("SELECT id FROM _honker_notifications")) == 60


@pytest.mark.guarantee("G15")
def test_a_crashed_holder_s_lock_is_free_when_its_time_is_over(db: brant.Database, path: Path) -> None:
    with python(HOLDS, path, 1.5) as holder:
        assert line_of(holder) == "held"
        with pytest.raises(brant.LockHeld), db.lock("job"):
            pass
        holder.kill()
        holder.wait(PATIENCE_S)
        assert _row(db) is not None
        with db.lock("job", wait=PATIENCE_S) as lock:
            assert lock.acquired


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    "make",
    [
        lambda db: db.lock(""),
        lambda db: db.lock("a\nb"),
        lambda db: db.lock("job", ttl=0),
        lambda db: db.lock("job", ttl=-1),
        lambda db: db.lock("job", ttl=float("inf")),
        lambda db: db.lock("job", owner=""),
        lambda db: db.lock("job", wait=-1),
        lambda db: db.lock("job", ttl="60"),
    ],
)
def test_bad_arguments_are_refused_at_once(db: brant.Database, make: Callable[[Any], Any]) -> None:
    with pytest.raises(brant.InvalidValue):
        make(db)


def test_a_bad_ttl_of_a_renewal_is_refused_and_the_lock_kept(db: brant.Database) -> None:
    with db.lock("job") as lock:
        with pytest.raises(brant.InvalidValue):
            lock.renew(ttl=0)
        assert lock.renew()


def test_a_lock_can_not_be_taken_inside_a_transaction(db: brant.Database) -> None:
    with db.transaction(), pytest.raises(TransactionError, match="inside a transaction"), db.lock("job"):
        pass
    assert _row(db) is None


def test_sweeping_forgets_only_what_ran_out(timed: brant.Database, clock: FakeClock) -> None:
    with timed.lock("short", ttl=10), timed.lock("long", ttl=60):
        clock.advance(10)
        assert timed.sweep_locks() == 1
        assert _row(timed, "short") is None
        assert _row(timed, "long") is not None
