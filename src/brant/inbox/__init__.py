"""Durable inbound webhooks: verified, stored before they are answered, handled in a transaction, replayable."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brant.inbox.endpoints import Endpoint, RetryPolicy
    from brant.inbox.inbox import Inbox
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
    "endpoints": ("Endpoint", "RetryPolicy"),
    "inbox": ("Inbox",),
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
]


def __getattr__(name: str) -> Any:
    # Imported when used, as in `brant` itself.
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"brant.inbox.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'brant.inbox' has no attribute {name!r}")
