"""Senders that put several events into one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from brant.inbox.providers.base import Incoming, Provider, content_key, incoming
from brant.inbox.request import Request


class BatchProvider(Provider):
    """A subclass says where the items are, and what event an item is. Name it before the class that verifies."""

    # Far more than these senders put into a request, and few enough to be stored in one transaction.
    most_items: ClassVar[int] = 5000

    def verify(self, request: Request, secrets: Sequence[bytes], now: float) -> str | None:
        reason = super().verify(request, secrets, now)
        if reason is None and len(self.items(request)) > self.most_items:
            return f"the body holds more than {self.most_items} events"
        return reason

    def items(self, request: Request) -> list[Any]:  # noqa: ARG002
        """What the events are made from; empty if the body is no batch."""
        return []

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        return self.read_whole(request)

    def read_whole(self, request: Request) -> Incoming:
        """The one event of a body that is no batch, or one of too many."""
        return incoming(content_key(request))

    def read_events(self, request: Request) -> list[Incoming]:
        items = self.items(request)
        if not 0 < len(items) <= self.most_items:
            return [self.read_whole(request)]
        return [self.read_item(item, place, request) for place, item in enumerate(items)]

    def first_event(self, request: Request) -> Incoming:
        items = self.items(request)
        return self.read_item(items[0], 0, request) if items else self.read_whole(request)
