"""The common case: one header with an HMAC of the body, or of a text made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from brant.inbox.providers.base import Provider, Rejected, required_header
from brant.inbox.providers.signatures import NO_MATCH, any_match, decoded, digest, encoded
from brant.inbox.request import Request


class SignedProvider(Provider):
    """A subclass says which header, how it is spelled, and what was signed."""

    is_quick = True
    header: ClassVar[str]
    prefix: ClassVar[str] = ""
    encoding: ClassVar[str] = "hex"
    algorithm: ClassVar[str] = "sha256"

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        candidate = self._signature(required_header(request, self.header))
        messages = self.messages(request)
        self.check_freshness(request, now)
        if not any_match(self._keys(secrets), messages, [candidate], self.algorithm):
            raise Rejected(NO_MATCH)

    def messages(self, request: Request) -> list[bytes]:
        """What may have been signed; Rejected if the request lacks a part of it."""
        return [request.body]

    def check_freshness(self, request: Request, now: float) -> None:
        """Raises Rejected if the time that was signed is too far from now; many schemes sign none."""

    def key(self, secret: bytes) -> bytes:
        return secret

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:  # noqa: ARG002
        """The test request with all its headers but the signature."""
        return self.draft(body, facts)

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        request = self.unsigned(body, now, facts)
        key = self.key(secret.encode() if isinstance(secret, str) else secret)
        signature = digest(key, self.messages(request)[0], self.algorithm)
        return request.adding((self.header, self.prefix + encoded(signature, self.encoding)))

    def _keys(self, secrets: Sequence[bytes]) -> list[bytes]:
        return [self.key(secret) for secret in secrets if secret]

    def _signature(self, text: str) -> bytes:
        raw = decoded(text.removeprefix(self.prefix), self.encoding) if text.startswith(self.prefix) else None
        if raw is None:
            raise Rejected(f"the header {self.header} is not a signature of this kind")
        return raw
