"""Transactions, readers, doorbells, and the end of it all."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from brant.errors import DatabaseClosed, StorageError, TransactionError
from brant.storage.base import Storage
from brant.storage.subscription import Subscription
from tests.conformance.conftest import Backend

WAKE_UP_S = 10


class Regret(Exception):
    pass


def pending(storage: Storage) -> int:
    with storage.reading() as session:
        return session.queue_counts("q").pending


def roll_back_an_enqueue(storage: Storage) -> None:
    with pytest.raises(Regret), storage.transaction() as session:
        session.enqueue("q", "1")
        raise Regret


# Commit and rollback


@pytest.mark.guarantee("G1")
def test_what_was_committed_is_seen_by_every_client(backend: Backend, storage: Storage) -> None:
    other = backend.open()
    with storage.transaction() as session:
        session.enqueue("q", "1")
        session.publish("t", None, "1")
    for client in (storage, other):
        with client.reading() as session:
            assert (session.queue_counts("q").pending, len(session.read_stream("t", 0, -1))) == (1, 1)


@pytest.mark.guarantee("G1")
def test_an_exception_rolls_everything_back(storage: Storage) -> None:
    roll_back_an_enqueue(storage)
    assert pending(storage) == 0
    with storage.transaction() as session:
        session.enqueue("q", "2")
    assert pending(storage) == 1


@pytest.mark.guarantee("G16")
def test_a_savepoint_undoes_its_block_and_the_transaction_goes_on(storage: Storage) -> None:
    with storage.transaction() as session:
        before = session.enqueue("q", "1")
        with pytest.raises(Regret), session.savepoint():
            session.cancel(before)
            session.enqueue("q", "2")
            raise Regret
        with session.savepoint():
            after = session.enqueue("q", "3")
    with storage.reading() as session:
        assert [row.id for row in session.peek("q", 10)] == [before, after]


@pytest.mark.guarantee("G16")
def test_savepoints_nest(storage: Storage) -> None:
    with storage.transaction() as session, session.savepoint():
        kept = session.enqueue("q", "1")
        with pytest.raises(Regret), session.savepoint():
            session.enqueue("q", "2")
            raise Regret
    with storage.reading() as session:
        assert [row.id for row in session.peek("q", 10)] == [kept]


def test_a_nested_transaction_is_refused_and_the_outer_one_goes_on(storage: Storage) -> None:
    with storage.transaction() as session:
        session.enqueue("q", "1")
        with pytest.raises(TransactionError, match="nested"), storage.transaction():
            pass
        session.enqueue("q", "2")
    assert pending(storage) == 2


def test_in_transaction_is_about_the_thread_that_asks(storage: Storage) -> None:
    asked_elsewhere: list[bool] = []
    assert not storage.in_transaction()
    with storage.transaction():
        thread = threading.Thread(target=lambda: asked_elsewhere.append(storage.in_transaction()))
        thread.start()
        thread.join()
        assert storage.in_transaction()
    assert not storage.in_transaction()
    assert asked_elsewhere == [False]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_transactions_of_threads_run_one_after_the_other(storage: Storage) -> None:
    def enqueue() -> None:
        for _ in range(20):
            with storage.transaction() as session:
                session.enqueue("q", str(session.queue_counts("q").pending))

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with storage.reading() as session:
        assert [row.payload for row in session.peek("q", 100)] == [str(number) for number in range(80)]


# The caller's own statements and connection


def test_statements_of_the_user_are_part_of_the_transaction(storage: Storage) -> None:
    with storage.transaction():
        session = storage.user_session()
        session.execute("CREATE TABLE orders (n INTEGER)", ())
        session.execute("INSERT INTO orders VALUES (42)", ())
        assert session.query("SELECT n, n + 1 AS next FROM orders", ()) == [{"n": 42, "next": 43}]
    with pytest.raises(Regret), storage.transaction():
        storage.user_session().execute("DELETE FROM orders", ())
        raise Regret
    with storage.reading() as session:
        assert session.query("SELECT n FROM orders", ()) == [{"n": 42}]


@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT nonsense FROM nowhere"])
def test_what_execute_can_not_run_is_a_storage_error(storage: Storage, statement: str) -> None:
    with pytest.raises(StorageError), storage.transaction():
        storage.user_session().execute(statement, ())


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("commits", [True, False])
def test_what_is_written_on_the_callers_connection_commits_with_the_callers_work(
    backend: Backend, storage: Storage, commits: bool
) -> None:
    connection = backend.connect_plainly()
    storage.adopt(connection).enqueue("q", "1")
    assert pending(storage) == 0
    if commits:
        connection.commit()
    else:
        connection.rollback()
    connection.close()
    assert pending(storage) == int(commits)


# Reading


@pytest.mark.guarantee("G8")
def test_a_reader_neither_waits_for_an_open_transaction_nor_sees_it(backend: Backend, storage: Storage) -> None:
    other = backend.open()
    with storage.transaction() as session:
        session.enqueue("q", "1")
        assert (pending(storage), pending(other)) == (0, 0)
    assert (pending(storage), pending(other)) == (1, 1)


@pytest.mark.guarantee("G8")
def test_a_reader_does_not_hold_up_a_writer(storage: Storage) -> None:
    with storage.reading() as reader:
        reader.peek("q", 1)
        with storage.transaction() as session:
            session.enqueue("q", "1")
    assert pending(storage) == 1


@pytest.mark.guarantee("G8")
def test_a_reader_refuses_to_write(storage: Storage) -> None:
    with storage.reading() as session, pytest.raises(StorageError):
        session.enqueue("q", "1")
    assert pending(storage) == 0


# Doorbells


def commit(storage: Storage) -> None:
    with storage.transaction() as session:
        session.enqueue("q", "1")


@pytest.mark.guarantee("G9")
def test_a_commit_of_the_same_client_rings_at_once(storage: Storage) -> None:
    subscription = storage.subscribe()
    commit(storage)
    assert subscription.wait(0)


@pytest.mark.guarantee("G9")
def test_a_commit_of_another_client_rings(backend: Backend, storage: Storage) -> None:
    subscription = storage.subscribe()
    commit(backend.open())
    assert subscription.wait(WAKE_UP_S)


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("quiet", [roll_back_an_enqueue, pending])
def test_neither_a_rollback_nor_a_read_rings(storage: Storage, quiet: Callable[[Storage], object]) -> None:
    subscription = storage.subscribe()
    quiet(storage)
    assert not subscription.wait(0)


@pytest.mark.guarantee("G8")
def test_a_transaction_that_changed_nothing_does_not_ring(storage: Storage) -> None:
    subscription = storage.subscribe()
    with storage.transaction() as session:
        session.claim("q", "w", 1, 60)
    assert not subscription.wait(0)


def test_what_was_committed_before_subscribing_does_not_ring(storage: Storage) -> None:
    commit(storage)
    assert not storage.subscribe().wait(0)


def test_commits_before_a_wait_ring_once(storage: Storage) -> None:
    subscription = storage.subscribe()
    for _ in range(3):
        commit(storage)
    assert [subscription.wait(0), subscription.wait(0)] == [True, False]


def test_wake_rings_every_doorbell(storage: Storage) -> None:
    subscriptions = [storage.subscribe() for _ in range(3)]
    storage.wake()
    assert all(subscription.wait(0) for subscription in subscriptions)


# Health, and the end


def test_a_database_that_is_fine_says_so(storage: Storage) -> None:
    storage.retire_old_layout()
    health = storage.health()
    assert health.ok, health.problems


def waited_in_vain(subscription: Subscription, answers: list[BaseException]) -> None:
    try:
        subscription.wait(WAKE_UP_S)
    except DatabaseClosed as error:
        answers.append(error)


def test_closing_ends_everybody_who_waits(storage: Storage) -> None:
    answers: list[BaseException] = []
    subscription = storage.subscribe()
    waiter = threading.Thread(target=waited_in_vain, args=(subscription, answers))
    waiter.start()
    storage.close()
    waiter.join()
    assert len(answers) == 1


def test_a_closed_database_refuses_everything_and_closing_twice_is_harmless(backend: Backend, storage: Storage) -> None:
    connection = backend.connect_plainly()
    storage.require_open()
    storage.close()
    storage.close()
    refused: list[Callable[[], object]] = [
        storage.require_open,
        storage.subscribe,
        lambda: storage.adopt(connection),
        lambda: storage.transaction().__enter__(),
        lambda: storage.reading().__enter__(),
    ]
    for call in refused:
        with pytest.raises(DatabaseClosed):
            call()
    connection.close()


def test_closing_inside_a_transaction_is_refused_and_loses_nothing(storage: Storage) -> None:
    with storage.transaction() as session:
        session.enqueue("q", "1")
        with pytest.raises(TransactionError):
            storage.close()
    assert pending(storage) == 1


def test_what_was_committed_is_there_when_the_database_is_opened_again(backend: Backend, storage: Storage) -> None:
    commit(storage)
    storage.close()
    assert pending(backend.open()) == 1
