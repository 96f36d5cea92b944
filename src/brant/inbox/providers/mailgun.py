"""Mailgun: an HMAC of a time and a one-time token inside the body. The rest of the body is not signed."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets as random
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.multipart import multipart_fields
from brant.inbox.providers.base import Incoming, Provider, Rejected, at, body_key, incoming
from brant.inbox.providers.signatures import NO_MATCH, any_match, check_time, decoded, digest, digits
from brant.inbox.request import Request

_MOST_TOKENS = 10_000


class Mailgun(Provider):
    """A token counts for one body only, as far as this process remembers: else it would vouch for any other body."""

    name = "mailgun"
    success_status = 200
    is_quick = True
    options: ClassVar[Mapping[str, object]] = {"tolerance_s": 300.0}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._seen: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        timestamp, token, signature = _proof(request)
        check_time(digits(timestamp), now, self.settings["tolerance_s"])
        raw = decoded(signature, "hex")
        message = f"{timestamp}{token}".encode("utf-8", "surrogatepass")
        if raw is None or not any_match(secrets, [message], [raw]):
            raise Rejected(NO_MATCH)
        if not self._first_or_same(timestamp + token, hashlib.sha256(request.body).digest()):
            raise Rejected("the token came before, with another body")

    def read_events(self, request: Request) -> list[Incoming]:
        data = at(request.document(), "event-data") or _form(request)
        event_id, kind = at(data, "id"), at(data, "event")
        found = incoming(event_id, kind, event_id=event_id, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), event_type=kind)]

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        """`body` is a JSON object; the signature is put into it."""
        timestamp, token = str(int(now)), random.token_hex(25)
        key = secret.encode() if isinstance(secret, str) else secret
        signature = digest(key, f"{timestamp}{token}".encode()).hex()
        proof = {"timestamp": timestamp, "token": token, "signature": signature}
        whole = {**Request(body).document(), "signature": proof}
        return self.draft(json.dumps(whole).encode(), facts, ("content-type", "application/json"))

    def _first_or_same(self, token: str, body: bytes) -> bool:
        with self._lock:
            while len(self._seen) >= _MOST_TOKENS:
                del self._seen[next(iter(self._seen))]
            return hmac.compare_digest(self._seen.setdefault(token, body), body)


def _form(request: Request) -> dict[str, str]:
    """What came twice is not there: nobody can say which of them was signed."""
    fields = multipart_fields(request) or request.form()
    names = [name for name, _ in fields]
    return {name: value for name, value in fields if names.count(name) == 1}


def _proof(request: Request) -> tuple[str, str, str]:
    given = at(request.document(), "signature") or _form(request)
    timestamp, token, signature = (at(given, name) for name in ("timestamp", "token", "signature"))
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        timestamp = str(timestamp)
    if not (isinstance(timestamp, str) and isinstance(token, str) and isinstance(signature, str)):
        raise Rejected("the body has no timestamp, token and signature")
    if len(token) > 200:
        raise Rejected("the token is too long")
    return timestamp, token, signature
