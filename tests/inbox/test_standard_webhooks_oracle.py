"""Standard Webhooks beside its reference library: they agree on random messages, by `make test-slow` on thousands."""

from __future__ import annotations

import base64
import os
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from brant.inbox import providers
from brant.inbox.request import Request
from brant.inbox.verification import VERIFIED, verify

_IDS = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1)
_BODIES = st.text(max_size=200).map(str.encode)
_SECRETS = st.binary(min_size=1, max_size=64)
_thorough = settings(max_examples=int(os.environ.get("BRANT_ORACLE_EXAMPLES", "400")), deadline=None)
STANDARD = providers.provider("standard-webhooks")


def _accepted_by_brant(request: Request, secret: str) -> bool:
    return verify(STANDARD, request, [secret.encode()], time.time()).state == VERIFIED


def _accepted_by_reference(request: Request, secret: str) -> bool:
    try:
        Webhook(secret).verify(request.body, dict(request.headers.pairs), json_parse=False)
    except (WebhookVerificationError, ValueError):  # it lets errors of base64 and of unpacking through
        return False
    return True


def _text(secret: bytes, prefix: bool, padding: bool) -> str:
    encoded = base64.b64encode(secret).decode()
    return ("whsec_" if prefix else "") + (encoded if padding else encoded.rstrip("="))


@_thorough
@given(_IDS, _BODIES, _SECRETS, st.booleans(), st.booleans())
def test_the_reference_accepts_what_brant_signs(
    event_id: str, body: bytes, secret: bytes, prefix: bool, padding: bool
) -> None:
    text = _text(secret, prefix, padding)
    request = STANDARD.sign(body, text, time.time(), event_id=event_id)

    assert _accepted_by_reference(request, text)
    assert _accepted_by_brant(request, text)


@_thorough
@given(_IDS, _BODIES, _SECRETS, st.booleans(), st.booleans())
def test_brant_accepts_what_the_reference_signs(
    event_id: str, body: bytes, secret: bytes, prefix: bool, padding: bool
) -> None:
    text, now = _text(secret, prefix, padding), int(time.time())
    signature = Webhook(text).sign(event_id, datetime.fromtimestamp(now, UTC), body.decode())
    headers = {"webhook-id": event_id, "webhook-timestamp": str(now), "webhook-signature": signature}

    assert _accepted_by_brant(Request.of(body, headers), text)


@_thorough
@given(_BODIES, st.data())
def test_both_refuse_a_damaged_message(body: bytes, data: st.DataObject) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = dict(STANDARD.sign(body, secret, time.time()).headers.pairs)
    where = data.draw(st.sampled_from(["body", "webhook-id", "webhook-timestamp", "webhook-signature"]))
    if where == "body":
        body += data.draw(st.text(min_size=1).map(str.encode))
    else:
        place = data.draw(st.integers(0, len(headers[where]) - 1))
        # Not the last group of the signature: the reference takes several spellings of one for the same.
        place = min(place, len(headers[where]) - 5)
        changed = chr(ord(headers[where][place]) ^ 1)
        headers[where] = headers[where][:place] + changed + headers[where][place + 1 :]
    request = Request.of(body, headers)

    assert not _accepted_by_brant(request, secret)
    assert not _accepted_by_reference(request, secret)


@pytest.mark.parametrize("shift_s", [-310, -290, 0, 290, 310])
def test_both_have_the_same_limits_of_time(shift_s: int) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    request = STANDARD.sign(b"{}", secret, time.time() + shift_s)

    assert _accepted_by_brant(request, secret) == _accepted_by_reference(request, secret) == (abs(shift_s) < 300)


@pytest.mark.parametrize("timestamp", ["1e9", " 1", "1_0", "+1", "1.5", "-1", "\u0661", "", "9" * 40, "nan"])
def test_a_timestamp_that_is_no_plain_number_is_refused(timestamp: str) -> None:
    headers = {"webhook-id": "m", "webhook-timestamp": timestamp, "webhook-signature": "v1,AAAA"}
    reason = verify(STANDARD, Request.of(b"", headers), [b"AAAA"], 1).reason

    assert reason in ("the timestamp is not a number", "the header webhook-timestamp is missing")


@pytest.mark.parametrize("event_id", ["a.1714000000", "a.1714000000.b", ".123456789", "a.b.1714000000.1.2"])
def test_an_id_that_may_hold_the_time_is_refused_though_its_signature_is_right(event_id: str) -> None:
    request = STANDARD.sign(b"{}", "AAAA", 1, event_id=event_id)
    reason = "the header webhook-id could be read as an id and a time, or is not ASCII"

    assert verify(STANDARD, request, [b"AAAA"], 1).reason == reason


@pytest.mark.parametrize("event_id", ["order.created.17", "a.1", "a.1714000000x", "1714000000", "v1.2026-01-01", "a."])
def test_other_ids_with_dots_are_taken_as_the_reference_takes_them(event_id: str) -> None:
    request = STANDARD.sign(b"{}", "AAAA", time.time(), event_id=event_id)

    assert _accepted_by_brant(request, "AAAA")
    assert _accepted_by_reference(request, "AAAA")


@given(_IDS, _BODIES.map(lambda body: b"1714000001." + body))
def test_a_signed_message_can_not_be_read_with_a_longer_id(event_id: str, body: bytes) -> None:
    signed = STANDARD.sign(body, "AAAA", 1_714_000_000, event_id=event_id)
    headers = dict(signed.headers.pairs)
    moved = {**headers, "webhook-id": f"{event_id}.1714000000", "webhook-timestamp": "1714000001"}
    request = Request.of(body.removeprefix(b"1714000001."), moved)

    assert verify(STANDARD, request, [b"AAAA"], 1_714_000_000).state != VERIFIED


def test_headers_of_both_families_are_not_mixed() -> None:
    signed = STANDARD.sign(b"{}", "AAAA", 1, event_id="m1")
    renamed = [(name.replace("webhook-", "svix-"), value) for name, value in signed.headers.pairs]
    mixed = [pair for pair in renamed if pair[0] != "svix-id"]

    assert verify(STANDARD, Request.of(b"{}", renamed), [b"AAAA"], 1).state == VERIFIED
    assert verify(STANDARD, Request.of(b"{}", [*mixed, ("webhook-id", "m1")]), [b"AAAA"], 1).state != VERIFIED


def test_a_body_that_is_no_text_verifies() -> None:
    request = STANDARD.sign(b"\xff\x00\xfe", "AAAA", 1)

    assert verify(STANDARD, request, [b"AAAA"], 1).state == VERIFIED
