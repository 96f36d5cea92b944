"""The vectors that providers publish, and those made for providers that publish none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import brant
from brant.inbox import providers
from brant.inbox.providers.asymmetric import ed25519_matches
from brant.inbox.request import Request
from brant.inbox.verification import INVALID, VERIFIED, verify

_CALL = b"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212"
_UNSIGNED = ("content-type",)


@dataclass(frozen=True)
class Vector:
    id: str
    provider: str
    secret: str
    headers: Mapping[str, str]
    body: str
    options: Mapping[str, object] = field(default_factory=dict)
    now: float = 0
    query: str = ""

    def state(
        self,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        secret: bytes | None = None,
        now: float | None = None,
    ) -> str:
        request = Request.of(
            self.body.encode() if body is None else body, headers or self.headers, path="/hooks", query=self.query
        )
        key = self.secret.encode() if secret is None else secret
        provider = providers.provider(self.provider, **self.options)
        return verify(provider, request, [key], self.now if now is None else now).state


VECTORS = [Vector(**row) for row in json.loads((Path(__file__).parent / "vectors.json").read_text())]
BY_ID = {vector.id: vector for vector in VECTORS}
STANDARD, STANDARD_V1A = BY_ID["standard v1"], BY_ID["standard v1a"]
TIMED = [vector for vector in VECTORS if vector.now and vector.provider not in ("sendgrid", "discord")]


def _each(vectors: list[Vector]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors, ids=lambda vector: vector.id)


def _changed(content: bytes, bit: int = 1) -> Iterator[bytes]:
    for place in range(len(content)):
        yield content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


@_each(VECTORS)
@pytest.mark.guarantee("G32")
def test_a_vector_verifies(vector: Vector) -> None:
    assert vector.state() == VERIFIED


@_each(VECTORS)
def test_a_vector_with_any_byte_of_its_body_changed_is_invalid(vector: Vector) -> None:
    assert {vector.state(body=body) for body in _changed(vector.body.encode())} == {INVALID}


@_each(VECTORS)
def test_a_vector_with_bytes_added_or_lost_is_invalid(vector: Vector) -> None:
    body = vector.body.encode()
    others = [body + b"\n", body + b"0", b" " + body, body[:-1], b""]

    assert {vector.state(body=other) for other in others} == {INVALID}


@_each(VECTORS)
@pytest.mark.parametrize("bit", [0x01, 0x20], ids=["lowest bit", "upper and lower case"])
def test_a_vector_with_any_byte_of_a_header_changed_is_invalid(vector: Vector, bit: int) -> None:
    for name, value in vector.headers.items():
        if name not in _UNSIGNED:
            others = [text.decode() for text in _changed(value.encode(), bit)]
            assert {vector.state(headers={**vector.headers, name: other}) for other in others} == {INVALID}, name


@_each(VECTORS)
def test_a_vector_without_one_of_its_headers_is_invalid(vector: Vector) -> None:
    for name in vector.headers:
        if name not in _UNSIGNED:
            left = {other: value for other, value in vector.headers.items() if other != name}
            assert vector.state(headers=left or {"x": "y"}) == INVALID


@_each(VECTORS)
def test_a_vector_with_any_byte_of_the_secret_changed_is_invalid(vector: Vector) -> None:
    assert {vector.state(secret=secret) for secret in _changed(vector.secret.encode())} == {INVALID}


@_each(TIMED)
def test_a_vector_is_invalid_before_and_after_its_time(vector: Vector) -> None:
    tolerance = providers.provider(vector.provider).settings["tolerance_s"]

    assert vector.state(now=vector.now + tolerance) == vector.state(now=vector.now - tolerance) == VERIFIED
    assert vector.state(now=vector.now + tolerance + 1) == vector.state(now=vector.now - tolerance - 1) == INVALID


def _signed_as(signature: str) -> str:
    return STANDARD.state(headers={**STANDARD.headers, "webhook-signature": signature})


def test_the_published_wrong_signature_is_invalid() -> None:
    right = STANDARD.headers["webhook-signature"]

    assert _signed_as(right.replace("J1OE=", "J1OA=")) == INVALID


def test_a_signature_is_found_among_others() -> None:
    decoy = "Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
    right = STANDARD.headers["webhook-signature"]

    assert _signed_as(f"v1,{decoy} v2,{decoy} nonsense v1, {right} v1,{decoy}") == VERIFIED
    assert _signed_as(f"v1,{decoy} v2,{decoy} nonsense v1, v1,{decoy}") == INVALID


def test_more_signatures_than_anybody_sends_are_refused() -> None:
    right = STANDARD.headers["webhook-signature"]

    assert _signed_as(" ".join([right] * 16)) == VERIFIED
    assert _signed_as(" ".join([right] * 17)) == INVALID


def test_a_v1_signature_under_another_version_is_invalid() -> None:
    right = STANDARD.headers["webhook-signature"]

    assert {_signed_as(right.replace("v1", version, 1)) for version in ("v2", "v1a", "V1", "v1 ")} == {INVALID}


def test_the_published_wrong_key_of_sendgrid_is_invalid() -> None:
    wrong = (
        b"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqTxd43gyp8IOEto2LdIfjRQrIbsd4SXZkLW6"
        b"jDutdhXSJCWHw8REntlo7aNDthvj+y7GjUuFDb/R1NGe1OPzpA=="
    )

    assert BY_ID["sendgrid"].state(secret=wrong) == INVALID


def test_the_private_key_signs_as_published() -> None:
    private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
    provider = providers.provider("standard-webhooks")
    body, event_id = STANDARD_V1A.body.encode(), STANDARD_V1A.headers["webhook-id"]

    request = provider.sign(body, private, STANDARD_V1A.now, event_id=event_id)

    assert request.header("webhook-signature") == STANDARD_V1A.headers["webhook-signature"]
    assert verify(provider, request, [private.encode()], STANDARD_V1A.now).state == VERIFIED


@pytest.mark.parametrize("secret", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr"])
def test_a_secret_without_padding_or_prefix_works(secret: str) -> None:
    provider = providers.provider("standard-webhooks")
    padded = f"whsec_{secret}{'=' * (-len(secret) % 4)}"

    request = provider.sign(b"{}", secret, STANDARD.now)

    assert verify(provider, request, [padded.encode()], STANDARD.now).state == VERIFIED


@pytest.mark.parametrize("secret", [b"", b"whsec_", b"whsec_====", b"whpk_", b"whpk_AAAA", b"not base64"])
def test_a_key_that_is_none_is_refused(secret: bytes) -> None:
    with pytest.raises(brant.InvalidValue):
        providers.provider("standard-webhooks").check_secret(secret)
    assert STANDARD.state(secret=secret) == INVALID


@pytest.mark.parametrize("port", ["", ":443"])
def test_twilio_may_sign_the_address_with_or_without_the_port(port: str) -> None:
    signer = providers.provider("twilio", url=f"https://mycompany.com{port}/myapp.php")
    request = signer.sign(_CALL, "12345", 0)

    for known in ("https://mycompany.com/myapp.php", "https://mycompany.com:443/myapp.php"):
        assert verify(providers.provider("twilio", url=known), request, [b"12345"], 0).state == VERIFIED
    other = providers.provider("twilio", url="https://mycompany.com:8443/myapp.php")
    assert verify(other, request, [b"12345"], 0).state == INVALID


def test_ed25519_is_that_of_rfc_8032() -> None:
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )

    assert ed25519_matches([public], b"\x72", [signature])
    assert not ed25519_matches([public], b"\x73", [signature])
