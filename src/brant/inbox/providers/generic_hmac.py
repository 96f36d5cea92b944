"""Any sender that puts an HMAC of the body into a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from brant.inbox.providers.base import Incoming
from brant.inbox.providers.named import NAMING, named_event
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request


class GenericHmac(SignedProvider):
    """Told by options: `header`, `prefix` (like "sha256="), `encoding` (hex, base64), `algorithm` (sha256, sha512...).

    `id_field` and `type_field` name fields of the body. An `id_header` is not signed, so the body's hash goes with it.
    """

    name = "hmac"
    aliases = ("generic-hmac", "hmac-sha256", "generic-hmac-sha256")
    options: ClassVar[Mapping[str, object]] = {
        "header": "X-Signature",
        "prefix": "",
        "encoding": "hex",
        "algorithm": "sha256",
        **NAMING,
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name in ("header", "prefix", "encoding", "algorithm"):
            setattr(self, name, self.settings[name])

    def read_events(self, request: Request) -> list[Incoming]:
        return [named_event(request, self.settings, ids_are_signed=False)]

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:  # noqa: ARG002
        id_header, type_header = self.settings["id_header"], self.settings["type_header"]
        return self.draft(
            body,
            facts,
            (id_header or "", facts.get("event_id") if id_header else None),
            (type_header or "", facts.get("event_type") if type_header else None),
        )
