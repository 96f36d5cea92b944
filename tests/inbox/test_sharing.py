"""Handlers share transactions, or begin theirs late: faster, and nothing that was promised is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import brant
from brant.inbox import Event, RetryPolicy
from brant.inbox.paces import Paces
from brant.testing import FakeClock
from tests.inbox.tiny import QUEUE, jobs, outcomes, send, status, tiny, work
from tests.worker.observing import running

Tx = brant.Transaction
SLOTS = 8


@pytest.fixture(autouse=True)
def _ledger(timed: brant.Database) -> None:
    with timed.transaction() as tx:
        tx.execute("CREATE TABLE ledger (event INTEGER)")


def note(event: Event, tx: Tx) -> None:
    tx.execute("INSERT INTO ledger VALUES (?)", [event.id])


def ledger(inbox: brant.Inbox) -> list[int]:
    return [row["event"] for row in inbox.db.query("SELECT event FROM ledger ORDER BY event")]


def test_quick_handlers_that_are_due_together_share_commits(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    endpoint.add_handler(note)
    ids = [send(endpoint, str(number)) for number in range(200)]
    commits: list[int] = []
    commit = inbox.db._storage.commit  # type: ignore[attr-defined]

    def counted() -> None:
        commits.append(1)
        commit()

    inbox.db._storage.commit = counted  # type: ignore[attr-defined]
    with running(inbox.db, QUEUE, slots=SLOTS) as worker:
        worker.wait("success", 200)
    assert ledger(inbox) == ids
    assert len(commits) < 200


@pytest.mark.guarantee("G31")
def test_of_those_that_share_one_that_fails_is_rolled_back_alone(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, retry=RetryPolicy(max_attempts=1))

    @endpoint.handle()
    def fails_at_times(event: Event, tx: Tx) -> None:
        note(event, tx)
        if event.id % 3 == 0:
            raise ValueError("no luck")

    ids = [send(endpoint, str(number)) for number in range(60)]
    with running(inbox.db, QUEUE, slots=SLOTS) as worker:
        worker.wait("dead", 20)
        worker.wait("success", 40)
    good = [event_id for event_id in ids if event_id % 3]
    assert ledger(inbox) == good
    assert inbox.counts() == {"in": {"handled": 40, "dead": 20}}
    assert {tuple(outcomes(inbox, event_id)) for event_id in good} == {("handled",)}


@pytest.mark.guarantee("G31")
def test_a_handler_that_ends_the_shared_transaction_costs_the_others_nothing(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, retry=RetryPolicy(max_attempts=1))

    @endpoint.handle()
    def ends_it_at_times(event: Event, tx: Tx) -> None:
        note(event, tx)
        if event.id % 5 == 0:
            tx.execute("ROLLBACK")

    ids = [send(endpoint, str(number)) for number in range(40)]
    with running(inbox.db, QUEUE, slots=SLOTS) as worker:
        worker.wait("dead", 8)
        worker.wait("success", 32)
    assert ledger(inbox) == [event_id for event_id in ids if event_id % 5]


@pytest.mark.guarantee("G31")
def test_a_lease_that_is_lost_in_a_shared_transaction_leaves_nothing(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint, seen = tiny(inbox), []

    @endpoint.handle()
    def slow_once(event: Event, tx: Tx) -> None:
        note(event, tx)
        seen.append(event.id)
        if len(seen) == 2:
            clock.advance(61)

    ids = [send(endpoint, "known as quick")]
    work(inbox)
    ids += [send(endpoint, str(number)) for number in range(2)]
    with running(inbox.db, QUEUE, slots=1, scheduler=False) as worker:
        worker.wait("success", 2)
        assert len(worker.heard.all("lost")) == 1
    assert (len(seen), ledger(inbox)) == (4, ids)
    assert {tuple(outcomes(inbox, event_id)) for event_id in ids} == {("handled",)}


def test_a_handler_that_has_not_written_yet_keeps_nobody_from_writing(inbox: brant.Inbox, path: Path) -> None:
    endpoint = tiny(inbox)

    @endpoint.handle()
    def writes_at_the_end(event: Event, tx: Tx) -> None:
        with brant.open(path, busy_timeout_ms=0) as other, other.transaction() as theirs:
            theirs.execute("INSERT INTO ledger VALUES (0)")
        note(event, tx)

    event_id = send(endpoint, "e1")
    assert work(inbox) == {"success": 1}
    assert ledger(inbox) == [0, event_id]


@pytest.mark.guarantee("G30")
def test_an_event_that_was_handled_meanwhile_has_no_second_effect(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)

    @endpoint.handle()
    def is_overtaken(event: Event, tx: Tx) -> None:
        with inbox.db.transaction() as other:
            other.execute("UPDATE knocker_events SET status = 'handled' WHERE id = ?", [event.id])
        note(event, tx)

    event_id = send(endpoint, "e1")
    assert work(inbox) == {"success": 1}
    assert (ledger(inbox), outcomes(inbox, event_id), jobs(inbox)) == ([], [], 0)


def test_a_handler_with_a_transaction_of_its_own_works_every_time(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)

    @endpoint.handle()
    def writes_by_itself(event: Event, tx: Tx) -> None:
        with inbox.db.transaction() as own:
            note(event, own)

    ids, told = [], []
    for number in range(5):
        ids.append(send(endpoint, str(number)))
        told.append(work(inbox))
    assert ledger(inbox) == ids
    # Once it was thought to be fit to share; that cost it no attempt.
    assert told == [{"success": 1}, {"release": 1, "success": 1}, *[{"success": 1}] * 3]
    assert {tuple(outcomes(inbox, event_id)) for event_id in ids} == {("handled",)}


def test_a_handler_that_is_not_known_yet_shares_nothing(inbox: brant.Inbox, path: Path) -> None:
    endpoint = tiny(inbox)
    endpoint.add_handler(note, "quick")

    @endpoint.handle("slow")
    def looks_from_outside(event: Event, tx: Tx) -> None:
        with brant.open(path, busy_timeout_ms=0) as other, other.transaction() as theirs:
            note(event, theirs)

    ids = [send(endpoint, "1", "quick")]
    assert work(inbox) == {"success": 1}
    ids += [send(endpoint, "2", "slow"), send(endpoint, "3", "quick")]
    assert work(inbox) == {"release": 1, "success": 2}
    assert ledger(inbox) == ids
    assert {tuple(outcomes(inbox, event_id)) for event_id in ids} == {("handled",)}
    assert not inbox.paces.apart


def test_a_busy_database_gives_the_event_back_and_no_attempt_counts(inbox: brant.Inbox, path: Path) -> None:
    endpoint = tiny(inbox)
    inbox.db._storage._writer.execute("PRAGMA busy_timeout = 1")  # type: ignore[attr-defined]

    @endpoint.handle()
    def finds_it_locked(event: Event, tx: Tx) -> None:
        with brant.open(path) as other, other.transaction():
            note(event, tx)

    event_id = send(endpoint, "e1")
    assert work(inbox) == {"snooze": 1}
    assert (status(inbox, event_id), outcomes(inbox, event_id), jobs(inbox)) == ("received", [], 1)


def test_a_handler_is_quick_by_its_last_runs() -> None:
    paces = Paces()
    assert not paces.is_quick(note)
    paces.took(note, 0.0001)
    assert paces.is_quick(note)
    paces.took(note, 0.1)
    assert not paces.is_quick(note)
    for _ in range(20):
        paces.took(note, 0.0001)
    assert paces.is_quick(note)
    paces.is_unfit(note)
    paces.took(note, 0.0001)
    assert not paces.is_quick(note)
