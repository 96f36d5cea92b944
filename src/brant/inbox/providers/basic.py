"""`Authorization: Basic <base64 of user:password>`."""

from __future__ import annotations

from typing import ClassVar

from brant.errors import InvalidValue
from brant.inbox.providers.signatures import decoded, encoded
from brant.inbox.providers.tokens import TokenProvider


class Basic(TokenProvider):
    """The secret is `user:password`."""

    name = "basic-auth"
    aliases: ClassVar[tuple[str, ...]] = ("basic",)

    def token(self, value: bytes) -> bytes | None:
        scheme, _, credentials = value.partition(b" ")
        return decoded(credentials.decode("latin-1"), "base64") if scheme.lower() == b"basic" else None

    def spelled(self, secret: str) -> str:
        return f"Basic {encoded(secret.encode(), 'base64')}"

    def check_secret(self, secret: bytes) -> None:
        user, colon, password = secret.partition(b":")
        if not user or not colon or not password:
            raise InvalidValue(f"the secret of {self.name} must be user:password")
