"""Storing what was received: delivery, events, jobs and stream events, all in the transaction that is passed in."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from brant.inbox.providers.base import Incoming
from brant.inbox.records import Received
from brant.inbox.tables import hold, order_of, refusals_of, row, rows, run

if TYPE_CHECKING:
    from brant.database import Database
    from brant.inbox.endpoints import Endpoint
    from brant.inbox.jobs import Jobs, Starting
    from brant.transaction import Transaction

_HOUR_S = 3600
_PAUSED_RETRY_AFTER_S = 60
_EVICTED_AT_ONCE = 100
_MOST_REASONS = 50
_OTHER_REASONS = "other reasons"
FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class Item:
    """One event of a request."""

    incoming: Incoming
    body: bytes
    ordering_key: str | None
    filtered: bool


@dataclass(frozen=True, slots=True)
class Parcel:
    """All that is stored of a request, with its credentials taken out. `refusal`: nothing but that it was refused."""

    endpoint: Endpoint
    method: str = ""
    headers_json: str = "{}"
    query_json: str = "{}"
    body: bytes = b""
    signature_valid: int | None = 0
    signature_error: str | None = None
    first: Incoming = field(default_factory=Incoming)
    items: list[Item] = field(default_factory=list)
    refusal: Received | None = None

    @classmethod
    def refused(cls, endpoint: Endpoint, refusal: Received) -> Parcel:
        return cls(endpoint, refusal=refusal)

    @property
    def is_invalid(self) -> bool:
        return self.signature_valid == 0

    @property
    def held(self) -> list[str]:
        """What nobody else may work on while this is being stored."""
        endpoint = self.endpoint
        keys = {item.ordering_key for item in self.items if item.ordering_key is not None}
        counted = self.refusal is not None or self.is_invalid or endpoint.settings.rate_limit is not None
        return [order_of(endpoint.id, key) for key in keys] + ([refusals_of(endpoint.id)] if counted else [])

    def without_content(self) -> Parcel:
        return replace(self, headers_json="{}", query_json="{}", body=b"")


class _Stored(NamedTuple):
    """The event of an item. One that is gone has left its key."""

    event_id: int
    is_new: bool = False
    is_present: bool = True
    is_erased: bool = False


class _Paused(Exception):
    """The endpoint takes nothing for the time being."""


class Store:
    """Writes parcels, in transactions of one Database."""

    def __init__(self, db: Database, jobs: Jobs) -> None:
        self._db = db
        self._jobs = jobs

    def __call__(self, tx: Transaction, parcels: Sequence[Parcel]) -> list[Received]:
        """Store them; tells what to answer once this has committed."""
        starting = self._jobs.starting(tx)
        if tx.schema is None:
            answers = [self._answer(tx, parcel, starting) for parcel in parcels]
        else:
            hold(tx, *{key for parcel in parcels for key in parcel.held})
            by_place = {place: self._answer(tx, parcels[place], starting) for place in _without_deadlock(parcels)}
            answers = [by_place[place] for place in range(len(parcels))]
        starting.enqueue()
        return answers

    def _answer(self, tx: Transaction, parcel: Parcel, starting: Starting) -> Received:
        try:
            return self._stored(tx, parcel, starting)
        except _Paused:
            return Received(503, reason="the endpoint is paused", retry_after_s=_PAUSED_RETRY_AFTER_S)

    def _stored(self, tx: Transaction, parcel: Parcel, starting: Starting) -> Received:
        endpoint, now = parcel.endpoint, int(self._db.clock.now())
        limit = endpoint.settings.rate_limit
        if parcel.refusal is not None or parcel.is_invalid or limit is not None:
            _require_enabled(tx, endpoint.id)  # else the statement that inserts the event looks itself
        if parcel.refusal is not None:
            return self._refused(tx, parcel, parcel.refusal, now)
        if parcel.is_invalid:
            delivery_id = self._keep_orphan(tx, parcel, now)
            reason = parcel.signature_error or "the signature is not valid"
            return self._refused(tx, parcel, Received(401, reason=reason, delivery_id=delivery_id), now)
        if limit is not None and not self._db.try_rate_limit(f"inbox:{endpoint.id}", *limit, tx=tx):
            too_many = Received(429, reason="more requests than the endpoint takes", retry_after_s=limit[1])
            return self._refused(tx, parcel, too_many, now)
        return self._accept(tx, parcel, starting, now)

    def _refused(self, tx: Transaction, parcel: Parcel, refusal: Received, now: int) -> Received:
        endpoint_id, hour, reason = parcel.endpoint.id, now - now % _HOUR_S, refusal.reason or ""
        if rows(tx, "reasons_of_hour", endpoint_id, hour)[0]["count"] >= _MOST_REASONS:
            reason = _OTHER_REASONS  # a provider of the user's own may quote what the sender wrote
        run(tx, "count_reject", endpoint_id, hour, refusal.status_code, reason, now)
        return refusal

    def _accept(self, tx: Transaction, parcel: Parcel, starting: Starting, now: int) -> Received:
        stored = [self._store_event(tx, parcel, item, starting, now) for item in parcel.items]
        first = next((each.event_id for each in stored if each.is_present), None)
        # What was erased must not come back with a redelivery.
        kept = parcel.without_content() if any(each.is_erased for each in stored) else parcel
        delivery_id = self._insert_delivery(tx, kept, first, now)
        if len(stored) > 1:
            for position, each in enumerate(stored):
                if not each.is_present:
                    continue  # no event will ever be deleted with which the note would go
                run(tx, "note_batch_item", delivery_id, position, each.event_id, not each.is_new)
        settings = parcel.endpoint.settings
        wanted = None if settings.provider is None else settings.provider.accepted
        return Received(
            settings.success_status if wanted is None else wanted.status,
            delivery_id=delivery_id,
            event_ids=tuple(each.event_id for each in stored),
            duplicate=not any(each.is_new for each in stored),
            body=b"" if wanted is None else wanted.body,
            content_type=None if wanted is None else wanted.content_type,
        )

    def _store_event(self, tx: Transaction, parcel: Parcel, item: Item, starting: Starting, now: int) -> _Stored:
        endpoint, incoming = parcel.endpoint, item.incoming
        inserted = row(
            tx,
            "insert_event",
            endpoint.id,
            now,
            incoming.event_id,
            incoming.delivery_id,
            incoming.event_type,
            parcel.method,
            parcel.headers_json,
            item.body,
            parcel.query_json,
            incoming.dedupe_key,
            "ignored" if item.filtered else "received",
            FILTERED if item.filtered else None,
        )
        if inserted is None:
            _require_enabled(tx, endpoint.id)
            known = row(tx, "known_event", endpoint.id, incoming.dedupe_key)
            if known is None:
                # It was deleted between the two: now there is its tombstone, or it is new again.
                return self._store_event(tx, parcel, item, starting, now)
            # By a statement of its own: the one before may have waited for whoever erases it, and sees what was then.
            is_erased = row(tx, "is_erased", known["id"]) is not None
            return _Stored(known["id"], is_present=bool(known["present"]), is_erased=is_erased)
        event_id: int = inserted["id"]
        if item.filtered:
            run(tx, "insert_attempt", event_id, now, "ignored", FILTERED, 0)
        else:
            starting.add(endpoint.id, event_id, item.ordering_key)
            self._publish(tx, parcel, item, event_id, now)
        return _Stored(event_id, is_new=True)

    def _publish(self, tx: Transaction, parcel: Parcel, item: Item, event_id: int, now: int) -> None:
        topic = parcel.endpoint.settings.publish_to
        if topic is None:
            return
        incoming = item.incoming
        event = {
            "event_id": event_id,
            "endpoint": parcel.endpoint.name,
            "event_type": incoming.event_type,
            "provider_event_id": incoming.event_id,
            "received_at": now,
            **_body_for_json(item.body),
        }
        self._db.stream(topic).publish(event, key=item.ordering_key or incoming.dedupe_key, tx=tx)

    def _insert_delivery(self, tx: Transaction, parcel: Parcel, event_id: int | None, now: int) -> int:
        first = parcel.first
        inserted = rows(
            tx,
            "insert_delivery",
            parcel.endpoint.id,
            event_id,
            now,
            first.event_id,
            first.delivery_id,
            first.event_type,
            parcel.method,
            parcel.headers_json,
            parcel.body,
            parcel.query_json,
            parcel.signature_valid,
            parcel.signature_error,
            first.dedupe_key,
        )
        return int(inserted[0]["id"])

    def _keep_orphan(self, tx: Transaction, parcel: Parcel, now: int) -> int | None:
        """The newest stay: whoever sends what is not valid fills no disk, and a wrong secret can still be seen."""
        settings = parcel.endpoint.settings
        if len(parcel.body) > settings.max_orphan_bytes or settings.max_orphans == 0:
            return None
        totals = rows(tx, "orphan_totals", parcel.endpoint.id)[0]
        count, size = totals["count"] + 1, totals["bytes"] + len(parcel.body)
        while count > settings.max_orphans or size > settings.max_orphan_bytes:
            for old in rows(tx, "oldest_orphans", parcel.endpoint.id, _EVICTED_AT_ONCE):
                if count <= settings.max_orphans and size <= settings.max_orphan_bytes:
                    break
                run(tx, "delete_delivery", old["id"])
                run(tx, "delete_batches", json.dumps([old["id"]]))
                count, size = count - 1, size - old["bytes"]
        return self._insert_delivery(tx, parcel, None, now)


def _without_deadlock(parcels: Sequence[Parcel]) -> list[int]:
    """In which order to store them beside others who do so too, each waiting for those that have the same event.

    What has an ordering key is held already, and stays in its order; the others go by their identities.
    """

    def turn(place: int) -> tuple[int, str]:
        parcel = parcels[place]
        if any(item.ordering_key is not None for item in parcel.items):
            return 0, ""
        return parcel.endpoint.id, parcel.first.dedupe_key or ""

    return sorted(range(len(parcels)), key=turn)


def _require_enabled(tx: Transaction, endpoint_id: int) -> None:
    state = row(tx, "is_enabled", endpoint_id)
    if state is None or not state["enabled"]:
        raise _Paused


def _body_for_json(body: bytes) -> dict[str, Any]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
