"""Batches on Postgres are counted exactly and settled once, however many settle their jobs at the same time."""

from __future__ import annotations

import pytest

from brant.errors import BrantError, InvalidValue
from brant.storage.base import Storage
from brant.storage.batches import BatchRow
from tests.storage.side_by_side import Clients, clients

__all__ = ["clients"]

WORKERS = 8
THEN = {
    "then_queue": "done",
    "then_payload": "{}",
    "then_path": "$.batch",
    "then_priority": 0,
    "then_max_attempts": 3,
    "then_expires_s": None,
}


def batch_of(storage: Storage, count: int, batch_id: int = 1, queue: str = "q") -> list[int]:
    """A sealed batch with so many jobs."""
    with storage.transaction() as session:
        session.create_batch(batch_id, "null", 60, THEN)
        ids = session.enqueue_many(queue, ["1"] * count)
        session.join_batch(batch_id, ids)
        session.seal_batch(batch_id)
    return ids


def claim(storage: Storage, most: int = -1, worker: str = "w") -> list[int]:
    with storage.transaction() as session:
        return [job.id for job, _ in session.claim("q", worker, most, 60)]


def numbers(storage: Storage, batch_id: int = 1) -> BatchRow:
    with storage.reading() as session:
        batch = session.get_batch(batch_id)
    assert batch is not None
    return batch


def callbacks(storage: Storage) -> int:
    with storage.reading() as session:
        return session.queue_counts("done").pending


def test_the_counts_are_exact_and_the_callback_comes_once_however_many_settle(clients: Clients) -> None:
    storage = clients.new()
    batch_of(storage, 200)

    def work(own: Storage, number: int) -> tuple[int, int, int]:
        worker, ended = f"w{number}", [0, 0, 0]
        while claimed := claim(own, 3, worker):
            for position, job_id in enumerate(claimed):
                with own.transaction() as session:
                    match position:
                        case 0:
                            assert session.ack(job_id, worker)
                        case 1:
                            assert session.fail(job_id, worker, "no")
                        case _:
                            assert session.cancel(job_id)
                ended[position] += 1
        return ended[0], ended[1], ended[2]

    ended = [sum(part) for part in zip(*clients.at_once(WORKERS, work), strict=True)]
    batch = numbers(storage)
    assert [batch.succeeded, batch.dead, batch.cancelled] == ended
    assert (batch.total, batch.settled, callbacks(storage)) == (200, 1, 1)


def test_an_open_transaction_that_settles_a_job_keeps_no_other_waiting(clients: Clients) -> None:
    storage = clients.new()
    first, second = batch_of(storage, 2)
    claim(storage)
    slow = clients.begin()
    assert slow.session.ack(first, "w")
    with storage.transaction() as session:
        assert session.ack(second, "w")
    assert (numbers(storage).succeeded, callbacks(storage)) == (1, 0)
    slow.commit()
    assert (numbers(storage).succeeded, callbacks(storage)) == (2, 1)


def test_an_open_transaction_that_adds_a_job_keeps_no_other_waiting(clients: Clients) -> None:
    storage = clients.new()
    (first,) = batch_of(storage, 1)
    claim(storage)
    adding = clients.begin()
    assert adding.session.join_batch(1, [adding.session.enqueue("q", "1")]) == 1
    with storage.transaction() as session:
        session.create_batch(2, "null", 60)
        session.seal_batch(2)
    adding.commit()
    assert numbers(storage).total == 2
    with storage.transaction() as session:
        assert session.ack(first, "w")
    assert callbacks(storage) == 0


def test_a_transaction_sees_what_it_has_counted(clients: Clients) -> None:
    storage = clients.new()
    first, _ = batch_of(storage, 2)
    with storage.transaction() as session:
        session.cancel(first)
        batch = session.get_batch(1)
        assert batch is not None
        assert (batch.total, batch.cancelled) == (2, 1)
    assert numbers(storage).cancelled == 1


def test_the_cost_of_settling_many_members_in_one_transaction_grows_with_their_number_only(clients: Clients) -> None:
    """Each with each would be 400 million steps, and the server gives up long before."""
    storage = clients.new()
    ids = batch_of(storage, 20_000)
    with storage.transaction() as session:
        session.claim("q", "w", -1, 60)
    with storage.transaction() as session:
        assert session.ack_many(ids, "w") == 20_000
    assert (numbers(storage).succeeded, callbacks(storage)) == (20_000, 1)


def test_what_is_rolled_back_is_not_counted(clients: Clients) -> None:
    storage = clients.new()
    first, _ = batch_of(storage, 2)
    lost = clients.begin()
    lost.session.cancel(first)
    lost.roll_back()
    assert numbers(storage).cancelled == 0


def test_jobs_of_several_batches_are_settled_together_in_any_order_without_a_deadlock(clients: Clients) -> None:
    storage = clients.new()
    groups = [batch_of(storage, WORKERS, batch_id) for batch_id in (1, 2, 3)]
    claim(storage)

    def work(own: Storage, number: int) -> int:
        ids = [group[number] for group in groups]
        with own.transaction() as session:
            return sum(session.ack(job_id, "w") for job_id in (ids if number % 2 else reversed(ids)))

    assert sum(clients.at_once(WORKERS, work)) == 3 * WORKERS
    assert [numbers(storage, batch_id).succeeded for batch_id in (1, 2, 3)] == [WORKERS] * 3
    assert callbacks(storage) == 3


def test_a_job_that_is_acked_and_cancelled_at_the_same_time_is_counted_once(clients: Clients) -> None:
    storage = clients.new()
    ids = batch_of(storage, 60)
    claim(storage)

    def work(own: Storage, number: int) -> int:
        done = 0
        for job_id in ids:
            with own.transaction() as session:
                done += session.ack(job_id, "w") if number % 2 else session.cancel(job_id)
        return done

    assert sum(clients.at_once(4, work)) == 60
    batch = numbers(storage)
    assert batch.succeeded + batch.cancelled == batch.total == 60
    assert callbacks(storage) == 1


def test_a_batch_that_is_sealed_while_its_last_job_ends_is_settled_once(clients: Clients) -> None:
    storage = clients.new()
    for batch_id in range(1, 21):
        with storage.transaction() as session:
            session.create_batch(batch_id, "null", 60, THEN)
            job_id = session.enqueue("q", "1")
            session.join_batch(batch_id, [job_id])

        def work(own: Storage, number: int, batch_id: int = batch_id, job_id: int = job_id) -> None:
            with own.transaction() as session:
                if number:
                    session.seal_batch(batch_id)
                else:
                    session.cancel(job_id)

        clients.at_once(2, work)
        assert numbers(storage, batch_id).settled == 1
    assert callbacks(storage) == 20


def test_what_is_added_to_a_batch_that_is_settled_meanwhile_is_refused_as_a_whole(clients: Clients) -> None:
    storage = clients.new()
    with storage.transaction() as session:
        session.create_batch(1, "null", 60)
    adding = clients.begin()
    adding.session.join_batch(1, [adding.session.enqueue("late", "1")])
    with storage.transaction() as session:
        session.seal_batch(1)
    with pytest.raises(InvalidValue, match="batch 1 was settled at the same time"):
        adding.commit()
    with storage.reading() as session:
        assert not session.queue_has_rows("late")
    assert numbers(storage).total == 0


def test_a_job_can_not_end_between_joining_a_batch_and_the_commit_of_that(clients: Clients) -> None:
    storage = clients.new()
    with storage.transaction() as session:
        session.create_batch(1, "null", 60, THEN)
        job_id = session.enqueue("q", "1")

    def work(own: Storage, number: int) -> None:
        with own.transaction() as session:
            if number:
                try:
                    session.join_batch(1, [job_id])
                except BrantError:
                    return
            else:
                session.cancel(job_id)

    clients.at_once(2, work)
    with storage.transaction() as session:
        session.seal_batch(1)
    batch = numbers(storage)
    assert batch.total == batch.cancelled
    assert (batch.settled, callbacks(storage)) == (1, 1)
