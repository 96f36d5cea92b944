"""X (Twitter): an HMAC of the body, and the challenge-response check by GET."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from brant.inbox.providers.base import Answer, Incoming, Rejected, body_key, incoming
from brant.inbox.providers.signatures import digest, encoded
from brant.inbox.providers.signed import SignedProvider
from brant.inbox.request import Request

# Anybody may ask for the HMAC of a token, and events are signed by the same HMAC: a token must never be able to be an
# event, so it has no braces, and an event has to be an object.
_TOKEN = re.compile(r"[A-Za-z0-9+/=._~-]{1,256}", re.ASCII)


class X(SignedProvider):
    """The secret is the app's consumer secret. There is no event id; the type is the name of the list in the body."""

    name = "x"
    aliases = ("twitter",)
    header = "x-twitter-webhooks-signature"
    prefix = "sha256="
    encoding = "base64"

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:
        super().check(request, secrets, now)
        if not request.document():
            raise Rejected("the body is no JSON object")

    def read_events(self, request: Request) -> list[Incoming]:
        kind = next((name for name in request.document() if name.endswith("_events")), None)
        return [incoming(body_key(request.body), event_type=kind)]

    def challenge(self, request: Request, secrets: Sequence[bytes], now: float) -> Answer | None:  # noqa: ARG002
        token = request.parameter("crc_token") if request.method == "GET" else None
        if not token or not secrets or not _TOKEN.fullmatch(token):
            return None
        # With the first secret: X doesn't say which one it expects, and the first is the newest.
        proof = encoded(digest(secrets[0], token.encode()), "base64")
        body = json.dumps({"response_token": f"sha256={proof}"}).encode()
        return Answer(body=body, content_type="application/json")
