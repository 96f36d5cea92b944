"""Endpoints: what can be registered, and files that other programs made."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import brant
import brant.inbox
from brant.inbox import Incoming, RetryPolicy, Secret
from brant.inbox.bridging.tables import prepare as prepare_bridge
from brant.inbox.tables import statements
from tests.inbox.tiny import QUEUE, SECRET, Tiny, send, signed, status, tiny, work


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "verify='none'"),
        ({"verify": "provider"}, "needs a provider"),
        ({"verify": "maybe"}, "'provider' or 'none'"),
        ({"provider": Tiny()}, "no secret"),
        ({"provider": Tiny(), "secrets": ""}, "empty"),
        ({"provider": Tiny(), "secrets": []}, "no secret"),
        ({"provider": Tiny(), "secrets": ["a", ""]}, "empty"),
        ({"verify": "none", "secrets": "s"}, "would check nothing"),
        ({"provider": "gitbub", "secrets": "s"}, "did you mean 'github'"),
        ({"provider": "github", "secrets": "s", "options": {"nonsense": 1}}, "no option 'nonsense'"),
        ({"verify": "none", "options": {"a": 1}}, "options need a provider"),
        ({"verify": "none", "path": "hooks"}, "begin with /"),
        ({"verify": "none", "max_body": -1}, "max_body"),
        ({"verify": "none", "rate_limit": 5}, "rate_limit"),
        ({"verify": "none", "ordering_key": "account"}, "ordering_key"),
        ({"verify": "none", "success_status": 301}, "success_status"),
    ],
)
@pytest.mark.guarantee("G32")
def test_an_endpoint_that_can_not_work_is_refused_and_not_saved(
    inbox: brant.Inbox, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(brant.InvalidValue, match=complaint):
        inbox.endpoint("in", **options)
    assert inbox.list_endpoints() == []
    assert inbox.receive("in", b"").status_code == 404


@pytest.mark.parametrize("options", [{"max_attempts": 0}, {"backoff": 0.5}, {"jitter": 2}, {"first_delay_s": -1}])
def test_a_retry_policy_that_can_not_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(brant.InvalidValue):
        RetryPolicy(**options)


def test_one_method_and_one_name_to_redact_may_be_given_as_they_are(inbox: brant.Inbox) -> None:
    endpoint = inbox.endpoint("in", verify="none", methods="post", redact="X-Customer-Email")
    refused = endpoint.receive(b"{}", method="GET")
    assert (refused.status_code, refused.headers) == (405, (("Allow", "POST"),))
    received = endpoint.receive(b"{}", {"X-Customer-Email": "jane@example.com"})
    assert inbox.get_event(received.event_ids[0]).headers.all("x-customer-email") == ["[redacted]"]


def test_a_path_has_one_endpoint(inbox: brant.Inbox) -> None:
    tiny(inbox, "a", path="/hooks")
    with pytest.raises(brant.InvalidValue, match="taken by the endpoint 'a'"):
        tiny(inbox, "b", path="/hooks")
    assert [endpoint.name for endpoint in inbox.list_endpoints()] == ["a"]


def test_registering_again_changes_the_endpoint_and_keeps_its_handlers(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox)
    endpoint.add_handler(lambda event, tx: None)
    event_id = send(endpoint, "e1")
    again = tiny(inbox, path="/elsewhere", max_body=10)
    assert again is endpoint
    assert [found.path for found in inbox.list_endpoints()] == ["/elsewhere"]
    assert again.receive(b"x" * 11).status_code == 413
    work(inbox)
    assert status(inbox, event_id) == "handled"


@pytest.mark.parametrize("handler", [lambda event: None, lambda: None, "text", lambda event, tx, more: None])
def test_a_handler_must_take_an_event_and_a_transaction(inbox: brant.Inbox, handler: Any) -> None:
    with pytest.raises(brant.InvalidValue, match=r"\(event, tx\)"):
        tiny(inbox).add_handler(handler)


def test_handle_without_parentheses_is_refused_with_advice(inbox: brant.Inbox) -> None:
    with pytest.raises(brant.InvalidValue, match=r"write @endpoint\.handle"):
        tiny(inbox).handle(lambda event, tx: None)  # type: ignore[arg-type]


@pytest.mark.guarantee("G35")
def test_secrets_are_in_no_repr_and_in_no_file(inbox: brant.Inbox, path: Path) -> None:
    endpoint = tiny(inbox)
    shown = f"{endpoint!r} {endpoint.settings!r} {vars(endpoint)!r} {inbox!r}"
    assert SECRET not in shown
    inbox.close()
    assert SECRET.encode() not in path.read_bytes()


def test_a_new_secret_is_taken_and_a_removed_one_is_not(inbox: brant.Inbox) -> None:
    def sent(body: bytes, secret: str) -> int:
        return inbox.receive("in", body, {"X-Tiny": f"{secret}{len(body)}"}).status_code

    inbox.endpoint("in", provider=Tiny(), secrets=["old", "new"])
    assert [sent(b"1", "old"), sent(b"2", "new")] == [204, 204]
    inbox.endpoint("in", provider=Tiny(), secrets=["new"])
    assert [sent(b"3", "old"), sent(b"4", "new")] == [401, 204]


def test_a_secret_past_its_time_is_not_taken(inbox: brant.Inbox, clock: Any) -> None:
    soon = clock.now() + 60
    endpoint = inbox.endpoint("in", provider=Tiny(), secrets=[Secret("old", not_after=soon), "new"])
    first = endpoint.receive(b"1", {"X-Tiny": "old1"})
    clock.advance(61)
    assert (first.status_code, endpoint.receive(b"2", {"X-Tiny": "old1"}).status_code) == (204, 401)


def test_a_secret_that_can_not_be_read_now_is_503(inbox: brant.Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    endpoint = inbox.endpoint("in", provider=Tiny(), secrets="env:HOOK_SECRET")
    monkeypatch.delenv("HOOK_SECRET")
    assert endpoint.receive(b"1", signed(b"1")).status_code == 503


def test_identify_names_the_events_itself(inbox: brant.Inbox) -> None:
    endpoint = tiny(inbox, identify=lambda request: Incoming("mine", event_type="mine"))
    received = endpoint.receive(b"1", signed(b"1"))
    assert inbox.get_event(received.event_ids[0]).dedupe_key == "mine"


# Files of Knocker

KNOCKERS = """
CREATE TABLE knocker_endpoints (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
  path TEXT NOT NULL UNIQUE, provider TEXT, enabled INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL DEFAULT (unixepoch()));
CREATE TABLE knocker_events (id INTEGER PRIMARY KEY AUTOINCREMENT,
  endpoint_id INTEGER NOT NULL REFERENCES knocker_endpoints(id), received_at INTEGER NOT NULL, provider_event_id TEXT,
  provider_delivery_id TEXT, event_type TEXT, method TEXT NOT NULL, headers_json TEXT NOT NULL,
  body_blob BLOB NOT NULL, query_json TEXT NOT NULL, dedupe_key TEXT, status TEXT NOT NULL,
  attempt_count INTEGER NOT NULL DEFAULT 0, handled_at INTEGER, last_error TEXT);
CREATE UNIQUE INDEX knocker_own_key ON knocker_events (endpoint_id, dedupe_key) WHERE dedupe_key IS NOT NULL;
INSERT INTO knocker_endpoints (name, path) VALUES ('in', '/hooks');
INSERT INTO knocker_events (endpoint_id, received_at, event_type, method, headers_json, body_blob, query_json,
  dedupe_key, status) VALUES (1, 1, 't', 'POST', '{"a": "b"}', 'text', '{}', 'k', 'received');
"""


def test_a_file_that_knocker_made_works(path: Path) -> None:
    with brant.open(path) as db:
        db.queue(QUEUE).enqueue({"event_id": 1})
    other = sqlite3.connect(path)
    other.executescript(KNOCKERS)
    other.close()
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        endpoint = tiny(inbox, path="/hooks")
        bodies: list[bytes | None] = []
        endpoint.add_handler(lambda event, tx: bodies.append(event.body))
        assert endpoint.receive(b"1", signed(b"1"), dedupe_key="k").duplicate
        work(inbox)
        assert (status(inbox, 1), bodies) == ("handled", [b"text"])


def test_the_layout_of_an_old_knocker_is_refused(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE knocker_events (id INTEGER PRIMARY KEY, signature_valid INTEGER)")
    other.close()
    with brant.open(path) as db, pytest.raises(brant.StorageError, match="old Knocker"):
        brant.Inbox(db)


def test_the_tables_have_knockers_columns(inbox: brant.Inbox) -> None:
    expected = {
        "knocker_endpoints": "id name path provider enabled created_at",
        "knocker_events": "id endpoint_id received_at provider_event_id provider_delivery_id event_type method "
        "headers_json body_blob query_json dedupe_key status attempt_count handled_at last_error",
        "knocker_deliveries": "id endpoint_id event_id received_at provider_event_id provider_delivery_id event_type "
        "method headers_json body_blob query_json signature_valid signature_error dedupe_key",
        "knocker_attempts": "id event_id attempted_at outcome error duration_ms",
        "knocker_prune_audits": "id kind queue_name executed_at events_pruned deliveries_pruned attempts_pruned "
        "live_jobs_pruned summary_json",
    }
    for table, columns in expected.items():
        found = inbox.db.query("SELECT name FROM pragma_table_info(?)", [table])
        assert [row["name"] for row in found] == columns.split(), table


def test_a_database_without_an_inbox_has_none_of_its_tables(db: brant.Database) -> None:
    db.queue("q").enqueue(1)
    assert db.query("SELECT 1 FROM sqlite_schema WHERE name LIKE 'knocker%' OR name LIKE '_brant_inbox%'") == []


# Walks over all endpoints, or over one group of what the statement is there to count.
MAY_SCAN = {"endpoint_rows", "count_events", "list_rejects", "list_prune_audits", "list_audits", "is_prepared"}
MAY_SCAN |= {"has_events_table", "has_old_layout", "list_attempts", "list_events", "list_deliveries"}
MAY_SCAN |= {"bridge_is_prepared", "bridge_left_behind"}
PLANNED = [
    name
    for name, sql in statements().items()
    if name not in MAY_SCAN and sql.split()[0] in ("SELECT", "UPDATE", "DELETE")
]


@pytest.mark.parametrize("name", PLANNED)
def test_a_statement_scans_no_table(inbox: brant.Inbox, name: str) -> None:
    prepare_bridge(inbox.db)
    sql = statements()[name]
    values = [1] * max([int(number) for number in re.findall(r"\?(\d+)", sql)], default=0)
    plan = [row["detail"] for row in inbox.db.query(f"EXPLAIN QUERY PLAN {sql}", values)]
    given = ("CONSTANT", "subquery", "VIRTUAL TABLE")
    scans = [step for step in plan if step.startswith("SCAN") and not any(word in step for word in given)]
    assert not scans, plan


def test_the_public_surface_says_what_it_is_for() -> None:
    classes = [getattr(brant.inbox, name) for name in brant.inbox.__all__]
    verbs = [
        (kind.__name__, name)
        for kind in (brant.Inbox, brant.inbox.Endpoint)
        for name in dir(kind)
        if not name.startswith("_") and callable(getattr(kind, name)) and not getattr(kind, name).__doc__
    ]
    assert [kind.__name__ for kind in classes if not kind.__doc__] + verbs == []
