"""What an operator sees, and what an operator can do."""

from __future__ import annotations

from typing import Any

import pytest

import brant
from brant.inbox import Endpoint, Event
from brant.testing import FakeClock
from tests.inbox.tiny import QUEUE, dead_jobs, jobs, outcomes, send, signed, status, tiny, work

pytestmark = pytest.mark.both_backends

STATUSES = ("received", "handled", "failed", "dead", "ignored")


@pytest.fixture
def endpoint(inbox: brant.Inbox) -> Endpoint:
    made = tiny(inbox)

    @made.handle("good")
    def good(event: Event, tx: brant.Transaction) -> None:
        pass

    @made.handle("bad")
    def bad(event: Event, tx: brant.Transaction) -> None:
        raise ValueError

    return made


@pytest.fixture
def ids(inbox: brant.Inbox, endpoint: Endpoint) -> dict[str, int]:
    """An event in each status."""
    made = {
        "handled": send(endpoint, "e1", "good"),
        "failed": send(endpoint, "e2", "bad"),
        "dead": send(endpoint, "e3", "unknown"),
        "ignored": send(endpoint, "e4", "good"),
    }
    inbox.ignore(made["ignored"])
    work(inbox)
    made["received"] = send(endpoint, "e5", "good")
    assert {name: status(inbox, event_id) for name, event_id in made.items()} == {name: name for name in made}
    return made


ALLOWED = {
    "ignore": {"received", "failed", "dead", "ignored"},
    "replay": {"handled", "failed", "dead", "ignored"},
    "requeue": {"failed", "dead", "ignored"},
}


@pytest.mark.parametrize("state", STATUSES)
@pytest.mark.parametrize("action", ALLOWED)
def test_the_status_says_what_may_be_done(inbox: brant.Inbox, ids: dict[str, int], action: str, state: str) -> None:
    act = getattr(inbox, action)
    if state not in ALLOWED[action]:
        with pytest.raises(ValueError, match=f"is {state}"):
            act(ids[state])
        assert status(inbox, ids[state]) == state
        return
    act(ids[state])
    assert status(inbox, ids[state]) == ("ignored" if action == "ignore" else "received")


@pytest.mark.parametrize("action", [*ALLOWED, "replay_delivery", "get_event", "get_delivery"])
def test_what_does_not_exist_is_a_key_error(inbox: brant.Inbox, action: str) -> None:
    with pytest.raises(KeyError, match="there is no"):
        getattr(inbox, action)(99)


@pytest.mark.parametrize("action", ["replay", "requeue"])
def test_starting_over_resets_the_event_keeps_its_history_and_leaves_one_job(
    inbox: brant.Inbox, ids: dict[str, int], action: str
) -> None:
    failed = ids["failed"]
    getattr(inbox, action)(failed)
    event = inbox.get_event(failed)
    assert (event.status, event.attempt_count, event.handled_at, event.last_error) == ("received", 0, None, None)
    assert outcomes(inbox, failed) == ["failed"]
    assert jobs(inbox) == 2  # its own, and that of the received one
    assert inbox.db.queue(QUEUE).due_in() == 0


def test_a_requeued_dead_letter_is_gone_from_the_queue(inbox: brant.Inbox, ids: dict[str, int]) -> None:
    inbox.requeue(ids["dead"])
    assert dead_jobs(inbox) == 0


@pytest.mark.guarantee("G33")
def test_each_act_is_audited_with_where_the_event_came_from(inbox: brant.Inbox, ids: dict[str, int]) -> None:
    inbox.requeue(ids["dead"])
    audit = inbox.list_audits()[0]
    assert (audit.action, audit.events) == ("requeue", 1)
    assert audit.summary == {"event_id": ids["dead"], "from": "dead"}


def test_ignoring_twice_is_one_attempt_and_nothing_runs(inbox: brant.Inbox, ids: dict[str, int]) -> None:
    inbox.ignore(ids["received"])
    inbox.ignore(ids["received"])
    assert outcomes(inbox, ids["received"]) == ["ignored"]
    assert work(inbox) == {}


def test_an_event_that_is_ignored_while_it_is_claimed_does_not_run(
    inbox: brant.Inbox, ids: dict[str, int], clock: FakeClock
) -> None:
    job = inbox.db.queue(QUEUE).claim_one("other")
    assert job is not None
    inbox.ignore(ids["received"])
    assert job.ack() is False
    assert status(inbox, ids["received"]) == "ignored"


def test_a_replayed_delivery_runs_with_its_own_content(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    seen: list[Any] = []
    endpoint.add_handler(lambda event, tx: seen.append((event.id, event.body, event.replayed_delivery)), "good")
    event_id = send(endpoint, "e1", "good")
    other = b'{"id": "e1", "type": "good", "n": 2}'
    delivery_id = endpoint.receive(other, signed(other)).delivery_id
    assert delivery_id is not None
    work(inbox)
    first = inbox.get_event(event_id)
    inbox.replay_delivery(delivery_id)
    work(inbox)
    assert seen[1] == (event_id, other, delivery_id)
    assert inbox.get_event(event_id).body == first.body


def test_a_delivery_without_an_event_can_not_be_replayed(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    orphan = endpoint.receive(b"1", {}).delivery_id
    assert orphan is not None
    with pytest.raises(ValueError, match="never accepted"):
        inbox.replay_delivery(orphan)


# Many


def test_a_dry_run_counts_and_leaves_everything_alone(inbox: brant.Inbox, ids: dict[str, int]) -> None:
    audits = inbox.list_audits()
    result = inbox.requeue_all(status="dead", dry_run=True)
    assert (result.events, result.dry_run, result.audit_id) == (1, True, None)
    assert (status(inbox, ids["dead"]), inbox.list_audits()) == ("dead", audits)


@pytest.mark.guarantee("G33")
def test_many_are_requeued_by_filter_and_time_oldest_first_with_one_audit(
    inbox: brant.Inbox, endpoint: Endpoint, clock: FakeClock
) -> None:
    made = []
    for n in range(6):
        made.append(send(endpoint, f"e{n}", "unknown" if n != 2 else "other"))
        clock.advance(10)
    work(inbox)
    start = int(clock.now()) - 60
    result = inbox.requeue_all(status="dead", endpoint="in", event_type="unknown", since=start + 10, until=start + 50)
    assert result.events == 3
    moved = [event.id for event in inbox.list_events(status="received")]
    assert moved == [made[4], made[3], made[1]]
    job = inbox.db.queue(QUEUE).claim_one("w")
    assert job is not None
    assert job.payload == {"event_id": made[1]}
    [audit] = inbox.list_audits()
    assert (audit.action, audit.events, audit.summary["event_type"]) == ("requeue", 3, "unknown")
    assert audit.summary["since"] == start + 10


def test_more_than_a_page_is_replayed_up_to_the_limit(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    for n in range(12):
        send(endpoint, f"e{n}", "unknown")
    work(inbox)
    assert inbox.replay_all(status="dead", limit=5).events == 5
    assert inbox.replay_all(status="dead").events == 7
    assert inbox.ignore_all(status="received").events == 12


@pytest.mark.parametrize(
    "call", [lambda inbox: inbox.requeue_all(status="handled"), lambda inbox: inbox.replay_all(status="received")]
)
def test_many_of_a_status_that_forbids_it_are_refused(inbox: brant.Inbox, call: Any) -> None:
    with pytest.raises(ValueError, match="status must be one of"):
        call(inbox)


# Reading


def test_events_are_listed_newest_first_by_all_filters(inbox: brant.Inbox, clock: FakeClock) -> None:
    a, b = tiny(inbox, "a"), tiny(inbox, "b")
    first = send(a, "1", "x")
    clock.advance(10)
    middle = int(clock.now())
    second, third = send(a, "2", "y"), send(b, "3", "x")
    inbox.ignore(first)

    def found(**filters: Any) -> list[int]:
        return [event.id for event in inbox.list_events(**filters)]

    assert found() == [third, second, first]
    assert found(endpoint="a") == [second, first]
    assert found(event_type="x") == [third, first]
    assert found(event_type="X") == []
    assert found(status="ignored") == [first]
    assert found(status="received", endpoint="a") == [second]
    assert found(since=middle) == [third, second]
    assert found(until=middle) == [first]
    assert found(limit=2) == [third, second]
    assert found(limit=2, before=second) == [first]
    assert found(endpoint="nowhere") == []


def test_bodies_are_listed_only_when_asked_for(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    send(endpoint, "e1")
    assert [event.body for event in inbox.list_events()] == [None]
    assert [event.body for event in inbox.list_events(with_body=True)] == [b'{"id": "e1", "type": "t"}']
    assert [delivery.body for delivery in inbox.list_deliveries()] == [None]
    assert inbox.list_deliveries()[0].body_bytes == 25


def test_deliveries_of_unknown_validity_are_not_valid(inbox: brant.Inbox, endpoint: Endpoint) -> None:
    verdicts = (True, None, False)
    made = [endpoint.ingest(str(verdict).encode(), signature_valid=verdict).delivery_id for verdict in verdicts]

    def found(**filters: Any) -> list[int | None]:
        return [delivery.id for delivery in inbox.list_deliveries(**filters)]

    assert found(signature_valid=True) == made[:1]
    assert found(signature_valid=False) == made[:0:-1]
    assert found(orphaned=True) == made[2:]
    assert found(orphaned=False, endpoint="in") == made[1::-1]


@pytest.mark.parametrize(
    ("filters", "kind"),
    [
        ({"limit": True}, TypeError),
        ({"limit": "5"}, TypeError),
        ({"limit": 0}, ValueError),
        ({"limit": 1001}, ValueError),
        ({"since": 1.5}, TypeError),
        ({"since": True}, TypeError),
        ({"status": "nonsense"}, ValueError),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(inbox: brant.Inbox, filters: dict[str, Any], kind: type) -> None:
    with pytest.raises(kind):
        inbox.list_events(**filters)


def test_a_delivery_filter_must_be_a_truth_value(inbox: brant.Inbox) -> None:
    with pytest.raises(TypeError, match="signature_valid"):
        inbox.list_deliveries(signature_valid=1)  # type: ignore[arg-type]


def test_attempts_are_listed_for_one_event_and_by_outcome(inbox: brant.Inbox, ids: dict[str, int]) -> None:
    assert [attempt.event_id for attempt in inbox.list_attempts(outcome="dead")] == [ids["dead"]]
    [attempt] = inbox.list_attempts(event_id=ids["failed"])
    assert (attempt.outcome, attempt.error) == ("failed", "ValueError")


def test_counts_and_lag_tell_what_waits(inbox: brant.Inbox, ids: dict[str, int], clock: FakeClock) -> None:
    assert inbox.counts() == {"in": dict.fromkeys(STATUSES, 1)}
    clock.advance(5)
    assert (inbox.lag(), inbox.lag("in"), inbox.lag("nowhere")) == (5, 5, None)


def test_an_event_is_found_by_its_key(inbox: brant.Inbox, ids: dict[str, int]) -> None:
    found = inbox.find_event("in", "e3")
    assert found is not None
    assert found.id == ids["dead"]
    assert inbox.find_event("in", "nothing") is None
