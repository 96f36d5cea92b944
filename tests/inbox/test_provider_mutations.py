"""Requests of every provider, damaged at random: never accepted, and never an exception."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from brant.inbox import providers
from brant.inbox.providers.base import Answer
from brant.inbox.request import Headers, Request
from brant.inbox.verification import INVALID, VERIFIED, verify
from tests.inbox.senders import NOW, SENDERS, Sender


def _each(senders: Iterable[Sender]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sender", list(senders), ids=lambda sender: sender.name)


EACH = _each(SENDERS.values())
THAT_SIGN_THE_BODY = _each(sender for sender in SENDERS.values() if sender.signs_the_body)
WITH_HEADERS = _each(sender for sender in SENDERS.values() if sender.headers)
WITH_SECRETS = _each(sender for sender in SENDERS.values() if sender.provider().needs_secret)
TIMED = _each(sender for sender in SENDERS.values() if sender.provider().settings.get("tolerance_s"))
LISTS = ("webhook-signature", "Stripe-Signature", "Paddle-Signature")  # of signatures: any of them may be right
_TEXT = st.text(st.characters(max_codepoint=0xFFFF), max_size=80)
_slow_machine = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def _with_body(request: Request, body: bytes) -> Request:
    return Request(body, request.headers, request.method, request.path, request.query)


def _with_header(request: Request, name: str, *values: str) -> Request:
    others = [(other, value) for other, value in request.headers.pairs if other != name]
    pairs = [*others, *((name, value) for value in values)]
    return Request(request.body, Headers(pairs), request.method, request.path, request.query)


def _judged(sender: Sender, request: Request, secrets: list[bytes] | None = None, now: float = NOW) -> str:
    """The verdict; the other calls are made too, since none of them may raise."""
    provider = sender.provider()
    keys = sender.secrets() if secrets is None else secrets
    verdict = verify(provider, request, keys, now)
    if verdict.state == INVALID:
        assert verdict.reason
        assert verdict.reason.isprintable()
        assert not any(key.decode() in verdict.reason for key in keys if key)
    assert provider.events(request)
    answer = provider.challenge(request, keys, now)
    assert answer is None or isinstance(answer, Answer)
    return verdict.state


def test_every_provider_has_a_sender() -> None:
    assert sorted(SENDERS) == providers.names()


@EACH
def test_what_a_provider_signs_it_accepts(sender: Sender) -> None:
    assert _judged(sender, sender.request()) == VERIFIED


@THAT_SIGN_THE_BODY
@_slow_machine
@given(data=st.data())
@pytest.mark.guarantee("G32")
def test_a_body_with_a_signed_byte_changed_is_refused(sender: Sender, data: st.DataObject) -> None:
    request = sender.request()
    places = sender.places(request)
    place = data.draw(st.sampled_from(places))
    # One bit, and not that of upper and lower case: %2b and %2B are the same form.
    changed = bytes([request.body[place] ^ data.draw(st.sampled_from([1, 2, 4, 8, 16, 64, 128]))])

    assert _judged(sender, _with_body(request, request.body[:place] + changed + request.body[place + 1 :])) == INVALID


@WITH_HEADERS
@_slow_machine
@given(data=st.data())
def test_a_header_that_counts_and_was_changed_is_refused(sender: Sender, data: st.DataObject) -> None:
    request = sender.request()
    name = data.draw(st.sampled_from(sender.headers))
    value = request.header(name)
    assert value
    place = data.draw(st.integers(0, len(value) - 1))
    new = data.draw(
        st.one_of(_TEXT, st.characters(max_codepoint=0xFF).map(lambda c: value[:place] + c + value[place + 1 :]))
    )
    assume(new.lower() != value.lower())

    assert _judged(sender, _with_header(request, name, new)) == INVALID


@WITH_HEADERS
def test_a_header_that_counts_and_is_missing_empty_or_repeated_is_refused(sender: Sender) -> None:
    request = sender.request()
    for name in sender.headers:
        value = request.header(name) or ""
        odd = [(), ("",), (value, value), (value, "x"), ("x", value), (value + "\n",)]
        joined = [] if name in LISTS else [(f"{value}, {value}",)]
        for values in [*odd, *joined]:
            assert _judged(sender, _with_header(request, name, *values)) == INVALID, (name, values)


@THAT_SIGN_THE_BODY
@_slow_machine
@given(body=st.binary(max_size=200), query=_TEXT, method=st.sampled_from(["POST", "GET", "HEAD", "PUT"]))
def test_any_body_under_the_headers_of_another_is_refused(sender: Sender, body: bytes, query: str, method: str) -> None:
    request = sender.request()
    assume(body != request.body)
    odd = Request(body, request.headers, method, "/", query)

    assert _judged(sender, odd) == INVALID


@WITH_SECRETS
@_slow_machine
@given(data=st.data())
@pytest.mark.guarantee("G32")
def test_another_secret_is_refused(sender: Sender, data: st.DataObject) -> None:
    secret = sender.secret()
    other = data.draw(
        st.one_of(
            st.binary(min_size=1, max_size=64),
            st.integers(0, len(secret) - 1).map(
                lambda place: secret[:place] + bytes([secret[place] ^ 1]) + secret[place + 1 :]
            ),
            st.just(secret[:-1]),
            st.just(b"another secret"),
        )
    )
    # An HMAC key is padded with zeros to the block's length: those at its end don't count.
    assume(other.rstrip(b"\0") != secret and other.strip().lower() != secret.strip().lower())

    request = sender.request()
    provider = sender.provider()

    assert verify(provider, request, [other], NOW).state == INVALID
    assert verify(provider, request, [], NOW).state == INVALID


@TIMED
@pytest.mark.parametrize("direction", [-1, 1])
def test_a_request_out_of_its_time_is_refused(sender: Sender, direction: int) -> None:
    tolerance = sender.provider().settings["tolerance_s"]
    request = sender.request()

    assert _judged(sender, request, now=NOW + direction * tolerance) == VERIFIED
    assert _judged(sender, request, now=NOW + direction * (tolerance + 1)) == INVALID


@pytest.mark.parametrize("name", ["aws-sns", "discord", "paypal", "sendgrid"])
def test_a_limit_of_age_can_be_set_where_the_provider_sets_none(name: str) -> None:
    sender = SENDERS[name]
    provider = providers.provider(name, **{**sender.options, "tolerance_s": 60})

    assert verify(provider, sender.request(), sender.secrets(), NOW + 60).state == VERIFIED
    assert verify(provider, sender.request(), sender.secrets(), NOW + 61).state == INVALID


@EACH
@_slow_machine
@given(
    pairs=st.lists(st.tuples(_TEXT, _TEXT), max_size=6),
    body=st.one_of(
        st.binary(max_size=100), st.sampled_from([b"[]", b"{}", b"null", b'{"events":[]}', b"[1,[2],null]"])
    ),
    query=_TEXT,
    method=st.sampled_from(["POST", "GET", "HEAD"]),
)
@pytest.mark.guarantee("G32")
def test_noise_is_refused(sender: Sender, pairs: list[tuple[str, str]], body: bytes, query: str, method: str) -> None:
    named = [(name, value) for name, (_, value) in zip(sender.headers, pairs, strict=False)]

    assert _judged(sender, Request(body, Headers([*named, *pairs]), method, "/", query)) == INVALID


@EACH
def test_a_provider_tells_no_secret(sender: Sender) -> None:
    shown = repr(sender.provider()) + repr(sender.request())

    for secret in (sender.secret(), sender.signing()):
        assert not secret or secret.decode() not in shown
