"""Microsoft Graph change notifications: each item repeats the `clientState` that was set at the subscription."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from brant.inbox.providers.base import Answer, Incoming, Rejected, at, body_key, incoming, packed
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.signatures import same_secret
from brant.inbox.request import Request

_LONGEST_TOKEN = 4096


class MicrosoftGraph(BatchProvider):
    """The secret is the `clientState`. An item with neither id nor etag may come twice with the same text for two

    changes, so it has no key: better handled twice than lost.
    """

    name = "microsoft-graph"
    is_quick = True
    most_items = 1000
    aliases = ("msgraph", "graph")

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:  # noqa: ARG002
        items = _items(request)
        if not items or len(items) > self.most_items:
            raise Rejected("the body is no batch of notifications")
        known = [same_secret(secrets, _state(item)) for item in items]
        if not all(known):
            raise Rejected("a clientState is not the right one")

    def items(self, request: Request) -> list[Any]:
        return _items(request)

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        return _event(item)

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        """The token comes before anything is agreed on, so it is echoed to anybody, as plain text."""
        token = request.parameter("validationToken")
        if request.method != "POST" or not token or len(token) > _LONGEST_TOKEN:
            return None
        headers = (("X-Content-Type-Options", "nosniff"),)
        return Answer(body=token.encode("utf-8", "replace"), headers=headers)

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:  # noqa: ARG002
        """`body` is one notification or a whole batch; the clientState is put into it."""
        state = secret if isinstance(secret, str) else secret.decode()
        items = _items(Request(body)) or [Request(body).document()]
        batch = {"value": [{**item, "clientState": state} for item in items]}
        return self.draft(json.dumps(batch).encode(), facts, ("content-type", "application/json"))


def _items(request: Request) -> list[dict[str, Any]]:
    given = at(request.document(), "value")
    found = given if isinstance(given, list) else []
    return found if all(isinstance(item, dict) for item in found) else []


def _state(item: dict[str, Any]) -> bytes:
    state = at(item, "clientState")
    return state.encode("utf-8", "surrogatepass") if isinstance(state, str) else b""


def _event(item: dict[str, Any]) -> Incoming:
    # Without the clientState: it is a credential, and a handler has no use for it.
    body = packed({name: value for name, value in item.items() if name != "clientState"})
    event_id, etag = at(item, "id"), at(item, "resourceData", "@odata.etag")
    key = [event_id] if event_id else [body_key(body)] if etag else []
    return incoming(
        *key,
        event_id=event_id,
        event_type=at(item, "changeType") or at(item, "lifecycleEvent"),
        body=body,
        ordering_key=at(item, "resource"),
    )
