"""Commits of what was received: synced, shared, each request for itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import brant
from brant.inbox import Received
from brant.inbox.committing import Committer
from tests.inbox.tiny import dead_jobs, jobs, send, signed, tiny
from tests.looping import run
from tests.waiting import PATIENCE_S, in_thread, write_lock_held

BODY = b'{"id": "e1", "type": "t"}'


@pytest.mark.guarantee("G29")
def test_what_is_answered_is_synced_to_disk(inbox: brant.Inbox) -> None:
    send(tiny(inbox), "e1")
    assert inbox._durable is not None
    with inbox._durable.transaction() as tx:
        assert tx.query("PRAGMA synchronous") == [{"synchronous": 2}]


def test_a_relaxed_inbox_writes_by_the_databases_own_handle(db: brant.Database) -> None:
    with brant.Inbox(db, synchronous="NORMAL") as relaxed:
        send(tiny(relaxed), "e1")
        assert relaxed._durable is db


def test_requests_that_come_together_share_commits(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    send(endpoint, "e0")

    async def all_at_once() -> list[int]:
        bodies = [f'{{"id": "n{n}"}}'.encode() for n in range(200)]
        answers = await asyncio.gather(*(endpoint.receive_async(body, signed(body)) for body in bodies))
        return [answer.status_code for answer in answers]

    assert inbox._durable is not None
    commits = _count_commits(inbox._durable)
    assert asyncio.run(all_at_once()) == [204] * 200
    assert len(inbox.list_events(limit=1000)) == 201
    assert 0 < len(commits) < 200


def _count_commits(db: brant.Database) -> list[int]:
    commits: list[int] = []
    commit = db._storage.commit  # type: ignore[attr-defined]

    def counted() -> None:
        commits.append(1)
        commit()

    db._storage.commit = counted  # type: ignore[attr-defined]
    return commits


def test_one_that_can_not_be_stored_fails_alone(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE kept (name TEXT CHECK (name <> 'bad'))")
    kept = Kept()
    committer = Committer(db, kept)
    first = committer.submit("first")
    kept.has_begun.wait(PATIENCE_S)
    # All of these wait while the first one is being stored, and have their common commit after it.
    waiting = [committer.submit(name) for name in ("a", "bad", "b")]
    kept.may_end.set()
    assert [each.result(PATIENCE_S).status_code for each in (first, *waiting)] == [204, 204, 503, 204]
    assert kept.groups == [["first"], ["a", "bad", "b"], ["a"], ["bad"], ["b"]]
    assert [row["name"] for row in db.query("SELECT name FROM kept")] == ["first", "a", "b"]
    committer.close()


class Kept:
    """Stores names in a table; the first time it waits until it may end."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.groups: list[list[str]] = []

    def __call__(self, tx: brant.Transaction, names: Sequence[str]) -> list[Received]:
        self.groups.append(list(names))
        for name in names:
            tx.execute("INSERT INTO kept VALUES (?)", [name])
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE_S)
        return [Received(204) for _ in names]


@pytest.mark.guarantee("G29")
def test_an_event_whose_job_can_not_be_enqueued_leaves_nothing(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    with inbox.db.transaction() as tx:
        tx.execute("CREATE TRIGGER refuse BEFORE INSERT ON _honker_live BEGIN SELECT RAISE(ABORT, 'refused'); END")
    assert endpoint.receive(BODY, signed(BODY)).status_code == 503
    assert (inbox.list_events(), inbox.list_deliveries(), jobs(inbox), dead_jobs(inbox)) == ([], [], 0, 0)


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_receiving_inside_a_transaction_is_refused_and_does_not_wait_for_itself(
    db: brant.Database, synchronous: str
) -> None:
    with brant.Inbox(db, synchronous=synchronous) as inbox:
        endpoint = tiny(inbox)
        send(endpoint, "e0")
        for receive in (endpoint.receive, endpoint.ingest):
            with db.transaction(), pytest.raises(brant.BrantError, match="leave its block first"):
                receive(BODY, signed(BODY))


def test_what_is_ingested_with_tx_commits_with_it(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    with pytest.raises(ZeroDivisionError), inbox.db.transaction() as tx:
        assert endpoint.ingest(BODY, tx=tx).status_code == 204
        raise ZeroDivisionError
    assert (inbox.list_events(), jobs(inbox)) == ([], 0)
    with inbox.db.transaction() as tx:
        received = endpoint.ingest(BODY, tx=tx)
    assert (received.duplicate, len(inbox.list_events()), jobs(inbox)) == (False, 1, 1)


def test_a_closed_inbox_is_503(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    send(endpoint, "e1")
    inbox.close()
    assert endpoint.receive(BODY, signed(BODY)).status_code == 503


def test_a_closed_inbox_is_503_also_when_it_had_taken_nothing_before(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    inbox.close()
    assert endpoint.receive(b"{}", signed(b"{}")).status_code == 503
    assert inbox.list_deliveries() == []


def test_receiving_does_not_hold_up_the_event_loop(inbox: brant.Inbox, path: Path) -> None:
    endpoint = tiny(inbox)
    send(endpoint, "e0")

    async def meanwhile() -> None:
        with write_lock_held(path):
            waiting = asyncio.create_task(endpoint.receive_async(BODY, signed(BODY)))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
        assert (await waiting).status_code == 204

    run(meanwhile())


class Commits:
    """Of a small table, in an event loop of its own; notes the threads that they are made in."""

    def __init__(self, db: brant.Database) -> None:
        with db.transaction() as tx:
            tx.execute("CREATE TABLE kept (name TEXT CHECK (name <> 'bad'))")
        self.committer = Committer(db, self._store)
        self.pause_s = 0.0
        self.threads: list[int] = []

    def _store(self, tx: brant.Transaction, names: Sequence[str]) -> list[Received]:
        for name in names:
            tx.execute("INSERT INTO kept VALUES (?)", [name])
        time.sleep(self.pause_s)
        self.threads.append(threading.get_ident())
        return [Received(204) for _ in names]

    async def store(self, *names: str) -> list[int]:
        answers = await asyncio.gather(*(self.committer.store_async(name, own_loop=True) for name in names))
        return [answer.status_code for answer in answers]

    async def until_here(self) -> None:
        """The first ones are for a thread: nobody knows the disk yet."""
        for _ in range(100):
            assert await self.store("known") == [204]
            if self.threads[-1] == threading.get_ident():
                return
        raise AssertionError("all commits were made in a thread")


def test_an_event_loop_with_nothing_else_to_do_commits_itself_while_the_disk_is_quick(db: brant.Database) -> None:
    commits = Commits(db)

    async def serve() -> None:
        await commits.until_here()
        here, before = threading.get_ident(), len(commits.threads)
        assert await commits.store("a", "b", "c") == [204] * 3
        assert commits.threads[before:] == [here]  # in one
        commits.pause_s = 0.05
        await commits.store("slow")
        assert commits.threads[-1] == here
        await commits.store("slow again")
        assert commits.threads[-1] != here
        commits.pause_s = 0
        await commits.until_here()

    run(serve())
    commits.committer.close()


def test_of_those_that_a_loop_commits_one_that_can_not_be_stored_fails_alone(db: brant.Database) -> None:
    commits = Commits(db)

    async def serve() -> None:
        await commits.until_here()
        assert await commits.store("a", "bad", "b") == [204, 503, 204]

    run(serve())
    assert [row["name"] for row in db.query("SELECT name FROM kept WHERE name <> 'known'")] == ["a", "b"]
    commits.committer.close()


def test_a_locked_database_does_not_hold_up_a_loop_that_commits_itself(db: brant.Database, path: Path) -> None:
    commits = Commits(db)

    async def serve() -> None:
        await commits.until_here()
        with write_lock_held(path):
            waiting = asyncio.create_task(commits.store("patient"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting == [204]

    run(serve())
    commits.committer.close()


def test_whoever_stops_waiting_spoils_nobody_elses_answer(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE kept (name TEXT)")
    kept = Kept()
    committer = Committer(db, kept)

    async def impatient() -> None:
        first = asyncio.create_task(committer.store_async("first"))
        await asyncio.to_thread(kept.has_begun.wait, PATIENCE_S)
        waiting = [asyncio.create_task(committer.store_async(name)) for name in ("a", "b", "c")]
        await asyncio.sleep(0)
        gives_up = waiting.pop(1)
        gives_up.cancel()
        await asyncio.wait([gives_up])
        kept.may_end.set()
        assert [answer.status_code for answer in await asyncio.gather(first, *waiting)] == [204] * 3

    run(impatient())
    assert kept.groups == [["first"], ["a", "b", "c"]]
    committer.close()


def test_closing_waits_for_what_was_taken(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE kept (name TEXT)")
    kept = Kept()
    committer = Committer(db, kept)
    storing = in_thread(committer.store, "first")
    assert kept.has_begun.wait(PATIENCE_S)
    waiting = committer.submit("second")
    closing = in_thread(committer.close)
    kept.may_end.set()
    closing.result(PATIENCE_S)
    assert (storing.done() or storing.result(PATIENCE_S).status_code == 204, waiting.done()) == (True, True)
    with pytest.raises(brant.BrantError, match="closed"):
        committer.store("late")
