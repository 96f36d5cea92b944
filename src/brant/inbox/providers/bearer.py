"""`Authorization: Bearer <token>`."""

from __future__ import annotations

from brant.inbox.providers.tokens import TokenProvider


class Bearer(TokenProvider):
    """The secret is the token."""

    name = "bearer-token"
    aliases = ("bearer",)

    def token(self, value: bytes) -> bytes | None:
        scheme, _, token = value.partition(b" ")
        return token if scheme.lower() == b"bearer" else None

    def spelled(self, secret: str) -> str:
        return f"Bearer {secret}"
