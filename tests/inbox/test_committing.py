"""Commits of what was received: synced, shared, each request for itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import brant
from brant.inbox import Endpoint
from tests.inbox.tiny import dead_jobs, jobs, send, signed, tiny
from tests.looping import run
from tests.waiting import PATIENCE_S, in_thread, write_lock_held

BODY = b'{"id": "e1", "type": "t"}'


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


def test_one_that_can_not_be_stored_fails_alone(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    send(endpoint, "e0")
    with inbox.db.transaction() as tx:
        tx.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON knocker_deliveries WHEN NEW.dedupe_key = 'bad'"
            " BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        # The first one waits for the lock that this holds, and the others for their common commit after it.
        waiting = [in_thread(send_any, endpoint, "first")]
        until_pending(inbox, 0)
        for number, key in enumerate(("a", "bad", "b"), start=1):
            waiting.append(in_thread(send_any, endpoint, key))
            until_pending(inbox, number)
    answers = [each.result(PATIENCE_S) for each in waiting]
    assert answers == [204, 204, 503, 204]
    assert {event.dedupe_key for event in inbox.list_events()} == {"e0", "first", "a", "b"}
    assert (jobs(inbox), len(inbox.list_deliveries())) == (4, 4)


def send_any(endpoint: Endpoint, key: str) -> int:
    body = f'{{"id": "{key}"}}'.encode()
    return endpoint.receive(body, signed(body)).status_code


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


def test_whoever_stops_waiting_spoils_nobody_elses_answer(inbox: brant.Inbox, path: Path) -> None:
    endpoint = tiny(inbox)
    send(endpoint, "e0")

    async def impatient() -> None:
        with write_lock_held(path):
            waiting = []
            for number, key in enumerate(("first", "a", "b", "c")):
                body = f'{{"id": "{key}"}}'.encode()
                waiting.append(asyncio.create_task(endpoint.receive_async(body, signed(body))))
                await asyncio.to_thread(until_pending, inbox, number)
            gives_up = waiting.pop(2)
            gives_up.cancel()
            await asyncio.wait([gives_up])
        answers = await asyncio.gather(*waiting)
        assert [answer.status_code for answer in answers] == [204] * 3

    run(impatient())


def until_pending(inbox: brant.Inbox, count: int) -> None:
    """Until so many wait behind the group that is being committed."""
    committer = inbox._committing()
    for _ in range(10 * PATIENCE_S):
        with committer._changed:
            if committer.is_committing and len(committer._pending) == count:
                return
            committer._changed.wait(0.1)
    raise AssertionError(f"never were {count} pending")
