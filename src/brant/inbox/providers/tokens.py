"""Senders that prove themselves by a secret in a header, and sign nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.providers.base import Incoming, Provider, Rejected, required_header
from brant.inbox.providers.named import NAMING, named_event
from brant.inbox.providers.signatures import same_secret
from brant.inbox.request import Request


class TokenProvider(Provider):
    """A subclass says which header, and how the secret is spelled in it. Who has the token may name the ids too."""

    is_quick = True
    options: ClassVar[Mapping[str, Any]] = NAMING

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:  # noqa: ARG002
        value = required_header(request, self.token_header())
        found = False
        for token in map(self.token, _spellings(value)):
            found |= token is not None and same_secret(secrets, token)
        if not found:
            raise Rejected("the token is not the right one")

    def token_header(self) -> str:
        return "Authorization"

    @property
    def credential_headers(self) -> tuple[str, ...]:
        return (self.token_header(),)

    def token(self, value: bytes) -> bytes | None:
        """The secret inside the header's value."""
        return value

    def spelled(self, secret: str) -> str:
        """The header's value for a secret."""
        return secret

    def read_events(self, request: Request) -> list[Incoming]:
        return [named_event(request, self.settings, ids_are_signed=True)]

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:  # noqa: ARG002
        text = secret if isinstance(secret, str) else secret.decode()
        return self.draft(body, facts, (self.token_header(), self.spelled(text)), *self.test_headers(facts))

    def test_headers(self, facts: Mapping[str, str]) -> list[tuple[str, str | None]]:
        names = (("id_header", "event_id"), ("type_header", "event_type"))
        return [(self.settings[option], facts.get(fact)) for option, fact in names if self.settings.get(option)]


def _spellings(value: str) -> list[bytes]:
    """The bytes that may have been sent: a server reads UTF-8 as latin-1, while others hand on what was meant."""
    found = [value.encode("utf-8", "surrogatepass")]
    if not value.isascii() and all(char <= "\xff" for char in value):
        found.append(value.encode("latin-1"))
    return found
