"""Stripe: `Stripe-Signature: t=...,v1=...`, with several v1 while a secret is rolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from brant.inbox.providers.base import Incoming, Provider, Rejected, at, body_key, incoming, required_header
from brant.inbox.providers.signatures import NO_MATCH, any_match, check_time, decoded, digest, digits, few
from brant.inbox.request import Request


class Stripe(Provider):
    """The secret is the whole `whsec_...` text. The event's id is in the signed body."""

    name = "stripe"
    is_quick = True
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 300.0}
    header: ClassVar[str] = "Stripe-Signature"
    separators: ClassVar[tuple[str, str]] = (",", ".")  # between the parts; between time and body
    names: ClassVar[tuple[str, str]] = ("t", "v1")

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        times, signatures = self._parts(required_header(request, self.header))
        if len(times) != 1 or not signatures:
            raise Rejected(f"the header {self.header} lacks its time or its signature")
        check_time(digits(times[0]), now, self.settings["tolerance_s"])
        candidates = [raw for raw in (decoded(text, "hex") for text in signatures) if raw is not None]
        if not any_match(secrets, [self._message(times[0], request.body)], candidates):
            raise Rejected(NO_MATCH)

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        event_id = at(document, "id")
        found = incoming(event_id, event_id=event_id, event_type=at(document, "type"))
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=at(document, "type"))]

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        time, key = str(int(now)), secret.encode() if isinstance(secret, str) else secret
        signature = digest(key, self._message(time, body)).hex()
        value = f"{self.names[0]}={time}{self.separators[0]}{self.names[1]}={signature}"
        return self.draft(body, facts, ("content-type", "application/json"), (self.header, value))

    def _message(self, time: str, body: bytes) -> bytes:
        return time.encode() + self.separators[1].encode() + body

    def _parts(self, value: str) -> tuple[list[str], list[str]]:
        found: tuple[list[str], list[str]] = ([], [])
        for part in few(value.split(self.separators[0])):
            name, _, text = part.partition("=")
            if name in self.names:
                found[self.names.index(name)].append(text)
        return found
