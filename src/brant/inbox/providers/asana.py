"""Asana: an HMAC of the body, with a secret that Asana chooses in the handshake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.providers.base import Answer, Incoming, at, body_key, incoming, packed
from brant.inbox.providers.batches import BatchProvider
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request

_SECRET = "X-Hook-Secret"  # noqa: S105, the header's name
_LONGEST_SECRET = 200


class Asana(BatchProvider, SignedProvider):
    """`on_secret` is called with the secret of a handshake. It stores the secret where the endpoint's secrets come

    from, and returns True; it returns False if no webhook is being set up. Without it handshakes are refused, since
    anybody could offer a secret. A heartbeat has no events and is answered without being stored.
    """

    name = "asana"
    is_quick = False  # it may call `on_secret`
    secret_comes_later = True
    header = "X-Hook-Signature"
    options: ClassVar[Mapping[str, object]] = {"on_secret": None}

    def items(self, request: Request) -> list[Any]:
        found = at(request.document(), "events")
        return found if isinstance(found, list) else []

    def read_item(self, item: Any, place: int, request: Request) -> Incoming:  # noqa: ARG002
        body, kind, action = packed(item), at(item, "resource", "resource_type"), at(item, "action")
        both = f"{kind}.{action}" if isinstance(kind, str) and isinstance(action, str) else action
        return incoming(body_key(body), event_type=both, body=body, ordering_key=at(item, "resource", "gid"))

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:
        offered = request.header(_SECRET)
        if offered is not None:
            return self._handshake(offered)
        if at(request.document(), "events") == [] and self.valid(request, secrets, now):
            return Answer()
        return None

    def _handshake(self, offered: str) -> Answer | None:
        proper = offered.isascii() and offered.isprintable() and 0 < len(offered) <= _LONGEST_SECRET
        if not proper or self.settings["on_secret"] is None or self.settings["on_secret"](offered) is not True:
            return None
        return Answer(headers=((_SECRET, offered),))
