"""Transactions of Brant's own: all of the block, or nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import brant
from brant.errors import DatabaseBusy, DatabaseClosed, StorageError, TransactionError
from tests.plainly import refusing
from tests.waiting import PATIENCE_S, in_thread, write_lock_held

pytestmark = pytest.mark.both_backends


@pytest.fixture(autouse=True)
def _orders(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")


def order_ids(db: brant.Database) -> list[int]:
    return [row["id"] for row in db.query("SELECT id FROM orders ORDER BY id")]


class Interrupted(Exception):
    pass


@pytest.mark.guarantee("G1")
def test_the_block_commits_what_was_written_in_it(db: brant.Database) -> None:
    queue, stream = db.queue("q"), db.stream("s")
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (?)", [42])
        queue.enqueue({"order": 42}, tx=tx)
        stream.publish({"order": 42}, tx=tx)
        tx.notify("orders", 42)
        assert order_ids(db) == []
        assert queue.stats().pending == 0
    assert order_ids(db) == [42]
    assert (queue.stats().pending, stream.head()) == (1, 1)


@pytest.mark.guarantee("G1")
def test_an_exception_takes_everything_back(db: brant.Database) -> None:
    queue, stream = db.queue("q"), db.stream("s")
    with pytest.raises(Interrupted), db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (42)")
        queue.enqueue(1, tx=tx)
        queue.write("text", tx=tx)
        queue.save_result(7, "done", tx=tx)
        stream.publish(1, tx=tx)
        stream.save_offset("reader", 1, tx=tx)
        tx.notify("orders", 42)
        db.scheduler().add(name="nightly", queue="q", schedule="@daily", tx=tx)
        raise Interrupted
    assert order_ids(db) == []
    assert (queue.stats().pending, stream.head(), stream.get_offset("reader")) == (0, 0, 0)
    assert queue.get_result(7) == (False, None)
    assert db.scheduler().schedules() == []
    assert db.query("SELECT count(*) AS n FROM _honker_notifications") == [{"n": 0}]


def test_table_definitions_roll_back_too(db: brant.Database) -> None:
    with pytest.raises(Interrupted), db.transaction() as tx:
        tx.execute("CREATE TABLE invoices (id INTEGER)")
        tx.execute("DROP TABLE orders")
        raise Interrupted
    assert order_ids(db) == []
    with pytest.raises(StorageError, match="invoices"):
        db.query("SELECT * FROM invoices")


def test_a_transaction_inside_another_is_refused_and_harms_neither(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (1)")
        with pytest.raises(RuntimeError, match=r"nested db\.transaction"), db.transaction():
            pass
        with pytest.raises(TransactionError, match="nested"):
            db.notify("channel", "without tx=")
        tx.execute("INSERT INTO orders (id) VALUES (2)")
    assert order_ids(db) == [1, 2]


def test_another_thread_waits_for_its_turn(db: brant.Database) -> None:
    order: list[str] = []

    def second() -> None:
        with db.transaction() as tx:
            order.append("second")
            tx.execute("INSERT INTO orders (id) VALUES (2)")

    with db.transaction() as tx:
        waiting = in_thread(second)
        tx.execute("INSERT INTO orders (id) VALUES (1)")
        assert not waiting.done()
        order.append("first")
    waiting.result(PATIENCE_S)
    assert order == ["first", "second"]
    assert order_ids(db) == [1, 2]


@pytest.mark.files_only("on a server both go on, side by side")
def test_two_tasks_of_one_event_loop_do_not_deadlock(db: brant.Database) -> None:
    async def both() -> None:
        entered, refused = asyncio.Event(), asyncio.Event()

        async def first() -> None:
            with db.transaction():
                entered.set()
                await refused.wait()

        async def second() -> None:
            await entered.wait()
            with pytest.raises(TransactionError, match="nested"):
                db.transaction().__enter__()
            refused.set()

        await asyncio.gather(first(), second())

    asyncio.run(both())


def test_a_task_started_inside_a_block_may_write_once_the_block_is_over(db: brant.Database) -> None:
    queue = db.queue("q")

    async def start_inside() -> None:
        over = asyncio.Event()

        async def later() -> None:
            await over.wait()
            queue.enqueue("later")

        with db.transaction():
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        over.set()
        await task

    asyncio.run(start_inside())
    assert queue.stats().pending == 1


def test_a_transaction_can_not_be_used_outside_its_block(db: brant.Database) -> None:
    queue = db.queue("q")
    tx = db.transaction()
    for use in (
        lambda: tx.execute("SELECT 1"),
        lambda: tx.query("SELECT 1"),
        lambda: tx.notify("c", 1),
        lambda: queue.enqueue(1, tx=tx),
    ):
        with pytest.raises(RuntimeError, match="Transaction not started"):
            use()
    with tx:
        pass
    with pytest.raises(TransactionError, match="Transaction not started"):
        queue.enqueue(1, tx=tx)


def test_a_transaction_belongs_to_its_thread(db: brant.Database) -> None:
    queue = db.queue("q")
    with db.transaction() as tx:
        for use in (lambda: tx.execute("DELETE FROM orders"), lambda: queue.enqueue(1, tx=tx)):
            with pytest.raises(TransactionError, match="another thread"):
                in_thread(use).result(PATIENCE_S)
    assert queue.stats().pending == 0


def test_a_transaction_of_another_database_is_refused(db: brant.Database, path: Path) -> None:
    with (
        brant.open(path) as other,
        other.transaction() as tx,
        pytest.raises(TransactionError, match="another Database"),
    ):
        db.queue("q").enqueue(1, tx=tx)


@pytest.mark.parametrize(
    "end",
    [
        "COMMIT",
        "ROLLBACK",
        pytest.param(
            "INSERT OR ROLLBACK INTO orders (id) VALUES (1)", marks=pytest.mark.files_only("SQLite's own words")
        ),
    ],
)
def test_nothing_is_written_after_the_transaction_was_ended_by_sql(db: brant.Database, end: str) -> None:
    queue = db.queue("q")
    with pytest.raises(TransactionError, match="ended inside the block"), db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (1)")
        try:
            tx.execute(end)
        except StorageError:
            assert "OR ROLLBACK" in end
        for use in (
            lambda: tx.execute("INSERT INTO orders (id) VALUES (2)"),
            lambda: tx.query("SELECT * FROM orders"),
            lambda: tx.notify("c", 1),
            lambda: queue.enqueue(1, tx=tx),
        ):
            with pytest.raises(TransactionError, match="ended inside the block"):
                use()
    assert order_ids(db) == ([1] if end == "COMMIT" else [])
    assert queue.stats().pending == 0
    assert queue.enqueue("the next one works") > 0


@pytest.mark.guarantee("G1")
def test_a_commit_that_fails_is_rolled_back_and_raised(db: brant.Database) -> None:
    queue = db.queue("q")
    with db.transaction() as tx:
        tx.execute("CREATE TABLE lines (order_id INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(StorageError, match=r"(?i)foreign key constraint"), db.transaction() as tx:
        tx.execute("INSERT INTO lines VALUES (404)")
        queue.enqueue(1, tx=tx)
    assert db.query("SELECT * FROM lines") == []
    assert queue.stats().pending == 0
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (1)")


@pytest.mark.guarantee("G16")
@pytest.mark.files_only("a server undoes the whole transaction")
def test_a_statement_that_fails_leaves_the_transaction_usable(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (1)")
        with pytest.raises(StorageError, match=r"UNIQUE constraint failed: orders\.id"):
            tx.execute("INSERT INTO orders (id) VALUES (2), (1)")
        tx.execute("INSERT INTO orders (id) VALUES (3)")
    assert order_ids(db) == [1, 3]


@pytest.mark.guarantee("G16")
def test_a_verb_that_fails_leaves_nothing_of_itself_in_the_transaction(db: brant.Database) -> None:
    queue = db.queue("q", max_attempts=1)
    job_id = queue.enqueue("poison")
    job = queue.claim_one("w")
    assert job is not None
    with refusing(db, "BEFORE INSERT", "_honker_dead", "cemetery full"), db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (1)")
        with pytest.raises(StorageError, match="cemetery full"):
            job.retry(0, "why", tx=tx)
        queue.enqueue("after", tx=tx)
    assert order_ids(db) == [1]
    assert queue.errors(job_id) == []
    row = queue.get_job(job_id)
    assert row is not None
    assert (row["state"], row["worker_id"]) == ("processing", "w")
    assert queue.stats().pending == 1


def test_savepoints_of_the_users_own_work(db: brant.Database) -> None:
    queue = db.queue("q")
    with db.transaction() as tx:
        tx.execute("SAVEPOINT mine")
        tx.execute("INSERT INTO orders (id) VALUES (1)")
        queue.enqueue("undone", tx=tx)
        tx.execute("ROLLBACK TO mine")
        queue.enqueue("kept", tx=tx)
        tx.execute("RELEASE mine")
    assert order_ids(db) == []
    assert [message.payload for message in queue.peek_many()] == ["kept"]


@pytest.mark.guarantee("G8")
def test_a_query_does_not_wait_for_a_transaction(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (1)")
        assert in_thread(order_ids, db).result(PATIENCE_S) == []


def test_the_write_lock_of_another_process_is_waited_for_no_longer_than_the_timeout(path: Path) -> None:
    with brant.open(path, busy_timeout_ms=50) as impatient:
        queue = impatient.queue("q")
        with write_lock_held(path), pytest.raises(DatabaseBusy, match="lock"):
            queue.enqueue(1)
        queue.enqueue(2)
        assert queue.stats().pending == 1


@pytest.mark.files_only("on a server nobody waits to begin")
def test_without_a_wait_the_database_is_busy_at_once(db: brant.Database, path: Path) -> None:
    def begin_at_once() -> None:
        with db.transaction(wait=False) as tx:
            tx.execute("INSERT INTO orders (id) VALUES (NULL)")

    with db.transaction() as tx:
        with pytest.raises(DatabaseBusy, match="another thread"):
            in_thread(begin_at_once).result(PATIENCE_S)
        tx.execute("INSERT INTO orders (id) VALUES (1)")
    with write_lock_held(path), pytest.raises(DatabaseBusy, match="lock"):
        begin_at_once()
    begin_at_once()
    assert order_ids(db) == [1, 2]
    with db.transaction() as tx:
        assert tx.query("PRAGMA busy_timeout") == [{"timeout": 5000}]


def test_a_transaction_after_close_says_so(path: Path) -> None:
    closed = brant.open(path)
    closed.close()
    with pytest.raises(DatabaseClosed, match="Database is closed"), closed.transaction():
        pass


def test_closing_inside_a_transaction_is_refused_and_the_transaction_goes_on(db: brant.Database) -> None:
    with db.transaction() as tx:
        with pytest.raises(TransactionError, match="inside a transaction"):
            db.close()
        tx.execute("INSERT INTO orders (id) VALUES (1)")
    assert order_ids(db) == [1]


@pytest.mark.files_only("on a server transactions run side by side, at READ COMMITTED")
def test_many_threads_lose_no_write(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("INSERT INTO orders (id, note) VALUES (1, 0)")
    start = threading.Barrier(8)

    def count_up() -> None:
        start.wait()
        for _ in range(25):
            with db.transaction() as tx:
                note = int(tx.query("SELECT note FROM orders")[0]["note"])
                tx.execute("UPDATE orders SET note = ?", [str(note + 1)])

    for running in [in_thread(count_up) for _ in range(8)]:
        running.result(PATIENCE_S)
    assert db.query("SELECT note FROM orders") == [{"note": "200"}]
