"""Enqueues on Postgres do not wait for each other's transactions, and ids grow in spite of that."""

from __future__ import annotations

import pytest

from brant.storage.base import Storage
from tests.storage.side_by_side import Clients, clients

__all__ = ["clients"]


def enqueue(storage: Storage, queue: str = "new") -> int:
    with storage.transaction() as session:
        return session.enqueue(queue, "1")


def names(storage: Storage) -> list[str]:
    with storage.reading() as session:
        return session.queue_names()


@pytest.mark.parametrize("commits", [True, False])
def test_an_open_transaction_that_enqueues_to_a_new_queue_keeps_no_other_waiting(
    clients: Clients, commits: bool
) -> None:
    storage, slow = clients.new(), clients.begin()
    slow.session.enqueue("new", "1")
    slow.session.enqueue_many("new", ["2"])
    enqueue(storage)
    with storage.transaction() as session:
        session.enqueue_many("new", ["3"])
    assert names(storage) == ["new"]
    if commits:
        slow.commit()
    else:
        slow.roll_back()
    with storage.reading() as session:
        assert session.queue_counts("new").pending == (4 if commits else 2)


def test_ids_are_unique_and_grow_however_many_enqueue(clients: Clients) -> None:
    def work(storage: Storage, _: int) -> list[int]:
        ids = []
        for step in range(30):
            with storage.transaction() as session:
                ids += session.enqueue_many("q", ["1"] * 5) if step % 3 == 0 else [session.enqueue("q", "1")]
        return ids

    of_each = clients.at_once(8, work)
    assert all(ids == sorted(ids) for ids in of_each)
    assert len({job_id for ids in of_each for job_id in ids}) == 8 * (10 * 5 + 20)


def test_an_open_transaction_holds_no_id_back(clients: Clients) -> None:
    storage, slow = clients.new(), clients.begin()
    early = slow.session.enqueue("q", "1")
    late = enqueue(storage, "q")
    assert early < late
    slow.commit()
