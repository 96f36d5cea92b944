"""Verbs in a transaction of the caller's own, on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy
import sqlalchemy.orm

import brant
from brant.errors import TransactionError
from tests.servers import Server

Caller = tuple[object, Callable[[], object], Callable[[], object]]


@pytest.fixture
def db(address: str) -> Iterator[brant.Database]:
    with brant.open(address) as database:
        yield database


@contextmanager
def plain(address: str) -> Iterator[Caller]:
    with psycopg.connect(address) as connection:
        yield connection, connection.commit, connection.rollback


@contextmanager
def dict_rows(address: str) -> Iterator[Caller]:
    with psycopg.connect(address, row_factory=psycopg.rows.dict_row) as connection:
        yield connection, connection.commit, connection.rollback


def engine_of(address: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(address.replace("postgresql://", "postgresql+psycopg://", 1))


@contextmanager
def sqlalchemy_connection(address: str) -> Iterator[Caller]:
    engine = engine_of(address)
    with engine.connect() as connection:
        yield connection, connection.commit, connection.rollback
    engine.dispose()


@contextmanager
def sqlalchemy_session(address: str) -> Iterator[Caller]:
    engine = engine_of(address)
    with sqlalchemy.orm.Session(engine) as session:
        yield session, session.commit, session.rollback
    engine.dispose()


CALLERS = [plain, dict_rows, sqlalchemy_connection, sqlalchemy_session]


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("caller", CALLERS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("commits", [True, False])
def test_a_verb_commits_with_the_callers_work(
    db: brant.Database, address: str, caller: Callable[..., Caller], commits: bool
) -> None:
    queue = db.queue("q")
    with caller(address) as (connection, commit, rollback):  # type: ignore[attr-defined]
        queue.enqueue({"n": 1}, tx=connection)
        db.stream("s").publish(1, tx=connection)
        assert queue.stats().pending == 0
        (commit if commits else rollback)()
    assert queue.stats().pending == int(commits)
    assert [event.payload for event in db.stream("s").read()] == [1] * commits


def test_a_connection_in_autocommit_mode_commits_each_verb(db: brant.Database, address: str) -> None:
    queue = db.queue("q")
    with psycopg.connect(address, autocommit=True) as connection:
        queue.enqueue(1, tx=connection)
        assert queue.stats().pending == 1
        with pytest.raises(KeyError), connection.transaction():
            queue.enqueue(2, tx=connection)
            raise KeyError
    assert queue.stats().pending == 1


def test_a_verb_that_fails_leaves_the_callers_transaction_usable(db: brant.Database, address: str) -> None:
    queue = db.queue("q")
    with psycopg.connect(address) as connection:
        queue.enqueue("kept", tx=connection)
        with pytest.raises(ValueError, match="NUL"):
            queue.enqueue("fails", unique_key="a\0b", tx=connection)
        connection.commit()
    assert queue.stats().pending == 1


def test_what_the_caller_set_on_its_connection_stays(db: brant.Database, address: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute("SET search_path = pg_catalog")
        connection.execute("SET statement_timeout = 12345")
        db.queue("q").enqueue(1, tx=connection)
        assert connection.execute("SHOW search_path").fetchone() == ("pg_catalog",)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("12345ms",)
        assert connection.execute("SELECT CAST(1 AS float8)").fetchone() == (1.0,)
    assert db.queue("q").stats().pending == 1


def test_a_connection_to_another_database_is_refused(
    db: brant.Database, postgres_server: Server, bare_address: str
) -> None:
    with psycopg.connect(bare_address) as other, pytest.raises(TransactionError, match="is open on the database"):
        db.queue("q").enqueue(1, tx=other)


def test_what_can_not_be_written_on_is_refused_with_the_reason(db: brant.Database, address: str) -> None:
    queue = db.queue("q")
    closed = psycopg.connect(address)
    closed.close()
    with pytest.raises(TransactionError, match="closed"):
        queue.enqueue(1, tx=closed)
    with psycopg.connect(address) as failed:
        with pytest.raises(psycopg.errors.SyntaxError):
            failed.execute("nonsense")
        with pytest.raises(TransactionError, match="has failed: roll it back"):
            queue.enqueue(1, tx=failed)
    for nonsense in (object(), "tx", engine_of(address)):
        with pytest.raises(TransactionError, match="tx= takes"):
            queue.enqueue(1, tx=nonsense)


def test_a_statement_of_the_users_that_fails_undoes_the_transaction_and_says_so(db: brant.Database) -> None:
    queue = db.queue("q")
    with pytest.raises(TransactionError, match="undoes the whole of it"), db.transaction() as tx:
        queue.enqueue(1, tx=tx)
        with pytest.raises(brant.BrantError):
            tx.execute("nonsense")
    assert queue.stats().pending == 0
