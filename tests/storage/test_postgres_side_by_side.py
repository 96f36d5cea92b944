"""Many who write at once: nobody waits without need, and nothing is given out twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

import brant
from brant.errors import TransactionError
from tests.waiting import PATIENCE_S, in_thread


@pytest.fixture
def db(address: str) -> Iterator[brant.Database]:
    with brant.open(address, max_readers=10) as database:
        yield database


def at_once(count: int, work: Callable[[int], object]) -> None:
    """Run it in so many threads, all of which begin together."""
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait(PATIENCE_S)
        work(number)

    for answer in [in_thread(run, number) for number in range(count)]:
        answer.result(PATIENCE_S)


def test_transactions_run_side_by_side(db: brant.Database) -> None:
    queue = db.queue("q")
    met = threading.Barrier(3)

    def write(number: int) -> None:
        with db.transaction() as tx:
            queue.enqueue(number, tx=tx)
            met.wait(PATIENCE_S)  # all three are in the middle of theirs

    at_once(3, write)
    assert queue.stats().pending == 3


def test_transactions_of_two_tasks_of_one_event_loop_run_side_by_side(db: brant.Database) -> None:
    queue = db.queue("q")

    async def both() -> None:
        met = asyncio.Barrier(2)

        async def write(number: int) -> None:
            with db.transaction() as tx:
                queue.enqueue(number, tx=tx)
                await met.wait()

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(write(1), write(2))

    asyncio.run(both())
    assert queue.stats().pending == 2


def test_a_long_transaction_holds_up_nobody_elses_work(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue("old")
    inside, done = threading.Event(), threading.Event()

    def take_long() -> None:
        with db.transaction() as tx:
            queue.enqueue("new", unique_key="k", tx=tx)
            db.stream("s").publish(1, tx=tx)
            tx.notify("c", 1)
            assert queue.read(tx=tx) == "old"
            inside.set()
            done.wait(PATIENCE_S)

    holding = in_thread(take_long)
    assert inside.wait(PATIENCE_S)
    for number in range(3):
        queue.enqueue(number, unique_key=f"other {number}")
    jobs = queue.claim_batch("w", 10)
    assert [job.payload for job in jobs] == [0, 1, 2]
    assert all(job.ack() for job in jobs)
    db.notify("c", 2)
    done.set()
    holding.result(PATIENCE_S)
    assert queue.stats().pending == 1


def test_of_many_who_want_a_unique_key_one_gets_it(db: brant.Database) -> None:
    queue = db.queue("q")
    ids: list[int] = []
    at_once(8, lambda _: ids.append(queue.enqueue(1, unique_key="k")))
    assert len(ids) == 8
    assert len(set(ids)) == 1
    assert queue.stats().pending == 1


def test_no_job_is_claimed_twice_and_none_is_left(db: brant.Database) -> None:
    queue = db.queue("q")
    sent = queue.enqueue_many(list(range(400)))
    claimed: list[int] = []

    def work(number: int) -> None:
        while jobs := queue.claim_batch(f"w{number}", 7):
            claimed.extend(job.id for job in jobs)
            assert queue.ack_batch([job.id for job in jobs], f"w{number}") == len(jobs)

    at_once(8, work)
    assert sorted(claimed) == sorted(sent)


def test_no_message_is_read_twice(db: brant.Database) -> None:
    queue = db.queue("q")
    queue.enqueue_many([str(number) for number in range(300)])
    got: list[object] = []

    def read(_: int) -> None:
        while (message := queue.read()) is not None:
            got.append(message)

    at_once(6, read)
    assert sorted(map(str, got)) == sorted(map(str, range(300)))


def test_ids_are_unique_and_each_thread_sees_its_own_grow(db: brant.Database) -> None:
    queue = db.queue("q")
    given: list[list[int]] = [[] for _ in range(6)]

    def enqueue(number: int) -> None:
        for _ in range(20):
            given[number].append(queue.enqueue(1))
            given[number] += queue.enqueue_many([1, 2])

    at_once(6, enqueue)
    assert all(ids == sorted(ids) for ids in given)
    assert len({job_id for ids in given for job_id in ids}) == 6 * 20 * 3


def test_a_job_that_many_settle_at_once_is_settled_once(db: brant.Database) -> None:
    queue = db.queue("q")
    for verb in ("ack", "retry", "fail"):
        job_id = queue.enqueue(1)
        job = queue.claim_one("w")
        assert job is not None
        settled: list[bool] = []

        def settle(_: int, verb: str = verb, job_id: int = job_id, settled: list[bool] = settled) -> None:
            rest = {"ack": (), "retry": (0, "why"), "fail": ("why",)}[verb]
            settled.append(getattr(queue, verb)(job_id, "w", *rest))

        at_once(4, settle)
        assert settled.count(True) == 1
        queue.cancel(job_id)


def test_of_many_who_requeue_a_dead_letter_one_does(db: brant.Database) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(1, max_attempts=1)
    assert queue.claim_one("w") is not None
    assert queue.fail(job_id, "w", "why")
    told: list[int] = []
    at_once(4, lambda _: told.append(queue.requeue_dead(job_id)))
    assert sum(told) == 1
    assert queue.stats().pending == 1


def give_time(connection: psycopg.Connection[object]) -> None:
    """On a busy machine even this may take too long."""
    while True:
        try:
            connection.execute("SET statement_timeout = 0")
            return
        except psycopg.errors.QueryCanceled:
            pass


def test_a_cancelled_call_does_not_keep_the_ids_to_itself(address: str, db: brant.Database) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET statement_timeout = 1")
        for _ in range(30):
            try:
                connection.execute(
                    "SELECT brant._brant_take_ids('brant._brant_job_ids', 1) FROM generate_series(1, 100000)"
                )
            except psycopg.errors.QueryCanceled:
                pass
        give_time(connection)
        held = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ).fetchone()
        assert held == (0,)
        db.queue("q").enqueue(1)


def test_a_nested_transaction_is_refused_in_a_thread_and_not_beside_it(db: brant.Database) -> None:
    with db.transaction():
        with pytest.raises(TransactionError, match="nested"), db.transaction():
            pass
        assert in_thread(lambda: db.queue_names()).result(PATIENCE_S) == []


@pytest.mark.parametrize("verb", ["retry", "fail"])
def test_a_nul_in_the_text_of_an_error_is_shown_and_does_not_keep_the_job_alive(db: brant.Database, verb: str) -> None:
    queue = db.queue("q")
    job_id = queue.enqueue(1, max_attempts=1)
    job = queue.claim_one("w")
    assert job is not None
    getattr(job, verb)(*([0] if verb == "retry" else []), "a\0b")
    letter = queue.get_dead(job_id)
    assert letter is not None
    assert letter.last_error == "a\\x00b"
