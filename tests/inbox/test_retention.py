"""Retention: what is old goes, what was recently alive stays, and identities are remembered."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

import brant
from brant.inbox import Endpoint, Event, Pruned, RetentionPolicy
from brant.testing import FakeClock, drain_tasks
from tests.inbox.tiny import dead_jobs, jobs, send, signed, status, tiny, work
from tests.looping import run, until
from tests.plainly import refusing
from tests.waiting import PATIENCE_S, in_thread

pytestmark = pytest.mark.both_backends

DAY = 86_400


@pytest.fixture
def endpoint(inbox: brant.Inbox) -> Endpoint:
    made = tiny(inbox)

    @made.handle("t")
    def handle(event: Event, tx: brant.Transaction) -> None:
        pass

    return made


def tables(inbox: brant.Inbox) -> dict[str, int]:
    names = ("knocker_events", "knocker_deliveries", "knocker_attempts")
    return {name: inbox.db.query(f"SELECT count(*) AS n FROM {name}")[0]["n"] for name in names}


def test_old_handled_events_go_with_their_deliveries_and_attempts(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    send(endpoint, "e1")
    send(endpoint, "e1")
    work(inbox)
    clock.advance(10)
    kept = send(endpoint, "e2")
    work(inbox)
    pruned = inbox.prune_events(statuses=["handled"], older_than=int(clock.now()))
    assert pruned == Pruned(events_pruned=1, deliveries_pruned=2, attempts_pruned=1)
    assert [event.id for event in inbox.list_events()] == [kept]
    assert tables(inbox) == {"knocker_events": 1, "knocker_deliveries": 1, "knocker_attempts": 1}


def test_the_cut_off_itself_stays(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    send(endpoint, "e1")
    work(inbox)
    assert inbox.prune_events(statuses=["handled"], older_than=int(clock.now())).events_pruned == 0
    assert inbox.prune_events(statuses=["handled"], older_than=int(clock.now()) + 1).events_pruned == 1


def test_an_old_event_that_was_replayed_lately_stays(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    clock.advance(30 * DAY)
    inbox.replay(event_id)
    work(inbox)
    inbox.retain(RetentionPolicy(keep_s={"handled": DAY}))
    assert status(inbox, event_id) == "handled"


@pytest.mark.guarantee("G30")
def test_a_late_redelivery_of_a_pruned_event_is_still_a_duplicate(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    clock.advance(2 * DAY)
    inbox.retain(RetentionPolicy(keep_s={"handled": DAY}))
    body = b'{"id": "e1", "type": "t"}'
    again = endpoint.receive(body, signed(body))
    assert (again.status_code, again.duplicate, again.event_ids) == (204, True, (event_id,))
    assert (inbox.list_events(), jobs(inbox)) == ([], 0)


def test_keys_are_forgotten_when_the_policy_says_so(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    send(endpoint, "e1")
    work(inbox)
    clock.advance(2 * DAY)
    policy = RetentionPolicy(keep_s={"handled": DAY}, keys_s=10 * DAY)
    inbox.retain(policy)
    clock.advance(11 * DAY)
    inbox.retain(policy)
    body = b'{"id": "e1", "type": "t"}'
    assert endpoint.receive(body, signed(body)).duplicate is False


@pytest.mark.parametrize("state", ["dead", "ignored", "failed"])
def test_each_status_can_be_pruned_and_leaves_no_job(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock, state: str
) -> None:
    def fail(event: Event, tx: brant.Transaction) -> None:
        raise ValueError

    endpoint.add_handler(fail, "bad")
    event_id = send(endpoint, "e1", "bad" if state == "failed" else "nobody's")
    if state == "ignored":
        inbox.ignore(event_id)
    work(inbox)
    assert status(inbox, event_id) == state
    clock.advance(2)
    inbox.retain(RetentionPolicy(keep_s={state: 1}))
    assert (inbox.list_events(), jobs(inbox), dead_jobs(inbox)) == ([], 0, 0)


def test_events_that_are_not_done_can_not_be_pruned(inbox: brant.Inbox) -> None:
    with pytest.raises(ValueError, match="status must be one of"):
        inbox.prune_events(statuses=["received"], older_than=1)
    with pytest.raises(brant.InvalidValue, match="status of a policy"):
        RetentionPolicy(keep_s={"received": 1})


@pytest.mark.parametrize(
    "given", [{"statuses": "handled", "older_than": 1}, {"statuses": ["handled"], "older_than": "yesterday"}]
)
def test_arguments_of_the_wrong_kind_are_type_errors(inbox: brant.Inbox, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        inbox.prune_events(**given)


def test_a_policy_is_for_its_endpoint(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    other = tiny(inbox, "other")
    other.add_handler(lambda event, tx: None)
    send(endpoint, "e1")
    kept = send(other, "e1")
    work(inbox)
    clock.advance(2)
    inbox.retain(RetentionPolicy("in", keep_s={"handled": 1}))
    assert [event.id for event in inbox.list_events()] == [kept]


def test_content_is_erased_and_the_rest_stays(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    event_id = send(endpoint, "e1")
    work(inbox)
    clock.advance(2)
    assert inbox.retain(RetentionPolicy(content_s={"handled": 1})).contents_erased == 1
    assert inbox.retain(RetentionPolicy(content_s={"handled": 1})).contents_erased == 0
    event = inbox.get_event(event_id)
    assert (event.body, event.headers.pairs, event.status, event.dedupe_key) == (b"", (), "handled", "e1")
    assert [delivery.body_bytes for delivery in inbox.list_deliveries()] == [0]
    [erased] = inbox.db.query("SELECT body_sha256, body_bytes FROM _brant_inbox_erased")
    assert erased["body_sha256"] == hashlib.sha256(b'{"id": "e1", "type": "t"}').hexdigest()
    with pytest.raises(ValueError, match="erased"):
        inbox.replay(event_id)


def test_a_delivery_of_many_stays_as_long_as_one_of_its_events(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    body = b'[{"id": "a", "type": "t"}, {"id": "b", "type": "nobody\'s"}]'
    received = endpoint.receive(body, signed(body))
    work(inbox)
    clock.advance(2)
    inbox.retain(RetentionPolicy(keep_s={"handled": 1}))
    assert [delivery.event_id for delivery in inbox.list_deliveries()] == [received.event_ids[1]]
    inbox.retain(RetentionPolicy(keep_s={"dead": 1}))
    assert inbox.list_deliveries() == []


def test_retention_catches_up_whatever_there_is(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    bodies = [f'[{",".join(f"""{{"id": "{page}-{n}"}}""" for n in range(260))}]'.encode() for page in range(2)]
    for body in bodies:
        assert endpoint.receive(body, signed(body)).status_code == 204
    inbox.ignore_all(status="received")
    clock.advance(2)
    assert inbox.retain(RetentionPolicy(keep_s={"ignored": 1})).events_pruned == 520
    audited = sum(audit.events_pruned or 0 for audit in inbox.list_prune_audits(kind="events"))
    assert (audited, inbox.list_events()) == (520, [])


def test_old_orphans_go_on_their_own_clock(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    endpoint.receive(b"1", {})
    clock.advance(10)
    newer = endpoint.receive(b"2", {}).delivery_id
    send(endpoint, "e1")
    inbox.retain(RetentionPolicy(orphans_s=5))
    assert [delivery.id for delivery in inbox.list_deliveries(orphaned=True)] == [newer]
    [audit] = inbox.list_prune_audits(kind="orphan_deliveries")
    counts = (audit.events_pruned, audit.deliveries_pruned, audit.attempts_pruned, audit.live_jobs_pruned)
    assert counts == (None, 1, None, None)


@pytest.mark.guarantee("G33")
def test_a_pass_that_finds_nothing_is_audited_too(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    inbox.prune_events(statuses=["handled"], older_than=5, limit=10)
    [audit] = inbox.list_prune_audits()
    assert (audit.kind, audit.queue_name, audit.events_pruned) == ("events", "knocker.events", 0)
    assert audit.summary == {"statuses": ["handled"], "older_than": 5, "limit": 10, "endpoint": None}


@pytest.mark.guarantee("G33")
def test_a_pass_that_fails_leaves_everything_and_no_audit(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    send(endpoint, "e1")
    work(inbox)
    before = tables(inbox)
    with refusing(inbox.db, "BEFORE DELETE", "knocker_events", "no"), pytest.raises(brant.StorageError):
        inbox.prune_events(statuses=["handled"], older_than=int(clock.now()) + 1)
    assert (tables(inbox), inbox.list_prune_audits()) == (before, [])


def test_passes_at_the_same_time_count_nothing_twice(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    for n in range(20):
        send(endpoint, f"e{n}")
    work(inbox)
    old = int(clock.now()) + 1
    passes = [in_thread(inbox.prune_events, statuses=["handled"], older_than=old) for _ in range(4)]
    assert sum(each.result(PATIENCE_S).events_pruned for each in passes) == 20


def test_old_counts_of_what_was_refused_are_forgotten(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    endpoint.receive(b"1", {})
    clock.advance(2 * DAY)
    inbox.retain(RetentionPolicy(rejects_s=DAY))
    assert inbox.list_rejects() == []


def test_retention_runs_by_schedule(inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock) -> None:
    send(endpoint, "e1")
    work(inbox)
    inbox.schedule_retention(RetentionPolicy(keep_s={"handled": 60}), interval_s=600)
    assert [schedule.name for schedule in inbox.db.scheduler().schedules()] == ["knocker-retention:knocker.events"]
    clock.advance(601)
    worker = inbox.worker(1)
    ended = in_thread(asyncio.run, worker.run())
    run(until(inbox.db, lambda: not inbox.list_events()))
    worker.stop()
    ended.result(PATIENCE_S)


def test_lost_jobs_are_looked_for_by_schedule(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    event_id = send(endpoint, "e1")
    inbox.db.queue("knocker.events").read()
    inbox.schedule_recovery()
    [schedule] = inbox.db.scheduler().schedules()
    inbox.db.queue(schedule.queue).enqueue(schedule.payload)
    assert drain_tasks(inbox.db, schedule.queue) == {"success": 1}
    work(inbox)
    assert status(inbox, event_id) == "handled"


@pytest.mark.guarantee("G33")
def test_the_content_of_one_event_is_erased_and_that_is_recorded(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    endpoint.add_handler(lambda event, tx: None)
    event_id = send(endpoint, "private")
    with pytest.raises(ValueError, match="is received"):
        inbox.erase(event_id)
    work(inbox)
    inbox.erase(event_id)
    inbox.erase(event_id)
    event = inbox.get_event(event_id)
    assert (event.status, event.body_bytes, event.dedupe_key) == ("handled", 0, "private")
    assert [delivery.body_bytes for delivery in inbox.list_deliveries(event_id=event_id)] == [0]
    assert [audit.summary["event_id"] for audit in inbox.list_prune_audits()] == [event_id, event_id]
    with pytest.raises(ValueError, match="erased"):
        inbox.replay(event_id)
    with pytest.raises(KeyError):
        inbox.erase(999)
