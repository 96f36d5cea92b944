"""A transaction that somebody leaves open: the server keeps all dead rows, and claims go on as before."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

import brant
from brant.storage.postgres import claims, floors
from tests.servers import Server
from tests.waiting import PATIENCE_S

DONE = 3000
ENTRIES_READ = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '_brant_live_ready'"


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def forgotten(address: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection in a transaction that has written, and that nobody ends."""
    with psycopg.connect(address) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection


@pytest.fixture
def db(address: str, forgotten: object) -> Iterator[brant.Database]:
    with brant.open(address) as database:
        work_off(database.queue("q"), DONE)
        yield database


@pytest.fixture
def is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a claim takes on this machine, it counts as slow."""
    monkeypatch.setattr(floors, "SLOW_S", 0.0)
    monkeypatch.setattr(claims, "SLOW_S", 0.0)
    monkeypatch.setattr(floors, "_ASK_EVERY_S", 0.0)
    monkeypatch.setattr(claims, "_MANY_TRANSACTIONS", 10)


def work_off(queue: brant.Queue, jobs: int) -> None:
    queue.enqueue_many(list(range(jobs)))
    while claimed := queue.claim_batch("w", 500):
        queue.ack_batch([job.id for job in claimed], "w")


def until(is_so: Callable[[], object], meanwhile: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_so():
        meanwhile()
        assert time.monotonic() < give_up_at


def begin_above(db: brant.Database) -> None:
    """Go on until claims begin at the first live row: the server counts its dead rows a little later."""

    def claim_a_little_later() -> None:
        threading.Event().wait(0.01)
        work_off(db.queue("q"), 1)

    until(lambda: floor_of(db), claim_a_little_later)


def floor_of(db: brant.Database) -> floors.Floor | None:
    found = db._storage._floors.of("q")  # type: ignore[attr-defined]
    assert found is None or isinstance(found, floors.Floor)
    return found


def wait_for_the_next_look(db: brant.Database) -> None:
    floor = floor_of(db)
    assert floor is not None
    until(lambda: floor.is_due, lambda: threading.Event().wait(0.01))


def entries_read(db: brant.Database) -> int:
    with db.transaction() as tx:
        tx.query("SELECT pg_stat_force_next_flush()")
    return int(db.query(ENTRIES_READ)[0]["idx_tup_read"])


@pytest.mark.guarantee("G7")
@pytest.mark.usefixtures("is_slow")
def test_claims_do_not_walk_the_dead_rows_that_a_forgotten_transaction_keeps(
    db: brant.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = db.queue("q")
    begin_above(db)
    wait_for_the_next_look(db)
    monkeypatch.setattr(floors, "_SHORTEST_PAUSE_S", 3600.0)
    monkeypatch.setattr(floors, "_LONGEST_PAUSE_S", 3600.0)
    monkeypatch.setattr(floors, "_MARGIN_S", 0.0)  # the dead rows may be younger than the usual one
    work_off(queue, 1)  # by a look at everything, from where the next ones begin
    before = entries_read(db)
    for _ in range(50):
        queue.enqueue("job")
        job = queue.claim_one("w")
        assert job is not None
        assert job.ack()
    # At most those that this test has made since.
    assert entries_read(db) - before < 50 * (50 + 100)


@pytest.mark.usefixtures("is_slow")
def test_the_order_of_claims_stays(db: brant.Database) -> None:
    queue = db.queue("q")
    begin_above(db)
    for priority in (0, 5):
        work_off_one(queue, priority)
    sent = [(priority, queue.enqueue("job", priority=priority)) for priority in (0, 5, 0, 5, 0)]
    got = []
    while job := queue.claim_one("w"):
        got.append((job.priority, job.id))
        job.ack()
    assert got == sorted(sent, key=lambda each: (-each[0], each[1]))
    assert floor_of(db)


def work_off_one(queue: brant.Queue, priority: int) -> None:
    """A priority that is new takes a moment to be found."""
    queue.enqueue("first of its priority", priority=priority)
    claimed: list[brant.Job] = []
    until(lambda: claimed, lambda: claimed.extend(queue.claim_batch("w", 9)))
    assert all(job.ack() for job in claimed)


@pytest.mark.usefixtures("is_slow")
def test_jobs_that_come_back_or_come_late_are_found(db: brant.Database, address: str) -> None:
    queue = db.queue("q")
    begin_above(db)
    names = ["given back", "lapsed", "late", "retried", "urgent"]
    with psycopg.connect(address) as late:
        queue.enqueue("late", tx=late)
        queue.enqueue_many(["given back", "lapsed", "retried"])
        for job in queue.claim_batch("w", 3, 0.1):
            if job.payload == "given back":
                job.release()
            elif job.payload == "retried":
                job.retry(0, "once more")
        work_off_others(db)
        late.commit()
    queue.enqueue("urgent", priority=9)
    found = []
    for job in queue.claim():
        found.append(job.payload)
        assert job.ack()
        if len(set(found)) == len(names):
            break
    assert sorted(found) == names
    assert floor_of(db)


def work_off_others(db: brant.Database) -> None:
    """So that the first live row is somewhere else."""
    wait_for_the_next_look(db)
    assert db.queue("q").due_in() == 0


@pytest.mark.usefixtures("is_slow")
def test_when_the_transaction_has_ended_claims_look_at_everything_again(
    db: brant.Database, forgotten: psycopg.Connection[object]
) -> None:
    begin_above(db)
    forgotten.rollback()
    until(lambda: not floor_of(db), lambda: db.queue("q").claim_one("w"))


def test_health_tells_of_the_transaction_and_counts_dead_rows(
    db: brant.Database, forgotten: psycopg.Connection[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brant.storage.postgres.health._OLD_TRANSACTION_S", 0)
    (problem,) = db.health().problems
    assert f"pid {forgotten.info.backend_pid}" in problem
    assert "dead rows can't be removed" in problem
    until(lambda: db.health().facts["dead_rows"] >= DONE, lambda: work_off(db.queue("q"), 1))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("BRANT_POSTGRES_JOBS" not in os.environ, reason="takes long")
def test_tens_of_thousands_of_claims_beside_a_forgotten_transaction(address: str) -> None:
    """Prints the rates, which depend on what else the machine does."""
    jobs = int(os.environ["BRANT_POSTGRES_JOBS"])
    with brant.open(address) as db:
        queue = db.queue("q")
        usual = rate(queue, jobs // 20)
        with psycopg.connect(address) as forgotten:
            forgotten.execute("SELECT pg_current_xact_id()")
            work_off(queue, jobs)
            work_off(queue, jobs)
            pinned = rate(queue, jobs // 20)
            assert floor_of(db)
    print(f"{usual:.0f} jobs a second, {pinned:.0f} with {2 * jobs} dead rows: {pinned / usual:.2f} of that")


def rate(queue: brant.Queue, jobs: int) -> float:
    start = time.perf_counter()
    for number in range(jobs):
        queue.enqueue(number)
        job = queue.claim_one("w")
        assert job is not None
        assert job.payload == number
        assert job.ack()
    return jobs / (time.perf_counter() - start)
