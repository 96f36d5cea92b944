"""Standard Webhooks, from the sender's side: who sends signs with all secrets that count, so that either is known."""

from __future__ import annotations

from typing import Any

from brant.errors import InvalidValue
from brant.inbox.providers.standard_webhooks import StandardWebhooks
from brant.inbox.secrets import Secrets

__all__ = ["Signing"]

_PUBLIC = b"whpk_"
_SIGNATURE = "webhook-signature"


class Signing:
    """`whsec_` secrets sign v1 (HMAC), `whsk_` keys sign v1a (Ed25519)."""

    def __init__(self, secrets: Any) -> None:
        """InvalidValue if one can't sign; what can't be read now, as an unset variable, is refused too."""
        self._secrets = Secrets(secrets)
        self._scheme = StandardWebhooks()
        for secret in self._secrets.current(0):
            self._check(secret)

    def headers(self, body: bytes, message_id: str, now: float) -> list[tuple[str, str]]:
        """The three headers, the signatures by all secrets in one; SecretUnavailable if one can't be read."""
        secrets = self._secrets.current(now)
        if not secrets:
            raise InvalidValue("no secret counts at this time")
        made: dict[str, str] = {}
        signatures = []
        for secret in secrets:
            self._check(secret)
            made = dict(self._scheme.sign(body, secret, now, event_id=message_id).headers.pairs)
            signatures.append(made[_SIGNATURE])
        return [
            ("webhook-id", made["webhook-id"]),
            ("webhook-timestamp", made["webhook-timestamp"]),
            (_SIGNATURE, " ".join(signatures)),
        ]

    def _check(self, secret: bytes) -> None:
        if secret.startswith(_PUBLIC):
            raise InvalidValue("a whpk_ key only verifies; to sign, give the whsk_ key")
        self._scheme.check_secret(secret)

    def __repr__(self) -> str:
        return "<Signing>"
