"""Durable webhooks: verified, stored before they are answered, handled in a transaction, replayable; and sent."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brant.inbox.bridging.bridge import Bridge, BridgeError, Trouble
    from brant.inbox.bridging.receiving import receive_bridge
    from brant.inbox.bridging.tables import Origin, forget_bridged, name_node, node_name, origins
    from brant.inbox.endpoints import Endpoint, RetryPolicy
    from brant.inbox.inbox import Inbox
    from brant.inbox.outgoing.delivery import Destination, HttpDelivery
    from brant.inbox.providers.base import Answer, Incoming, Provider
    from brant.inbox.records import (
        Attempt,
        Audit,
        BulkResult,
        Delivery,
        EndpointInfo,
        Event,
        PruneAudit,
        Received,
        Reject,
    )
    from brant.inbox.request import Headers, Request
    from brant.inbox.retention import Pruned, RetentionPolicy
    from brant.inbox.secrets import Secret

_HOMES = {
    "bridging.bridge": ("Bridge", "BridgeError", "Trouble"),
    "bridging.receiving": ("receive_bridge",),
    "bridging.tables": ("Origin", "forget_bridged", "name_node", "node_name", "origins"),
    "endpoints": ("Endpoint", "RetryPolicy"),
    "inbox": ("Inbox",),
    "outgoing.delivery": ("Destination", "HttpDelivery"),
    "providers.base": ("Answer", "Incoming", "Provider"),
    "records": (
        "Attempt",
        "Audit",
        "BulkResult",
        "Delivery",
        "EndpointInfo",
        "Event",
        "PruneAudit",
        "Received",
        "Reject",
    ),
    "request": ("Headers", "Request"),
    "retention": ("Pruned", "RetentionPolicy"),
    "secrets": ("Secret",),
}

__all__ = [
    "Inbox",
    "Endpoint",
    "RetryPolicy",
    "RetentionPolicy",
    "Secret",
    "Provider",
    "Incoming",
    "Answer",
    "Request",
    "Headers",
    "Received",
    "Event",
    "Delivery",
    "Attempt",
    "EndpointInfo",
    "Reject",
    "Audit",
    "BulkResult",
    "PruneAudit",
    "Pruned",
    "HttpDelivery",
    "Destination",
    "Bridge",
    "BridgeError",
    "Trouble",
    "receive_bridge",
    "Origin",
    "origins",
    "forget_bridged",
    "node_name",
    "name_node",
]


def __getattr__(name: str) -> Any:
    # Imported when used, as in `brant` itself.
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"brant.inbox.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'brant.inbox' has no attribute {name!r}")
