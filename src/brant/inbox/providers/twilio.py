"""Twilio: an HMAC-SHA1 of the public address and the form's fields, or of the address with the body's hash in it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from brant.inbox.providers.base import Incoming, Rejected, at, incoming, request_key
from brant.inbox.providers.public_url import refuse_query, with_and_without_port, with_query
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request, fields

_FORM = "application/x-www-form-urlencoded"
_HASH = "bodySHA256"
_IDS = ("MessageSid", "SmsSid", "CallSid", "Sid")
_STATES = ("MessageStatus", "SmsStatus", "CallStatus", "EventType")


class Twilio(SignedProvider):
    """One call or message has many events, so its id is part of the key and the hash of query and body is the rest.

    `url` is the address as Twilio calls it, without the query.
    """

    name = "twilio"
    header = "X-Twilio-Signature"
    encoding = "base64"
    algorithm = "sha1"
    options: ClassVar[Mapping[str, object]] = {"url": (), "identity": "content"}
    required = ("url",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        refuse_query(self.settings["url"], self.name)

    def messages(self, request: Request) -> list[bytes]:
        signed = b"" if _has_hash(request) else _fields_text(request)
        urls = [variant for url in with_query(self.settings["url"], request) for variant in with_and_without_port(url)]
        return [url.encode("utf-8", "surrogatepass") + signed for url in urls]

    def read_events(self, request: Request) -> list[Incoming]:
        # What came by GET is in the query, which is signed as all of the address is.
        given: dict[str, Any] = request.document() or dict(request.form()) or dict(fields(request.query))
        sid = next((given[name] for name in _IDS if given.get(name)), None)
        state = next((given[name] for name in _STATES if given.get(name)), None)
        token = request.header("I-Twilio-Idempotency-Token")
        key = [part for part in (sid, state) if part]
        if token and self.settings["identity"] == "delivery":
            key.append(token)
        found = incoming(*key, request_key(request), event_id=sid, delivery_id=token, event_type=state)
        if found.dedupe_key:
            return [found]
        return [incoming(request_key(request), delivery_id=token, event_type=at(given, "EventType"))]

    def unsigned(self, body: bytes, now: float, facts: Mapping[str, str]) -> Request:  # noqa: ARG002
        if not body.lstrip().startswith((b"{", b"[")):
            return self.draft(body, facts, ("content-type", _FORM))
        query = [part for part in (facts.get("query"), urlencode({_HASH: hashlib.sha256(body).hexdigest()})) if part]
        return self.draft(body, {**facts, "query": "&".join(query)}, ("content-type", "application/json"))


def _has_hash(request: Request) -> bool:
    """Whether the address vouches for the body by its hash; Rejected if that is another body's."""
    if _HASH not in request.query:
        return False
    claimed = request.parameter(_HASH) or ""
    actual = hashlib.sha256(request.body).hexdigest()
    if not hmac.compare_digest(claimed.encode("utf-8", "surrogatepass"), actual.encode()):
        raise Rejected(f"{_HASH} is not the hash of the body")
    return True


def _fields_text(request: Request) -> bytes:
    if request.body and not (request.header("content-type") or "").lower().startswith(_FORM):
        raise Rejected(f"the body is no form, and the address has no {_HASH}")
    given = request.form()
    if request.body and not given:
        raise Rejected("the form can't be read")
    pairs = sorted(set(given))
    return "".join(name + value for name, value in pairs).encode("utf-8", "surrogateescape")
