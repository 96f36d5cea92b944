"""PayPal: RSA over ids, time and the body's CRC-32, with a certificate from an address of PayPal."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from brant.inbox.providers.asymmetric import check_certificate_signature, need_cryptography, private_signature
from brant.inbox.providers.base import Incoming, Provider, Rejected, at, body_key, incoming, required_header
from brant.inbox.providers.fetching import Certificates, allowed
from brant.inbox.providers.signatures import check_time, decoded, encoded, iso_moment, iso_text
from brant.inbox.request import Request

_HOSTS = re.compile(r"(api|api-m)(\.sandbox)?\.paypal\.com", re.ASCII)
_PATH = re.compile(r"/v1/notifications/certs/[A-Za-z0-9._-]{1,128}", re.ASCII)
_CERTIFICATE = "https://api.paypal.com/v1/notifications/certs/CERT-test"


class PayPal(Provider):
    """`webhook_id` is the webhook's id in PayPal's dashboard: it binds the signature to this receiver.

    `fetch` gets the certificate: a callable from its URL to its PEM.
    """

    name = "paypal"
    needs_secret = False
    options: ClassVar[Mapping[str, object]] = {"webhook_id": "", "fetch": None, "tolerance_s": None}
    required = ("webhook_id",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        need_cryptography(self.name)
        self._certificates = Certificates(self.settings["fetch"])

    def check(self, request: Request, secrets: Sequence[bytes], now: float) -> None:  # noqa: ARG002
        transmission = required_header(request, "PAYPAL-TRANSMISSION-ID")
        time = required_header(request, "PAYPAL-TRANSMISSION-TIME")
        signature = decoded(required_header(request, "PAYPAL-TRANSMISSION-SIG"), "base64")
        if required_header(request, "PAYPAL-AUTH-ALGO") != "SHA256withRSA" or signature is None:
            raise Rejected("the signature is of no known kind")
        if "|" in transmission:
            raise Rejected("PAYPAL-TRANSMISSION-ID holds a separator")
        check_time(iso_moment(time), now, self.settings["tolerance_s"])
        url = required_header(request, "PAYPAL-CERT-URL")
        parts = allowed(url, _HOSTS)
        if parts is None or not _PATH.fullmatch(parts.path) or parts.query:
            raise Rejected("PAYPAL-CERT-URL is no address of PayPal")
        message = self._message(transmission, time, request.body)
        check_certificate_signature(self._certificates.get(url, now), message, signature, "sha256", now)

    def read_events(self, request: Request) -> list[Incoming]:
        document = request.document()
        event_id, kind = at(document, "id"), at(document, "event_type")
        delivery = request.header("PAYPAL-TRANSMISSION-ID")
        found = incoming(event_id, event_id=event_id, delivery_id=delivery, event_type=kind)
        return [found if found.dedupe_key else incoming(body_key(request.body), delivery_id=delivery, event_type=kind)]

    def sign(self, body: bytes, secret: str | bytes, now: float, **facts: str) -> Request:
        """`secret` is the private key of the certificate, as PEM."""
        transmission, time = facts.get("event_id", f"test-{int(now)}"), iso_text(now)
        key = secret.encode() if isinstance(secret, str) else secret
        signature = encoded(private_signature(key, self._message(transmission, time, body)), "base64")
        return self.draft(
            body,
            facts,
            ("content-type", "application/json"),
            ("PAYPAL-TRANSMISSION-ID", transmission),
            ("PAYPAL-TRANSMISSION-TIME", time),
            ("PAYPAL-TRANSMISSION-SIG", signature),
            ("PAYPAL-CERT-URL", _CERTIFICATE),
            ("PAYPAL-AUTH-ALGO", "SHA256withRSA"),
        )

    def _message(self, transmission: str, time: str, body: bytes) -> bytes:
        text = "|".join((transmission, time, self.settings["webhook_id"], str(zlib.crc32(body))))
        return text.encode("utf-8", "surrogatepass")
