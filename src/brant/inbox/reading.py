"""Looking into the inbox: newest first, page by page, without bodies unless they are asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from brant.arguments import whole
from brant.errors import InvalidValue
from brant.inbox.providers.base import stored_key
from brant.inbox.records import Attempt, Audit, Delivery, Event, PruneAudit, Reject
from brant.inbox.tables import row, rows

if TYPE_CHECKING:
    from brant.database import Database

STATUSES = ("received", "processing", "handled", "failed", "dead", "ignored")
OUTCOMES = ("handled", "failed", "dead", "ignored")
_NEWEST = 2**63 - 1
_MOST = 1000


class Reading:
    """The reads of an Inbox. For the next page pass the last id as `before`."""

    db: Database

    def list_events(
        self,
        *,
        status: str | None = None,
        endpoint: str | None = None,
        event_type: str | None = None,
        since: int | None = None,
        until: int | None = None,
        before: int | None = None,
        limit: int = 100,
        with_body: bool = False,
    ) -> list[Event]:
        """Events that match all that is given; `since` is inclusive, `until` is not, both in Unix seconds."""
        found = self._events(status, endpoint, event_type, since, until, before, limit, with_body)
        return [Event.of(each) for each in found]

    def _events(
        self,
        status: str | None,
        endpoint: str | None,
        event_type: str | None,
        since: int | None,
        until: int | None,
        before: int | None,
        limit: int,
        with_body: bool,
    ) -> list[dict[str, Any]]:
        if status is not None:
            one_of(status, STATUSES, "status")
        name = {
            (False, False): "list_events",
            (True, False): "list_events_of_status",
            (False, True): "list_events_of_endpoint",
            (True, True): "list_events_of_both",
        }[status is not None, endpoint is not None]
        return rows(
            self.db,
            name,
            _cursor(before),
            event_type,
            number(since, "since"),
            number(until, "until"),
            page_size(limit),
            endpoint,
            status,
            bool(with_body),
        )

    def get_event(self, event_id: int, *, with_body: bool = True) -> Event:
        """The event; KeyError when there is none."""
        found = row(self.db, "get_event", whole(event_id, "event_id"), bool(with_body))
        if found is None:
            raise KeyError(f"there is no event {event_id}")
        return Event.of(found)

    def find_event(self, endpoint: str, dedupe_key: str) -> Event | None:
        """The event of that identity, without its body."""
        found = row(self.db, "event_of_key", endpoint, stored_key(dedupe_key))
        return None if found is None else Event.of(found)

    def list_deliveries(
        self,
        *,
        event_id: int | None = None,
        endpoint: str | None = None,
        signature_valid: bool | None = None,
        orphaned: bool | None = None,
        since: int | None = None,
        before: int | None = None,
        limit: int = 100,
        with_body: bool = False,
    ) -> list[Delivery]:
        """Deliveries that match all that is given; `signature_valid=False` means "not known to be valid"."""
        name = "list_deliveries" if endpoint is None else "list_deliveries_of_endpoint"
        found = rows(
            self.db,
            name if event_id is None else "list_deliveries_of_event",
            _cursor(before),
            _flag(signature_valid, "signature_valid"),
            _flag(orphaned, "orphaned"),
            number(since, "since"),
            page_size(limit),
            endpoint,
            None if event_id is None else whole(event_id, "event_id"),
            bool(with_body),
        )
        return [Delivery.of(each) for each in found]

    def get_delivery(self, delivery_id: int, *, with_body: bool = True) -> Delivery:
        """The delivery; KeyError when there is none."""
        found = row(self.db, "get_delivery", whole(delivery_id, "delivery_id"), bool(with_body))
        if found is None:
            raise KeyError(f"there is no delivery {delivery_id}")
        return Delivery.of(found)

    def events_of_delivery(self, delivery_id: int) -> list[int]:
        """The ids of all events that a delivery brought, in its order; also of those that were known already."""
        several = rows(self.db, "events_of_delivery", whole(delivery_id, "delivery_id"))
        if several:
            return [each["event_id"] for each in several]
        only = self.get_delivery(delivery_id, with_body=False).event_id
        return [] if only is None else [only]

    def list_attempts(
        self,
        *,
        event_id: int | None = None,
        outcome: str | None = None,
        since: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Attempt]:
        """Attempts, of one event or of all."""
        if outcome is not None:
            one_of(outcome, OUTCOMES, "outcome")
        given = (_cursor(before), outcome, number(since, "since"), page_size(limit))
        if event_id is None:
            found = rows(self.db, "list_attempts", *given)
        else:
            found = rows(self.db, "list_attempts_of_event", *given, whole(event_id, "event_id"))
        return [Attempt(**each) for each in found]

    def counts(self) -> dict[str, dict[str, int]]:
        """How many events there are, by endpoint and status."""
        found: dict[str, dict[str, int]] = {}
        for each in rows(self.db, "count_events"):
            found.setdefault(each["endpoint"], {})[each["status"]] = each["count"]
        return found

    def lag(self, endpoint: str | None = None) -> float | None:
        """How long the oldest event that is not done has waited, in seconds; None when all are done."""
        given = () if endpoint is None else (endpoint,)
        found = row(self.db, "oldest_waiting" if endpoint is None else "oldest_waiting_of_endpoint", *given)
        received_at = None if found is None else found["received_at"]
        return None if received_at is None else max(0.0, self.db.clock.now() - received_at)

    def list_rejects(self, *, endpoint: str | None = None, since: int = 0, limit: int = 100) -> list[Reject]:
        """What was refused, and why: one entry for each endpoint, hour, status and reason; the latest first."""
        found = rows(self.db, "list_rejects", endpoint, number(since, "since") or 0, page_size(limit))
        return [Reject(**each) for each in found]

    def list_audits(self, *, before: int | None = None, limit: int = 100) -> list[Audit]:
        """What operators did to events, the latest first."""
        return [
            Audit(each["id"], each["executed_at"], each["action"], each["events"], json.loads(each["summary_json"]))
            for each in rows(self.db, "list_audits", _cursor(before), page_size(limit))
        ]

    def list_prune_audits(
        self, *, kind: str | None = None, since: int | None = None, limit: int = 50
    ) -> list[PruneAudit]:
        """What retention deleted, the latest first."""
        found = rows(self.db, "list_prune_audits", kind, number(since, "since"), page_size(limit))
        return [PruneAudit(**_without_json(each), summary=json.loads(each["summary_json"])) for each in found]


def _without_json(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != "summary_json"}


def one_of(value: object, allowed: tuple[str, ...], what: str) -> str:
    if value not in allowed:
        raise InvalidValue(f"{what} must be one of {', '.join(allowed)}, not {value!r}")
    return str(value)


def number(value: object, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be a whole number of Unix seconds, not {value!r}")
    return value


def page_size(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit must be a whole number, not {limit!r}")
    return whole(limit, "limit", minimum=1, maximum=_MOST) if limit <= _MOST else _too_many(limit)


def _too_many(limit: int) -> int:
    raise InvalidValue(f"limit must be from 1 to {_MOST}, not {limit}: pass `before` for the next page")


def _cursor(before: object) -> int:
    return _NEWEST if before is None else whole(before, "before")


def _flag(value: object, what: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{what} must be True, False or None, not {value!r}")
    return value
