"""Receiving: what is stored, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import binary, lists, text, tuples

import brant
from brant.inbox import Incoming, Request
from brant.testing import FakeClock
from tests.inbox.tiny import QUEUE, Tiny, jobs, outcomes, send, signed, status, tiny, work
from tests.plainly import is_server
from tests.waiting import write_lock_held

pytestmark = pytest.mark.both_backends

BODY = b'{"id": "e1", "type": "t"}'


@pytest.mark.guarantee("G29")
def test_delivery_event_and_job_are_stored_before_any_handler_runs(inbox: brant.Inbox) -> None:
    received = tiny(inbox).receive(BODY, signed(BODY))
    assert (received.status_code, received.duplicate) == (204, False)
    assert received.delivery_id is not None
    assert received.event_id is not None
    event = inbox.get_event(received.event_id)
    assert (event.status, event.event_type, event.provider_event_id, event.body) == ("received", "t", "e1", BODY)
    assert inbox.get_delivery(received.delivery_id).signature_valid is True
    assert jobs(inbox) == 1


def test_a_job_holds_the_events_id_alone_as_knockers_do(inbox: brant.Inbox) -> None:
    event_id = send(tiny(inbox), "e1")
    job = inbox.db.queue(QUEUE).claim_one("w")
    assert job is not None
    assert job.payload == {"event_id": event_id}


@pytest.mark.parametrize("first_ends", ["handled", "dead"])
@pytest.mark.guarantee("G30")
def test_a_duplicate_is_a_delivery_and_changes_nothing_else(inbox: brant.Inbox, first_ends: str) -> None:
    endpoint = tiny(inbox)
    first = send(endpoint, "e1")
    if first_ends == "handled":
        endpoint.add_handler(lambda event, tx: None)
    work(inbox)
    before = inbox.get_event(first)
    other = b'{"id": "e1", "type": "t", "changed": true}'
    again = endpoint.receive(other, signed(other))
    assert (again.status_code, again.duplicate, again.event_ids) == (204, True, (first,))
    assert inbox.get_event(first) == before
    assert before.status == first_ends
    assert len(inbox.list_deliveries(event_id=first)) == 2
    assert jobs(inbox) == 0


@pytest.mark.guarantee("G32")
def test_an_invalid_request_is_a_delivery_without_an_event(inbox: brant.Inbox) -> None:
    received = tiny(inbox).receive(BODY, {"X-Tiny": "wrong"})
    assert (received.status_code, received.event_ids) == (401, ())
    [orphan] = inbox.list_deliveries(orphaned=True)
    assert (orphan.id, orphan.signature_valid) == (received.delivery_id, False)
    assert orphan.signature_error == received.reason == "the signature does not match"
    assert (orphan.provider_event_id, orphan.dedupe_key) == ("e1", "e1")
    assert jobs(inbox) == 0


def test_an_invalid_request_does_not_keep_a_valid_one_out(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    endpoint.receive(BODY, {"X-Tiny": "wrong"})
    received = endpoint.receive(BODY, signed(BODY))
    assert (received.status_code, received.duplicate) == (204, False)
    assert len(inbox.list_deliveries()) == 2
    assert len(inbox.list_events()) == 1


def test_one_key_at_two_endpoints_is_two_events(inbox: brant.Inbox) -> None:
    assert send(tiny(inbox, "a"), "e1") != send(tiny(inbox, "b"), "e1")


@pytest.mark.parametrize("state", [None, True, False])
def test_what_the_caller_verified_is_stored_with_its_verdict(inbox: brant.Inbox, state: bool | None) -> None:
    received = tiny(inbox).ingest(BODY, signature_valid=state)
    assert received.status_code == (401 if state is False else 204)
    [delivery] = inbox.list_deliveries()
    assert delivery.signature_valid is state
    assert len(inbox.list_events()) == (state is not False)


@pytest.mark.guarantee("G32")
def test_an_unverified_endpoint_says_so_in_each_delivery(inbox: brant.Inbox) -> None:
    received = inbox.endpoint("open", verify="none").receive(BODY)
    assert received.status_code == 204
    [delivery] = inbox.list_deliveries()
    assert delivery.signature_valid is None


# Statuses


def test_an_unknown_endpoint_is_404_and_leaves_nothing(inbox: brant.Inbox) -> None:
    assert inbox.receive("nowhere", BODY).status_code == 404
    assert inbox.ingest("nowhere", BODY).status_code == 404
    assert inbox.list_deliveries() == []


@pytest.mark.guarantee("G32")
def test_an_endpoint_that_only_another_process_has_takes_nothing(inbox: brant.Inbox, path: Path) -> None:
    tiny(inbox)
    with brant.open(path) as other, brant.Inbox(other) as without:
        received = without.receive("in", BODY, {"X-Tiny": "wrong"})
        assert received.status_code == 503
        assert received.retry_after_s
    assert inbox.list_deliveries() == []


def test_a_paused_endpoint_is_503_in_all_processes_until_it_is_resumed(inbox: brant.Inbox, path: Path) -> None:
    endpoint = tiny(inbox)
    with brant.open(path) as other, brant.Inbox(other) as operator:
        operator.pause("in")
        paused = endpoint.receive(BODY, signed(BODY))
        operator.resume("in")
    assert (paused.status_code, bool(paused.retry_after_s)) == (503, True)
    assert inbox.list_deliveries() == []
    assert endpoint.receive(BODY, signed(BODY)).status_code == 204


def test_registering_a_paused_endpoint_again_does_not_resume_it(inbox: brant.Inbox) -> None:
    tiny(inbox)
    inbox.pause("in")
    assert tiny(inbox).receive(BODY, signed(BODY)).status_code == 503


@pytest.mark.parametrize(
    ("options", "facts", "expected"),
    [
        ({}, {"method": "PUT"}, 405),
        ({"max_body": 10}, {}, 413),
        ({"max_header_bytes": 5}, {}, 431),
    ],
)
def test_a_refusal_is_counted_and_not_stored(
    inbox: brant.Inbox, options: dict[str, Any], facts: dict[str, Any], expected: int
) -> None:
    received = tiny(inbox, **options).receive(BODY, signed(BODY), **facts)
    assert received.status_code == expected
    assert inbox.list_deliveries() == []
    [reject] = inbox.list_rejects()
    assert (reject.endpoint, reject.status, reject.reason, reject.count) == ("in", expected, received.reason, 1)


def test_more_than_the_rate_limit_is_429_until_the_window_is_over(inbox: brant.Inbox, clock: FakeClock) -> None:
    endpoint = tiny(inbox, rate_limit=(2, 60))
    bodies = [f'{{"id": "e{n}"}}'.encode() for n in range(4)]
    answers = [endpoint.receive(body, signed(body)) for body in bodies[:3]]
    clock.advance(60)
    answers.append(endpoint.receive(bodies[3], signed(bodies[3])))
    assert [answer.status_code for answer in answers] == [204, 204, 429, 204]
    assert answers[2].retry_after_s == 60


def test_invalid_requests_do_not_use_up_the_rate_limit(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, rate_limit=(1, 60))
    assert endpoint.receive(BODY, {}).status_code == 401
    assert endpoint.receive(BODY, signed(BODY)).status_code == 204


def test_a_handshake_is_answered_and_not_stored(inbox: brant.Inbox) -> None:
    received = tiny(inbox).receive(b"", method="GET", query="challenge=abc")
    assert (received.status_code, received.body) == (200, b"abc")
    assert inbox.list_deliveries() == []


@pytest.mark.guarantee("G32")
def test_a_provider_that_fails_refuses(inbox: brant.Inbox) -> None:
    class Broken(Tiny):
        def verify(self, request: Request, secrets: Sequence[bytes], now: float) -> str | None:
            raise ZeroDivisionError("with a secret in its text")

    received = inbox.endpoint("in", provider=Broken(), secrets="s").receive(BODY, signed(BODY))
    assert received.status_code == 401
    assert received.reason == "the provider failed with ZeroDivisionError"


@pytest.mark.guarantee("G29")
def test_a_database_that_is_busy_is_503(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANT_BUSY_TIMEOUT", "20")
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        endpoint = tiny(inbox)
        send(endpoint, "e0")
        with write_lock_held(path):
            received = endpoint.receive(BODY, signed(BODY))
        assert (received.status_code, bool(received.retry_after_s)) == (503, True)
        assert endpoint.receive(BODY, signed(BODY)).status_code == 204


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[" * 100_000, b'{"id": ' + b"9" * 10_000 + b"}", b""])
def test_an_odd_body_is_stored_as_it_is(inbox: brant.Inbox, body: bytes) -> None:
    received = tiny(inbox).receive(body, signed(body))
    assert received.status_code == 204
    assert inbox.get_event(received.event_ids[0]).body == body


def test_odd_headers_and_queries_are_stored(inbox: brant.Inbox) -> None:
    headers = [*signed(BODY), ("x", "\udcff"), (b"y", b"\xff")]
    received = tiny(inbox).receive(BODY, headers, query="a=%FF&a=2&b")
    assert received.status_code == 204
    assert inbox.get_event(received.event_ids[0]).headers.all("y") == ["ÿ"]


# Content


@pytest.mark.guarantee("G35")
def test_credentials_are_not_stored(inbox: brant.Inbox, path: Path) -> None:
    headers = [
        *signed(BODY),
        ("Authorization", "Bearer hidden"),
        ("Cookie", "hidden"),
        ("X-Gitlab-Token", "hidden"),
        ("X-Mine", "hidden"),
        ("X-Signature", "shown"),
    ]
    endpoint = tiny(inbox, redact=["x-mine"])
    endpoint.receive(BODY, headers, query="api_key=hidden&a=1")
    endpoint.receive(BODY, [*headers, ("X-Tiny", "twice")])
    inbox.close()
    stored = _all_that_is_stored(path)
    assert b"hidden" not in stored
    assert b"shown" in stored


@pytest.mark.parametrize("name", ["token-header", "okta"])
@pytest.mark.parametrize("header", ["X-Acme-Auth", "X-Signature"])
@pytest.mark.guarantee("G35")
def test_the_header_with_the_providers_secret_is_not_stored_whatever_its_name(
    inbox: brant.Inbox, path: Path, name: str, header: str
) -> None:
    endpoint = inbox.endpoint("in", provider=name, options={"header": header}, secrets="hidden")
    assert endpoint.receive(b"{}", {header: "hidden"}).accepted
    assert endpoint.receive(b"{}", {header: "hidden too"}).status_code == 401
    inbox.close()
    assert b"hidden" not in _all_that_is_stored(path)


def _all_that_is_stored(path: Path) -> bytes:
    if not is_server(path):
        return b"".join(each.read_bytes() for each in path.parent.iterdir() if each.name.startswith(path.name))
    with psycopg.connect(str(path)) as server:
        tables = server.execute("SELECT format('brant.%I', tablename) FROM pg_tables WHERE schemaname = 'brant'")
        rows = [row for (table,) in tables for row in server.execute(f"SELECT * FROM {table}")]
    return b"".join(value if isinstance(value, bytes) else repr(value).encode() for row in rows for value in row)


def test_a_header_that_came_twice_is_stored_twice(inbox: brant.Inbox) -> None:
    received = tiny(inbox).receive(BODY, [*signed(BODY), ("Via", "a"), ("Via", "b")])
    assert inbox.get_event(received.event_ids[0]).headers.all("via") == ["a", "b"]


def test_a_batch_is_one_delivery_and_many_events(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    known = send(endpoint, "b")
    body = b'[{"id": "a", "type": "x"}, {"id": "b"}, {"id": "c", "type": "y"}]'
    received = endpoint.receive(body, signed(body))
    assert (len(received.event_ids), received.duplicate) == (3, False)
    assert received.event_ids[1] == known
    assert [inbox.get_event(each).event_type for each in received.event_ids] == ["x", "t", "y"]
    assert received.delivery_id is not None
    assert inbox.events_of_delivery(received.delivery_id) == list(received.event_ids)
    assert all(
        received.delivery_id in {delivery.id for delivery in inbox.list_deliveries(event_id=event_id)}
        for event_id in received.event_ids
    )
    assert jobs(inbox) == 3


def test_a_filtered_event_is_stored_and_marked_and_not_run(inbox: brant.Inbox) -> None:
    def no_pings(request: Request, incoming: Incoming) -> bool:
        return incoming.event_type != "ping"

    endpoint = tiny(inbox, filter=no_pings, publish_to="all")
    event_id = send(endpoint, "e1", "ping")
    assert (status(inbox, event_id), outcomes(inbox, event_id), jobs(inbox)) == ("ignored", ["ignored"], 0)
    assert inbox.get_event(event_id).last_error == "filtered"
    assert inbox.db.stream("all").read() == []


def test_a_filter_that_fails_lets_the_event_run(inbox: brant.Inbox) -> None:
    def broken(request: Request, incoming: Incoming) -> bool:
        raise ZeroDivisionError

    assert status(inbox, send(tiny(inbox, filter=broken), "e1")) == "received"


def test_each_new_event_is_published_once(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, publish_to="orders")
    event_id = send(endpoint, "e1")
    send(endpoint, "e1")
    [published] = inbox.db.stream("orders").read()
    assert (published.payload["event_id"], published.payload["body"]) == (event_id, BODY.decode())
    assert published.key == "e1"


def test_the_log_of_what_was_refused_is_bounded_whatever_a_provider_says(inbox: brant.Inbox) -> None:
    class Quoting(Tiny):
        def verify(self, request: Request, secrets: Sequence[bytes], now: float) -> str | None:
            return f"not valid: {request.body!r}"

    endpoint = inbox.endpoint("in", provider=Quoting(), secrets="s")
    for n in range(60):
        endpoint.receive(str(n).encode())
    rejects = inbox.list_rejects()
    assert len(rejects) == 51
    assert sum(reject.count for reject in rejects) == 60
    assert [reject.count for reject in rejects if reject.reason == "other reasons"] == [10]


@pytest.mark.guarantee("G36")
def test_invalid_deliveries_are_bounded_in_number_and_the_newest_stay(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, max_orphans=3)
    ids = [endpoint.receive(str(n).encode(), {}).delivery_id for n in range(5)]
    assert [delivery.id for delivery in inbox.list_deliveries(orphaned=True)] == ids[:1:-1]
    [reject] = inbox.list_rejects()
    assert reject.count == 5


@pytest.mark.guarantee("G36")
def test_invalid_deliveries_are_bounded_in_bytes_and_by_endpoint(inbox: brant.Inbox) -> None:
    endpoint, other = tiny(inbox, max_orphan_bytes=100), tiny(inbox, "other")
    other.receive(b"x" * 90, {})
    for _ in range(3):
        endpoint.receive(b"x" * 60, {})
    assert endpoint.receive(b"x" * 101, {}).delivery_id is None
    assert [delivery.endpoint for delivery in inbox.list_deliveries(orphaned=True)] == ["in", "other"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=binary(max_size=200),
    headers=lists(tuples(text(max_size=10), text(max_size=20)), max_size=5),
    query=text(max_size=30),
    method=text(max_size=8),
)
@pytest.mark.guarantee("G36")
def test_no_request_raises(
    inbox: brant.Inbox, body: bytes, headers: list[tuple[str, str]], query: str, method: str
) -> None:
    facts = {"query": query, "method": method}
    assert tiny(inbox).receive(body, headers, **facts).status_code in (200, 401, 405)
    assert inbox.endpoint("open", verify="none", methods=[method]).receive(body, headers, **facts).status_code == 204
