"""What the inbox hands out: events, deliveries, attempts, results, and the records of what was done to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brant.inbox.request import Headers, Request


@dataclass(frozen=True, slots=True)
class Event:
    """One event, as it was first received. `body` is None where it was not asked for; `replayed_delivery` is the
    delivery whose content this is, where a delivery is replayed."""

    id: int
    endpoint: str
    event_type: str | None
    status: str
    received_at: int
    provider_event_id: str | None
    provider_delivery_id: str | None
    dedupe_key: str | None
    method: str
    headers: Headers = field(repr=False)
    query: dict[str, Any] = field(repr=False)
    attempt_count: int
    handled_at: int | None
    last_error: str | None
    body_bytes: int
    body: bytes | None = field(default=None, repr=False)
    replayed_delivery: int | None = None

    def json(self) -> Any:
        """The body as JSON; BodyError when it is none, or was not asked for."""
        return Request(body=self.body or b"").json()

    @classmethod
    def of(cls, row: Mapping[str, Any], **changes: Any) -> Event:
        return cls(**_shared(row), **{name: row[name] for name in _EVENT_ONLY}, **changes)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One receipt. `signature_valid` is True, False, or None for one that nobody verified, by choice."""

    id: int
    endpoint: str
    event_id: int | None
    event_type: str | None
    received_at: int
    provider_event_id: str | None
    provider_delivery_id: str | None
    dedupe_key: str | None
    method: str
    headers: Headers = field(repr=False)
    query: dict[str, Any] = field(repr=False)
    signature_valid: bool | None
    signature_error: str | None
    body_bytes: int
    body: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Delivery:
        valid = row["signature_valid"]
        return cls(
            **_shared(row),
            event_id=row["event_id"],
            signature_valid=None if valid is None else bool(valid),
            signature_error=row["signature_error"],
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a handler, or one act of an operator: handled, failed, dead or ignored."""

    id: int
    event_id: int
    attempted_at: int
    outcome: str
    error: str | None
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a request, and what to answer. `retry_after_s` goes with 429 and 503."""

    status_code: int
    reason: str | None = None
    delivery_id: int | None = None
    event_ids: tuple[int, ...] = ()
    duplicate: bool = False
    retry_after_s: int | None = None
    body: bytes = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    follow_up: Any = None

    @property
    def event_id(self) -> int | None:
        """The first of them."""
        return self.event_ids[0] if self.event_ids else None

    @property
    def accepted(self) -> bool:
        return 200 <= self.status_code < 300


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """An endpoint as the database knows it; a process that wants to receive for it must register it too."""

    name: str
    path: str
    provider: str | None
    enabled: bool
    created_at: int


@dataclass(frozen=True, slots=True)
class Reject:
    """How often an endpoint refused for one reason within one hour."""

    endpoint: str | None
    hour: int
    status: int
    reason: str
    count: int
    last_at: int


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What an operation on many events did, or with `dry_run` would do."""

    action: str
    events: int
    dry_run: bool
    audit_id: int | None


@dataclass(frozen=True, slots=True)
class Audit:
    """A record of an operator's act."""

    id: int
    executed_at: int
    action: str
    events: int
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PruneAudit:
    """A record of a pass of the retention."""

    id: int
    kind: str
    queue_name: str
    executed_at: int
    events_pruned: int | None
    deliveries_pruned: int | None
    attempts_pruned: int | None
    live_jobs_pruned: int | None
    summary: dict[str, Any]


_SHARED = (
    "id",
    "endpoint",
    "event_type",
    "received_at",
    "provider_event_id",
    "provider_delivery_id",
    "dedupe_key",
    "method",
    "body_bytes",
)
_EVENT_ONLY = ("status", "attempt_count", "handled_at", "last_error")


def _shared(row: Mapping[str, Any]) -> dict[str, Any]:
    body = row["body"]
    return {
        **{name: row[name] for name in _SHARED},
        "headers": headers_of(row["headers_json"]),
        "query": query_of(row["query_json"]),
        "body": body.encode() if isinstance(body, str) else body,
    }


def headers_of(text: str) -> Headers:
    """An object, in which a header that came several times has a list of its values."""
    found = _decoded(text)
    pairs = found.items() if isinstance(found, dict) else ()
    return Headers(
        (name, str(value)) for name, values in pairs for value in (values if isinstance(values, list) else [values])
    )


def query_of(text: str) -> dict[str, Any]:
    found = _decoded(text)
    return found if isinstance(found, dict) else {}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None  # another program wrote it: the event is worth more than its headers
