"""Providers by name, their options, and what is particular to single ones."""

from __future__ import annotations

import base64
import hmac
import json
import sys
from urllib.parse import urlencode

import pytest

import brant
from brant.inbox import providers
from brant.inbox.request import Headers, Request
from brant.inbox.verification import INVALID, VERIFIED, verify
from tests.inbox.keys import ec_public_pem
from tests.inbox.senders import NOW, SECRET, SENDERS, URL


def test_every_name_and_alias_is_that_of_its_class() -> None:
    named = {name: providers.class_of(name) for name in providers.names()}
    aliases = {alias: kind for kind in named.values() for alias in kind.aliases}

    assert {kind.name: kind for kind in named.values()} == named
    assert sorted({**named, **aliases}) == providers.names(with_aliases=True)
    assert all(providers.class_of(alias) is kind for alias, kind in aliases.items())


def test_those_that_were_asked_for_are_there() -> None:
    wanted = {"svix", "clerk", "resend", "facebook", "bearer", "basic", "header-token", "lemonsqueezy", "sns", "x"}

    assert wanted <= set(providers.names(with_aliases=True))


@pytest.mark.parametrize(("name", "hint"), [("strpe", "'stripe'"), ("Github", "'github'"), ("zzzz", "known are adyen")])
def test_an_unknown_name_gets_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(brant.InvalidValue, match=hint):
        providers.provider(name)


def test_an_unknown_option_gets_the_nearest() -> None:
    with pytest.raises(brant.InvalidValue, match=r"stripe has no option 'tolerance'; did you mean 'tolerance_s'\?"):
        providers.provider("stripe", tolerance=5)
    with pytest.raises(brant.InvalidValue, match="intercom has no option 'x'; it takes none"):
        providers.provider("intercom", x=5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("stripe", {"tolerance_s": 0}),
        ("stripe", {"tolerance_s": -1}),
        ("stripe", {"tolerance_s": "300"}),
        ("stripe", {"tolerance_s": float("nan")}),
        ("twilio", {"url": "example.com/hooks"}),
        ("twilio", {"url": "https://example.com/hooks?a=1"}),
        ("hubspot", {"url": "https://example.com/hooks?a=1"}),
        ("square", {"url": ""}),
        ("square", {"url": None}),
        ("hmac", {"algorithm": "md5"}),
        ("hmac", {"encoding": "base32"}),
        ("hmac", {"header": ""}),
        ("github", {"identity": "header"}),
        ("github", {"with_action": "yes"}),
        ("aws-sns", {"topic_arn": 5}),
        ("aws-sns", {"topic_arn": "arn", "fetch": "https"}),
        ("asana", {"on_secret": "x"}),
    ],
)
def test_an_option_that_can_not_work_is_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(brant.InvalidValue, match=next(reversed(options))):
        providers.provider(name, **options)


@pytest.mark.parametrize(
    ("name", "option"),
    [("twilio", "url"), ("square", "url"), ("hubspot", "url"), ("aws-sns", "topic_arn"), ("paypal", "webhook_id")],
)
def test_an_option_without_which_nothing_can_be_verified_is_required(name: str, option: str) -> None:
    with pytest.raises(brant.InvalidValue, match=f"{name} can't verify without the option '{option}'"):
        providers.provider(name)


@pytest.mark.parametrize("name", ["discord", "sendgrid", "aws-sns", "paypal"])
def test_without_cryptography_one_sentence_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)

    with pytest.raises(brant.BrantError, match=r"needs the package cryptography: pip install 'brant\[web\]'"):
        SENDERS[name].provider()


def test_an_unknown_fact_for_a_test_request_is_refused() -> None:
    with pytest.raises(brant.InvalidValue, match="did you mean 'event_type'"):
        SENDERS["github"].provider().sign(b"{}", "s", NOW, event_typ="x")


def _state(name: str, request: Request, **options: object) -> str:
    provider = providers.provider(name, **{**SENDERS[name].options, **options})
    return verify(provider, request, SENDERS[name].secrets(), NOW).state


def test_a_tolerance_can_be_changed_and_turned_off() -> None:
    old = SENDERS["stripe"].request(NOW - 1000)

    assert _state("stripe", old) == INVALID
    assert _state("stripe", old, tolerance_s=1000) == VERIFIED
    assert _state("stripe", old, tolerance_s=None) == VERIFIED


def test_twilio_signs_blank_and_repeated_fields_too() -> None:
    fields = [("Body", ""), ("Media", "b"), ("Media", "a"), ("Media", "b"), ("To", "+1 \u00e9")]
    request = SENDERS["twilio"].request(NOW, urlencode(fields).encode())

    assert _state("twilio", request) == VERIFIED
    for fewer in (fields[1:], fields[:1] + fields[3:], [*fields, ("X", "")]):
        changed = Request(urlencode(fewer).encode(), request.headers)
        assert _state("twilio", changed) == INVALID


def test_twilio_goes_by_the_configured_address_and_not_by_the_host_header() -> None:
    other = providers.provider("twilio", url="https://evil.example/hooks").sign(b"a=1", SECRET, NOW)
    headers = [*other.headers.pairs, ("Host", "evil.example"), ("X-Forwarded-Host", "evil.example")]

    assert _state("twilio", Request.of(other.body, headers)) == INVALID
    assert _state("twilio", other, url=[URL, "https://evil.example/hooks"]) == VERIFIED


@pytest.mark.parametrize(
    ("configured", "called"),
    [
        ("https://user:pw@x.example/tw", "https://user:pw@x.example:443/tw"),
        ("https://user:pw@x.example:443/tw", "https://user:pw@x.example/tw"),
        ("https://user:443@x.example/tw", "https://user:443@x.example:443/tw"),
        ("http://http/tw", "http://http:80/tw"),
        ("http://[::1]/tw", "http://[::1]:80/tw"),
        ("http://[::1]:80/tw", "http://[::1]/tw"),
    ],
)
def test_twilio_may_sign_the_default_port_or_leave_it_out(configured: str, called: str) -> None:
    signature = base64.b64encode(hmac.digest(SECRET, f"{called}ab".encode(), "sha1")).decode()
    headers = {"X-Twilio-Signature": signature, "Content-Type": "application/x-www-form-urlencoded"}

    assert _state("twilio", Request.of(b"a=b", headers), url=configured) == VERIFIED
    assert _state("twilio", Request.of(b"a=b", headers), url=called.replace("x.example", "y.example") + "/") == INVALID


def test_an_address_whose_port_is_none_is_refused() -> None:
    with pytest.raises(brant.InvalidValue, match="public address"):
        providers.provider("twilio", url="https://x.example:port/tw")


def test_twilio_takes_no_other_body_for_the_hash_in_the_address() -> None:
    request = SENDERS["twilio"].request(NOW, b'{"a":1}')

    assert _state("twilio", request) == VERIFIED
    assert _state("twilio", Request(b'{"a":2}', request.headers, query=request.query)) == INVALID
    assert _state("twilio", Request(b'{"a":1}', request.headers)) == INVALID
    assert _state("twilio", Request(b'{"a":1}', request.headers, query=request.query * 2)) == INVALID


def test_hubspot_signs_method_and_address() -> None:
    request = SENDERS["hubspot"].request(query="a=1")

    assert _state("hubspot", request) == VERIFIED
    assert _state("hubspot", request, url="https://example.com/other") == INVALID
    assert _state("hubspot", Request(request.body, request.headers, "PUT", "/", "a=1")) == INVALID
    assert _state("hubspot", Request(request.body, request.headers, "POST", "/", "a=2")) == INVALID


def test_hubspot_may_have_decoded_the_address() -> None:
    signed = SENDERS["hubspot"].request(query="next=https://a/b")

    assert _state("hubspot", Request(signed.body, signed.headers, query="next=https%3A%2F%2Fa%2Fb")) == VERIFIED


@pytest.mark.parametrize(
    "timestamp", ["1714000000", "2024-04-24", "2024-04-24 23:06:40Z", "2024-13-24T23:06:40Z", "now"]
)
def test_a_time_of_zendesk_that_is_no_date_is_refused(timestamp: str) -> None:
    headers = {"X-Zendesk-Webhook-Signature": "AAAA", "X-Zendesk-Webhook-Signature-Timestamp": timestamp}
    reason = SENDERS["zendesk"].provider().verify(Request.of(b"", headers), [SECRET], NOW)

    assert reason == "the timestamp is not a date and time"


def test_an_empty_body_of_zendesk_can_be_signed() -> None:
    assert _state("zendesk", SENDERS["zendesk"].request(NOW, b"")) == VERIFIED


@pytest.mark.parametrize("body", [b"{}", b'{"webhookTimestamp":null}', b'{"webhookTimestamp":true}', b"[]"])
def test_linear_without_a_time_is_refused_though_it_is_signed(body: bytes) -> None:
    request = SENDERS["linear"].request(NOW, body)

    assert SENDERS["linear"].provider().verify(request, [SECRET], NOW) == "the body has no webhookTimestamp"


def test_a_public_key_of_sendgrid_may_be_pem() -> None:
    sender = SENDERS["sendgrid"]

    assert verify(sender.provider(), sender.request(), [ec_public_pem()], NOW).state == VERIFIED


def test_a_batch_of_adyen_with_one_wrong_item_is_refused_whole() -> None:
    sender = SENDERS["adyen"]
    good = sender.request().json()
    bad = json.loads(json.dumps(good["notificationItems"][0]))
    bad["NotificationRequestItem"]["amount"]["value"] = 1
    for items in ([bad], [*good["notificationItems"], bad], [*good["notificationItems"], {}], []):
        assert _state("adyen", Request(json.dumps({"notificationItems": items}).encode())) == INVALID


def test_adyen_is_told_what_it_wants_to_read() -> None:
    accepted = SENDERS["adyen"].provider().accepted

    assert accepted is not None
    assert (accepted.status, accepted.body) == (200, b"[accepted]")


def test_a_token_of_mailgun_vouches_for_one_body_only() -> None:
    sender = SENDERS["mailgun"]
    provider, request = sender.provider(), sender.request()
    forged = Request(json.dumps({**request.json(), "event-data": {"id": "m2", "event": "failed"}}).encode())

    assert verify(provider, request, [SECRET], NOW).state == VERIFIED
    assert verify(provider, request, [SECRET], NOW).state == VERIFIED
    assert verify(provider, forged, [SECRET], NOW).reason == "the token came before, with another body"


@pytest.mark.parametrize("boundary", ["b1", '"b 1"'])
def test_mailgun_may_send_a_form_with_files(boundary: str) -> None:
    proof = SENDERS["mailgun"].request().json()["signature"]
    assert _state("mailgun", _with_file(boundary, list(proof.items()))) == VERIFIED
    assert _state("mailgun", _with_file(boundary, [*proof.items(), ("token", proof["token"])])) == INVALID
    assert _state("mailgun", _with_file(boundary, list({**proof, "timestamp": "1"}.items()))) == INVALID


def _with_file(boundary: str, fields: list[tuple[str, str]]) -> Request:
    mark = boundary.strip('"')
    parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}' for name, value in fields]
    file = f'--{mark}\r\nContent-Disposition: form-data; name="token"; filename="token"\r\n\r\nnot a field'
    body = "\r\n".join([file, *parts, f"--{mark}--", ""]).encode()
    return Request.of(body, [("Content-Type", f"multipart/form-data; boundary={boundary}")])


def test_mailgun_may_send_a_form() -> None:
    proof = SENDERS["mailgun"].request().json()["signature"]

    assert _state("mailgun", Request(urlencode(proof).encode())) == VERIFIED


def test_a_client_state_must_be_right_in_every_item() -> None:
    request = SENDERS["microsoft-graph"].request()
    mixed = {"value": [*request.json()["value"], {"id": "n2", "clientState": "guess"}]}

    assert _state("microsoft-graph", Request(json.dumps(mixed).encode())) == INVALID


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_of_a_token_has_no_case(scheme: str) -> None:
    assert _state("bearer-token", Request.of(headers={"Authorization": f"{scheme} {SECRET.decode()}"})) == VERIFIED


def test_a_token_that_is_no_ascii_is_compared_and_not_failed_on() -> None:
    provider = SENDERS["token-header"].provider()
    request = Request(b"", Headers([("X-Knocker-Token", "p\u00e4ss")]))

    assert verify(provider, request, ["p\u00e4ss".encode()], NOW).state == VERIFIED
    assert verify(provider, request, [b"pass"], NOW).reason == "the token is not the right one"


@pytest.mark.parametrize(("name", "before"), [("token-header", ""), ("bearer-token", "Bearer "), ("gitlab", "")])
def test_a_token_that_is_no_ascii_may_come_as_bytes_from_a_server(name: str, before: str) -> None:
    provider = SENDERS[name].provider()
    header = SENDERS[name].headers[0].encode()
    for encoding in ("utf-8", "latin-1"):
        request = Request.of(b"", [(header, (before + "p\u00e4ss").encode(encoding))])

        assert verify(provider, request, ["p\u00e4ss".encode()], NOW).state == VERIFIED
        assert verify(provider, request, [b"p\xc3ss"], NOW).state == INVALID


def test_gitlabs_signing_token_may_be_base64_or_not() -> None:
    provider = providers.provider("gitlab-signing")
    for secret in ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a plain token"):
        request = provider.sign(b"{}", secret, NOW)
        assert verify(provider, request, [secret.encode()], NOW).state == VERIFIED


def test_several_signatures_of_stripe_are_tried_and_old_schemes_are_not() -> None:
    sender = SENDERS["stripe"]
    value = sender.request().header("Stripe-Signature") or ""
    time, right = value.split(",")
    wrong = f"v1={'0' * 64}"

    def state(*parts: str) -> str:
        return _state("stripe", Request.of(sender.body, {"Stripe-Signature": ",".join(parts)}))

    assert state(time, wrong, right) == state(time, right, wrong) == state(time, "v1=zz", right) == VERIFIED
    assert state(time, wrong, right.replace("v1", "v0")) == INVALID
    assert state(time, time, right) == INVALID
    assert state(time, *[wrong] * 20, right) == INVALID
