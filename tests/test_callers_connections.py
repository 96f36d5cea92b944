"""`tx=` with a connection of the caller's own: what is written commits with the caller's work."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
import sqlalchemy
from sqlalchemy.orm import sessionmaker

import brant
from brant.errors import DatabaseBusy, StorageError, TransactionError
from tests.callers import CALLERS, Opened, django_atomic, django_connection, engine_for
from tests.waiting import PATIENCE_S, in_thread, write_lock_held


class Verb(NamedTuple):
    run: Callable[[brant.Database, object], object]
    done: Callable[[brant.Database], bool]


def notified(db: brant.Database) -> bool:
    return db.query("SELECT payload FROM _honker_notifications") == [{"payload": "1"}]


def add_schedule(db: brant.Database, tx: object) -> None:
    db.scheduler().add(name="nightly", queue="q", schedule="@daily", tx=tx)


VERBS = {
    "enqueue": Verb(lambda db, tx: db.queue("q").enqueue(1, tx=tx), lambda db: db.queue("q").stats().pending == 1),
    "unique": Verb(
        lambda db, tx: db.queue("q").enqueue(1, tx=tx, unique_key="k"), lambda db: db.queue("q").stats().pending == 1
    ),
    "write": Verb(lambda db, tx: db.queue("q").write("m", tx=tx), lambda db: db.queue("q").peek() == "m"),
    "publish": Verb(lambda db, tx: db.stream("s").publish(1, tx=tx), lambda db: db.stream("s").head() == 1),
    "notify": Verb(lambda db, tx: db.notify("c", 1, tx=tx), notified),
    "schedule": Verb(add_schedule, lambda db: len(db.scheduler().schedules()) == 1),
    "save_result": Verb(
        lambda db, tx: db.queue("q").save_result(7, "answer", tx=tx),
        lambda db: db.queue("q").get_result(7) == (True, "answer"),
    ),
    "save_offset": Verb(
        lambda db, tx: db.stream("s").save_offset("reader", 5, tx=tx),
        lambda db: db.stream("s").get_offset("reader") == 5,
    ),
}


@pytest.fixture(autouse=True)
def _orders(db: brant.Database) -> None:
    db.queue("q")
    with db.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")


def order_ids(db: brant.Database) -> list[int]:
    return [row["id"] for row in db.query("SELECT id FROM orders ORDER BY id")]


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("opened", CALLERS)
def test_it_is_there_and_waiters_are_woken_once_the_caller_commits(
    db: brant.Database, path: Path, opened: Opened, verb: str
) -> None:
    events = db.update_events()
    with opened(path) as caller:
        VERBS[verb].run(db, caller.tx)
        caller.execute("INSERT INTO orders VALUES (1)")
        assert not VERBS[verb].done(db)
        assert not events.wait(0)
        caller.commit()
        assert events.wait(PATIENCE_S)
    assert VERBS[verb].done(db)
    assert order_ids(db) == [1]


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("opened", CALLERS)
def test_it_is_gone_when_the_caller_rolls_back(db: brant.Database, path: Path, opened: Opened, verb: str) -> None:
    with opened(path) as caller:
        caller.execute("INSERT INTO orders VALUES (1)")
        VERBS[verb].run(db, caller.tx)
        caller.rollback()
    assert not VERBS[verb].done(db)
    assert order_ids(db) == []


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("opened", CALLERS)
def test_a_rollback_undoes_a_verb_that_came_before_the_callers_first_write(
    db: brant.Database, path: Path, opened: Opened
) -> None:
    with opened(path) as caller:
        db.queue("q").enqueue(1, tx=caller.tx)
        caller.rollback()
    assert db.queue("q").stats().pending == 0


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("opened", CALLERS)
def test_a_worker_gets_the_job_by_the_commit_and_not_by_a_poll(db: brant.Database, path: Path, opened: Opened) -> None:
    queue = db.queue("q")
    claims = queue.claim("w", idle_poll_s=None)
    job = in_thread(next, claims)
    with opened(path) as caller:
        queue.enqueue("from the caller", tx=caller.tx)
        assert not job.done()
        caller.commit()
        assert job.result(PATIENCE_S).payload == "from the caller"
    claims.close()


def test_in_a_transaction_that_has_only_begun_another_writer_is_waited_for(db: brant.Database, path: Path) -> None:
    """Were anything read before, SQLite would refuse to write behind another one's back, at once."""
    queue = db.queue("q")
    with django_atomic(path) as caller:
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(0.2, other.rollback).start()
            queue.enqueue("from the caller", tx=caller.tx)
        caller.commit()
    assert queue.stats().pending == 1


@pytest.mark.parametrize("opened", CALLERS)
def test_a_claim_settled_in_the_callers_transaction_is_settled_with_it(
    db: brant.Database, path: Path, opened: Opened
) -> None:
    queue = db.queue("q")
    queue.enqueue(1)
    job = queue.claim_one("w")
    assert job is not None
    with opened(path) as caller:
        assert job.ack(tx=caller.tx)
        caller.rollback()
    assert queue.stats().processing == 1
    with opened(path) as caller:
        assert job.ack(tx=caller.tx)
        caller.commit()
    assert queue.stats().total == 0


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("opened", CALLERS)
def test_a_verb_that_fails_leaves_the_callers_own_work_alone(db: brant.Database, path: Path, opened: Opened) -> None:
    with db.transaction() as tx:
        # Adding a job and remembering the name of its queue are two statements: the second one fails.
        tx.execute("CREATE TRIGGER broken BEFORE INSERT ON _brant_queues BEGIN SELECT RAISE(ABORT, 'no names'); END")
    with opened(path) as caller:
        caller.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(StorageError, match="no names"):
            db.queue("q").enqueue(1, tx=caller.tx)
        caller.execute("INSERT INTO orders VALUES (2)")
        caller.commit()
    assert order_ids(db) == [1, 2]
    assert db.query("SELECT * FROM _honker_live") == []


@pytest.mark.parametrize("verb", VERBS)
def test_on_a_connection_in_autocommit_mode_a_verb_commits_by_itself(db: brant.Database, path: Path, verb: str) -> None:
    events = db.update_events()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        VERBS[verb].run(db, connection)
        assert not connection.in_transaction
        assert VERBS[verb].done(db)
        assert events.wait(PATIENCE_S)


@pytest.mark.parametrize("verb", VERBS)
def test_outside_a_django_block_a_verb_commits_by_itself(db: brant.Database, path: Path, verb: str) -> None:
    with django_connection(path) as connection:
        VERBS[verb].run(db, connection)
        assert VERBS[verb].done(db)


def test_a_sqlalchemy_connection_in_autocommit_mode_commits_by_itself(db: brant.Database, path: Path) -> None:
    with (
        engine_for(path) as engine,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        db.queue("q").enqueue(1, tx=connection)
        assert db.queue("q").stats().pending == 1


@pytest.mark.guarantee("G16")
def test_a_verb_that_fails_in_autocommit_mode_leaves_nothing_and_no_transaction_open(
    db: brant.Database, path: Path
) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TRIGGER broken BEFORE INSERT ON _brant_queues BEGIN SELECT RAISE(ABORT, 'no names'); END")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(StorageError, match="no names"):
            db.queue("q").enqueue(1, tx=connection)
        assert not connection.in_transaction
    assert db.query("SELECT * FROM _honker_live") == []


def test_a_verb_that_reads_before_it_writes_waits_for_another_writer(db: brant.Database, path: Path) -> None:
    queue = db.queue("q")
    queue.write("message")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        with db.transaction() as tx:
            reading = in_thread(queue.read, tx=connection)
            tx.execute("INSERT INTO orders VALUES (1)")
            with pytest.raises(TimeoutError):
                reading.result(0.05)
        assert reading.result(PATIENCE_S) == "message"


def test_a_transaction_that_read_an_old_state_gets_an_error_that_says_what_to_do(
    db: brant.Database, path: Path
) -> None:
    queue = db.queue("q")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM orders").fetchall()
        queue.enqueue("meanwhile")
        with pytest.raises(DatabaseBusy, match="BEGIN IMMEDIATE"):
            queue.enqueue("too late", tx=connection)
        connection.rollback()
        connection.execute("BEGIN IMMEDIATE")
        queue.enqueue("again", tx=connection)
        connection.commit()
    assert [message.payload for message in queue.peek_many()] == ["meanwhile", "again"]


def test_a_lock_that_is_held_too_long_is_a_typed_error(db: brant.Database, path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=0.05)) as connection:
        with write_lock_held(path), pytest.raises(DatabaseBusy):
            db.queue("q").enqueue(1, tx=connection)
        assert not connection.in_transaction


def test_a_connection_to_another_file_is_refused_and_left_as_it_was(db: brant.Database, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        with pytest.raises(TransactionError, match=r"other\.db"):
            db.queue("q").enqueue(1, tx=connection)
        assert not connection.in_transaction


def test_a_connection_to_memory_is_refused(db: brant.Database) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(TransactionError, match="temporary database"),
    ):
        db.queue("q").enqueue(1, tx=connection)


def test_the_same_file_by_another_name_is_accepted(db: brant.Database, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with closing(sqlite3.connect(link / path.name)) as connection:
        db.queue("q").enqueue(1, tx=connection)
        connection.commit()
    assert db.queue("q").stats().pending == 1


def test_a_closed_connection_is_refused(db: brant.Database, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.close()
    with pytest.raises(TransactionError, match="can't be used"):
        db.queue("q").enqueue(1, tx=connection)


def test_a_connection_of_another_thread_is_refused(db: brant.Database, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, pytest.raises(TransactionError, match="thread"):
        in_thread(db.queue("q").enqueue, 1, tx=connection).result(PATIENCE_S)


def test_a_connection_of_a_closed_database_is_refused(path: Path) -> None:
    with brant.open(path) as closed:
        queue = closed.queue("q")
    with closing(sqlite3.connect(path)) as connection, pytest.raises(brant.BrantError, match="Database is closed"):
        queue.enqueue(1, tx=connection)


@pytest.mark.parametrize("wrong", [5, "tx", object(), True, {}, sqlalchemy.text("SELECT 1"), sessionmaker()])
def test_an_object_that_is_no_transaction_is_refused(db: brant.Database, wrong: object) -> None:
    with pytest.raises(TransactionError, match=f"tx= takes .*, not {type(wrong).__name__}"):
        db.queue("q").enqueue(1, tx=wrong)
    assert db.queue("q").stats().pending == 0


def test_an_engine_is_no_transaction(db: brant.Database, path: Path) -> None:
    with engine_for(path) as engine, pytest.raises(TransactionError, match="not Engine"):
        db.queue("q").enqueue(1, tx=engine)


def test_a_cursor_is_no_transaction(db: brant.Database, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, pytest.raises(TransactionError, match="not Cursor"):
        db.queue("q").enqueue(1, tx=connection.cursor())


def test_an_unfinished_returning_statement_does_not_stop_the_verb(db: brant.Database, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute("INSERT INTO orders VALUES (1), (2) RETURNING id")
        db.queue("q").enqueue(1, tx=connection)
        assert cursor.fetchall() == [(1,), (2,)]
        connection.commit()
    assert order_ids(db) == [1, 2]
    assert db.queue("q").stats().pending == 1
