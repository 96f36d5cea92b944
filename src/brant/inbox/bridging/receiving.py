"""The far end of a bridge: an endpoint of the inbox whose events go into the node's own streams."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from brant.inbox.bridging.envelope import Envelope, Travelling
from brant.inbox.bridging.tables import name_node, prepare
from brant.inbox.endpoints import MEGABYTE, Endpoint, RetryPolicy
from brant.inbox.providers.brant_node import BrantNode
from brant.inbox.request import Request
from brant.inbox.tables import hold, rows, run

if TYPE_CHECKING:
    from brant.database import Database
    from brant.inbox.inbox import Inbox
    from brant.inbox.records import Event
    from brant.transaction import Transaction

__all__ = ["receive_bridge"]

_LARGEST_BODY = 16 * MEGABYTE


def receive_bridge(
    inbox: Inbox,
    secrets: Any,
    *,
    name: str = "bridge",
    path: str | None = None,
    topics: str | Iterable[str] = (),
    node: str | None = None,
    tolerance_s: float | None = 300,
    max_body: int = _LARGEST_BODY,
    **options: Any,
) -> Endpoint:
    """An endpoint that publishes what `brant bridge` sends, each event once, in the commit that stores the request.

    Events go to the topic that they come from; `topics` are those that may come, all without it. `node` names this
    database among the nodes. Further options are those of `inbox.endpoint`.
    """
    if node is not None:
        name_node(inbox.db, node)
    own = prepare(inbox.db)
    provider = BrantNode(node=own, tolerance_s=tolerance_s, **({"topics": topics} if topics else {}))
    endpoint = inbox.endpoint(
        name,
        path=path,
        provider=provider,
        secrets=secrets,
        max_body=max_body,
        retry=RetryPolicy(max_attempts=20, first_delay_s=1),
        **options,
    )
    endpoint.take = _publish

    def again(event: Event, tx: Transaction) -> None:
        """For a replay: what is known is not published again."""
        _publish(inbox.db, tx, event.body or b"")

    endpoint.add_handler(again)
    return endpoint


def _publish(db: Database, tx: Transaction, body: bytes) -> None:
    hold(tx, "bridge")
    envelope = Envelope.of(Request.of(body).document())
    own = rows(tx, "bridge_node")[0]["name"]
    fresh = _unknown(tx, [event for event in envelope.events if event.origin != own])
    offsets = db.stream(envelope.topic).publish_many(
        [event.payload for event in fresh], [event.key for event in fresh], tx=tx
    )
    noted = [
        [offset, event.origin, event.offset, event.mark, event.created_at]
        for offset, event in zip(offsets, fresh, strict=True)
    ]
    run(tx, "bridge_note", json.dumps(noted))


def _unknown(tx: Transaction, events: list[Travelling]) -> list[Travelling]:
    """Those that were never published here, in their order, each once."""
    by_identity = {(event.origin, event.offset, event.mark): event for event in events}
    known = {found["position"] for found in rows(tx, "bridge_known", json.dumps(list(by_identity)))}
    return [event for position, event in enumerate(by_identity.values()) if position not in known]
