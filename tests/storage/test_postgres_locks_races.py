"""Locks, rate limits, unique keys and results on Postgres, asked for by many at once."""

from __future__ import annotations

import pytest

from brant.storage.base import Storage
from tests.storage.side_by_side import Clients, clients
from tests.waiting import PATIENCE_S, in_thread

__all__ = ["clients"]

MANY = 8


def acquire(storage: Storage, owner: str, ttl: float = 60) -> bool:
    with storage.transaction() as session:
        return session.acquire_lock("l", owner, ttl)


@pytest.mark.guarantee("G15")
def test_a_lock_is_taken_by_one_of_many(clients: Clients) -> None:
    for _ in range(10):
        taken = clients.at_once(MANY, lambda storage, number: acquire(storage, str(number)))
        assert sum(taken) == 1
        with clients.new().transaction() as session:
            assert session.release_lock("l", str(taken.index(True)))


@pytest.mark.guarantee("G15")
def test_a_lock_that_goes_from_hand_to_hand_is_never_in_two(clients: Clients) -> None:
    holders: list[int] = []

    def work(storage: Storage, number: int) -> int:
        taken = 0
        while taken < 20:
            if acquire(storage, str(number)):
                holders.append(number)
                assert holders == [number]
                holders.clear()
                taken += 1
                with storage.transaction() as session:
                    assert session.release_lock("l", str(number))
        return taken

    assert sum(clients.at_once(4, work)) == 80


@pytest.mark.guarantee("G15")
def test_a_lock_that_ran_out_is_taken_over_by_one_of_many(clients: Clients) -> None:
    acquire(clients.new(), "gone", 10)
    clients.clock.advance(10)
    assert sum(clients.at_once(MANY, lambda storage, number: acquire(storage, str(number)))) == 1


def test_who_asks_in_vain_does_not_keep_the_holder_from_renewing(clients: Clients) -> None:
    storage = clients.new()
    assert acquire(storage, "holder")
    asking = clients.begin()
    assert not asking.session.acquire_lock("l", "other", 60)
    with storage.transaction() as session:
        assert session.renew_lock("l", "holder", 120)
        assert session.release_lock("l", "holder")
    asking.commit()


def test_a_lock_that_is_taken_in_an_open_transaction_is_waited_for(clients: Clients) -> None:
    taking = clients.begin()
    assert taking.session.acquire_lock("l", "first", 60)
    asking = in_thread(acquire, clients.new(), "second")
    clients.wait_until_blocked()
    taking.roll_back()
    assert asking.result(PATIENCE_S)


def test_a_rate_limit_lets_no_more_pass_than_its_limit(clients: Clients) -> None:
    def work(storage: Storage, _: int) -> int:
        passed = 0
        for _ in range(25):
            with storage.transaction() as session:
                passed += session.try_rate_limit("r", 100, 3600)
        return passed

    assert sum(clients.at_once(MANY, work)) == 100


def test_a_result_that_many_save_is_that_of_one(clients: Clients) -> None:
    def work(storage: Storage, number: int) -> None:
        with storage.transaction() as session:
            session.save_result(7, str(number), 0)

    clients.at_once(MANY, work)
    with clients.new().reading() as session:
        assert session.get_result(7)[1] in [str(number) for number in range(MANY)]


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("held_for", [None, 60])
def test_a_unique_key_that_many_want_has_one_job(clients: Clients, held_for: float | None) -> None:
    def work(storage: Storage, number: int) -> int:
        with storage.transaction() as session:
            return session.enqueue("q", str(number), unique_key="k", unique_for=held_for)

    assert len(set(clients.at_once(MANY, work))) == 1
    with clients.new().reading() as session:
        assert session.queue_counts("q").pending == 1


@pytest.mark.guarantee("G18")
def test_a_unique_key_of_an_open_transaction_is_waited_for_and_free_if_that_is_rolled_back(clients: Clients) -> None:
    def enqueue(storage: Storage) -> int:
        with storage.transaction() as session:
            return session.enqueue("q", "2", unique_key="k")

    first = clients.begin()
    lost = first.session.enqueue("q", "1", unique_key="k")
    second = in_thread(enqueue, clients.new())
    clients.wait_until_blocked()
    first.roll_back()
    assert second.result(PATIENCE_S) != lost


@pytest.mark.guarantee("G18")
def test_a_key_whose_job_ends_while_it_is_asked_for_has_one_job_at_most(clients: Clients) -> None:
    storage = clients.new()
    for _ in range(20):
        with storage.transaction() as session:
            session.enqueue("q", "0", unique_key="k")

        def work(own: Storage, number: int) -> None:
            with own.transaction() as session:
                if number:
                    session.enqueue("q", str(number), unique_key="k")
                else:
                    session.take("q", 1)

        clients.at_once(3, work)
        with storage.transaction() as session:
            assert session.queue_counts("q").pending <= 1
            session.delete_queue("q")
