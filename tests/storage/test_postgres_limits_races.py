"""Limits on Postgres hold however many claim, settle and enqueue at the same time."""

from __future__ import annotations

import threading
from itertools import chain

import pytest

from brant.storage.base import Storage
from brant.storage.limits import LimitRow
from brant.testing import FakeClock
from tests.storage.side_by_side import Clients, clients
from tests.waiting import PATIENCE_S, in_thread

__all__ = ["clients"]

WORKERS = 8
ONE = LimitRow("k", 1, None, None)


def enqueue(storage: Storage, count: int = 1, limit: LimitRow | None = ONE) -> list[int]:
    with storage.transaction() as session:
        return session.enqueue_many("q", ["1"] * count, limit=limit)


def claim(storage: Storage, most: int = -1, worker: str = "w") -> list[int]:
    with storage.transaction() as session:
        return [job.id for job, _ in session.claim("q", worker, most, 60)]


def ack(storage: Storage, job_id: int, worker: str = "w") -> bool:
    with storage.transaction() as session:
        return session.ack(job_id, worker)


def limits(storage: Storage) -> list[LimitRow]:
    with storage.reading() as session:
        return session.list_limits("q")


class Running:
    """What runs in all threads: added to after the claim was committed, taken from before the ack."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: set[int] = set()
        self.most = 0
        self.done: list[int] = []

    def started(self, ids: list[int]) -> None:
        with self._lock:
            self._now.update(ids)
            self.most = max(self.most, len(self._now))

    def ended(self, job_id: int) -> None:
        with self._lock:
            self._now.remove(job_id)
            self.done.append(job_id)


@pytest.mark.parametrize("key", ["k", ""])
def test_no_more_run_at_once_than_the_limit_however_many_claim(clients: Clients, key: str) -> None:
    storage = clients.new()
    ids = enqueue(storage, 120, LimitRow(key, 3, None, None) if key else None)
    if not key:
        with storage.transaction() as session:
            session.set_limit("q", LimitRow("", 3, None, None))
    running = Running()

    def work(own: Storage, number: int) -> None:
        worker = f"w{number}"
        while len(running.done) < len(ids):
            claimed = claim(own, 2, worker)
            running.started(claimed)
            for job_id in claimed:
                running.ended(job_id)
                assert ack(own, job_id, worker)

    clients.at_once(WORKERS, work)
    assert sorted(running.done) == ids
    assert 1 <= running.most <= 3


def test_no_more_start_in_a_window_than_the_limit_however_many_claim(clients: Clients, clock: FakeClock) -> None:
    ids = enqueue(clients.new(), 40, LimitRow("k", None, 5, 60))
    first = clients.at_once(WORKERS, lambda storage, number: claim(storage, 2, f"w{number}"))
    assert sorted(chain.from_iterable(first)) == ids[:5]
    clock.advance(60)
    second = clients.at_once(WORKERS, lambda storage, number: claim(storage, 2, f"w{number}"))
    assert sorted(chain.from_iterable(second)) == ids[5:10]


def test_a_job_that_is_held_back_while_the_one_before_it_ends_is_not_forgotten(clients: Clients) -> None:
    storage = clients.new()
    first, second = enqueue(storage, 2)
    assert claim(storage, 1) == [first]
    ending = clients.begin()
    assert ending.session.ack(first, "w")
    assert claim(storage) == []
    ending.commit()
    with storage.reading() as session:
        assert session.claimable("q").now
    assert claim(storage) == [second]


def test_the_end_of_a_job_that_is_rolled_back_leaves_no_room(clients: Clients) -> None:
    storage = clients.new()
    first, _ = enqueue(storage, 2)
    claim(storage, 1)
    ending = clients.begin()
    assert ending.session.ack(first, "w")
    ending.roll_back()
    assert claim(storage) == []


def test_an_open_transaction_that_ended_a_job_keeps_no_claim_waiting(clients: Clients) -> None:
    storage = clients.new()
    first, _ = enqueue(storage, 2)
    other = enqueue(storage, 2, ONE._replace(key="other"))
    assert claim(storage) == [first, other[0]]
    ending = clients.begin()
    assert ending.session.ack(first, "w")
    assert ack(storage, other[0])
    assert claim(storage) == [other[1]]
    ending.commit()


def test_an_open_transaction_that_cancels_a_job_held_back_keeps_no_claim_waiting(clients: Clients) -> None:
    storage = clients.new()
    first, second, third = enqueue(storage, 3)
    claim(storage)
    cancelling = clients.begin()
    assert cancelling.session.cancel(second)
    assert ack(storage, first)
    assert claim(storage) == [third]
    cancelling.roll_back()
    assert ack(storage, third)
    assert claim(storage) == [second]


def test_a_job_held_back_whose_cancelling_was_undone_is_looked_for_again(clients: Clients, clock: FakeClock) -> None:
    storage = clients.new()
    first, second = enqueue(storage, 2)
    claim(storage)
    cancelling = clients.begin()
    assert cancelling.session.cancel(second)
    assert ack(storage, first)
    assert claim(storage) == []
    cancelling.roll_back()
    clock.advance(60)
    assert claim(storage) == [second]


def test_open_transactions_that_enqueue_under_one_key_do_not_wait_for_each_other(clients: Clients) -> None:
    first, second = clients.begin(), clients.begin()
    enqueue(clients.new())
    for transaction in (first, second):
        transaction.session.enqueue("q", "1", limit=ONE)
    second.commit()
    first.commit()
    assert len(claim(clients.new())) == 1


def test_the_limit_of_a_key_whose_last_job_ends_while_another_comes_still_holds(clients: Clients) -> None:
    storage = clients.new()
    (last,) = enqueue(storage)
    claim(storage)
    coming = clients.begin()
    new = coming.session.enqueue_many("q", ["1", "2"], limit=ONE)
    assert ack(storage, last)
    assert claim(storage) == []
    coming.commit()
    assert limits(storage) == [ONE]
    assert claim(storage) == new[:1]


def test_a_key_that_is_being_forgotten_is_there_for_whoever_comes_then(clients: Clients) -> None:
    storage = clients.new()
    (last,) = enqueue(storage)
    claim(storage)
    ack(storage, last)
    forgetting = clients.begin()
    assert forgetting.session.forget_unused_limits() == 1
    coming = in_thread(enqueue, storage, 2)
    clients.wait_until_blocked()
    forgetting.commit()
    new = coming.result(PATIENCE_S)
    assert limits(storage) == [ONE]
    assert claim(storage) == new[:1]


def test_keys_are_forgotten_and_used_again_by_many_without_a_limit_being_lost(clients: Clients) -> None:
    running = Running()

    def work(storage: Storage, number: int) -> None:
        worker = f"w{number}"
        for _ in range(20):
            enqueue(storage)
            for job_id in claim(storage, 1, worker):
                running.started([job_id])
                running.ended(job_id)
                assert ack(storage, job_id, worker)

    clients.at_once(4, work)
    assert running.most == 1
