"""Certificates of SNS and PayPal: fetched from few hosts only, over https, and rarely."""

from __future__ import annotations

import base64
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from brant.inbox import providers
from brant.inbox.providers.base import CannotVerify, Provider, Rejected
from brant.inbox.providers.fetching import Certificates, fetch
from brant.inbox.request import Request
from brant.inbox.verification import INVALID, VERIFIED, Verification, verify
from tests.inbox.keys import certificate, private_pem, rsa_key
from tests.inbox.senders import NOW, PAYPAL_CERTIFICATE, SENDERS, SNS_CERTIFICATE, TOPIC

SNS, PAYPAL = SENDERS["aws-sns"], SENDERS["paypal"]


class Host:
    """Stands in for the network: it counts the fetches and answers as told."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _sns(host: Host) -> Provider:
    return providers.provider("aws-sns", topic_arn=TOPIC, fetch=host)


def _paypal(host: Host) -> Provider:
    return providers.provider("paypal", webhook_id="WH-1", fetch=host)


def _sns_from(url: object) -> Request:
    return Request(json.dumps({**SNS.request().json(), "SigningCertURL": url}).encode())


BAD_SNS_URLS = [
    "http://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem",
    "https://sns.us-east-1.amazonaws.com.evil.example/SimpleNotificationService-a.pem",
    "https://evil.example/SimpleNotificationService-a.pem",
    "https://evil.example/sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem",
    "https://sns.us-east-1.amazonaws.com@evil.example/SimpleNotificationService-a.pem",
    "https://sns.us-east-1.amazonaws.com:8443/SimpleNotificationService-a.pem",
    "https://sns.us-east-1.amazonaws.com/other/SimpleNotificationService-a.pem",
    "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem?x=y",
    "https://bucket.s3.amazonaws.com/SimpleNotificationService-a.pem",
    "https://sns.us-east-1.amazonaws.com\\@evil.example/SimpleNotificationService-a.pem",
    "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem\n",
    "file:///etc/passwd",
    "",
    None,
    5,
]


@pytest.mark.parametrize("url", BAD_SNS_URLS)
def test_a_certificate_from_elsewhere_is_not_even_fetched(url: object) -> None:
    host = Host(certificate(NOW))

    assert verify(_sns(host), _sns_from(url), (), NOW).reason == "SigningCertURL is no address of AWS SNS"
    assert host.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1",
        "https://evilpaypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/../../redirect",
        "https://api.paypal.com/v1/redirect",
    ],
)
def test_a_certificate_of_paypal_from_elsewhere_is_not_even_fetched(url: str) -> None:
    host = Host(certificate(NOW))
    request = PAYPAL.request()
    headers = [(name, url if name == "PAYPAL-CERT-URL" else value) for name, value in request.headers.pairs]

    verdict = verify(_paypal(host), Request.of(request.body, headers), (), NOW)

    assert verdict.reason == "PAYPAL-CERT-URL is no address of PayPal"
    assert host.asked == []


def test_a_certificate_is_fetched_once_an_hour() -> None:
    host = Host(certificate(NOW))
    provider = _sns(host)
    for now in (NOW, NOW + 1, NOW + 3599):
        assert verify(provider, SNS.request(), (), now).state == VERIFIED
    assert host.asked == [SNS_CERTIFICATE]

    assert verify(provider, SNS.request(), (), NOW + 3601).state == VERIFIED
    assert len(host.asked) == 2


def test_a_host_that_is_away_is_a_fault_on_this_side_and_is_not_asked_all_the_time() -> None:
    host = Host(OSError("no route"))
    provider = _paypal(host)
    for now in (NOW, NOW + 1, NOW + 29):
        verdict = verify(provider, PAYPAL.request(), (), now)
        assert verdict == Verification(INVALID, "the certificate can't be fetched: OSError", temporary=True)
    assert host.asked == [PAYPAL_CERTIFICATE]

    host.answer = certificate(NOW)
    assert verify(provider, PAYPAL.request(), (), NOW + 31).state == VERIFIED


def test_a_certificate_that_is_not_there_is_the_senders_fault() -> None:
    verdict = verify(_sns(Host(Rejected("the certificate's host answered 404"))), SNS.request(), (), NOW)

    assert verdict == Verification(INVALID, "the certificate's host answered 404")


@pytest.mark.parametrize("content", [b"", b"<html>", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_what_is_no_certificate_verifies_nothing(content: bytes) -> None:
    assert verify(_sns(Host(content)), SNS.request(), (), NOW).reason == "the certificate can't be read"


def test_a_certificate_out_of_its_time_verifies_nothing() -> None:
    host = Host(certificate(NOW - 100 * 86400, days=30))

    assert verify(_sns(host), SNS.request(), (), NOW).reason == "the certificate is not valid at this time"


@pytest.mark.parametrize(("version", "algorithm"), [("1", hashes.SHA1()), ("2", hashes.SHA256())])
@pytest.mark.parametrize("subject", [None, "Order 1\nMessage\nforged"])
def test_both_versions_of_a_signature_verify_with_and_without_a_subject(
    version: str, algorithm: hashes.HashAlgorithm, subject: str | None
) -> None:
    document = {**SNS.request().json(), "SignatureVersion": version}
    if subject is not None:
        document["Subject"] = subject
    names = [name for name in ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type") if name in document]
    message = "".join(f"{name}\n{document[name]}\n" for name in names).encode()
    document["Signature"] = base64.b64encode(rsa_key().sign(message, PKCS1v15(), algorithm)).decode()
    provider = _sns(Host(certificate(NOW)))

    assert verify(provider, Request(json.dumps(document).encode()), (), NOW).state == VERIFIED
    other = {**document, "SignatureVersion": "1" if version == "2" else "2"}
    assert verify(provider, Request(json.dumps(other).encode()), (), NOW).state == INVALID


def test_only_the_named_topics_may_send() -> None:
    host = Host(certificate(NOW))
    other = providers.provider("aws-sns", topic_arn=["arn:aws:sns:us-east-1:1:a"], fetch=host)
    several = providers.provider("aws-sns", topic_arn=["arn:aws:sns:us-east-1:1:a", TOPIC], fetch=host)

    assert verify(other, SNS.request(), (), NOW).reason == "the topic is none of those that may send"
    assert host.asked == []
    assert verify(several, SNS.request(), (), NOW).state == VERIFIED


def test_a_message_for_another_webhook_of_paypal_is_refused() -> None:
    other = providers.provider("paypal", webhook_id="WH-2", fetch=Host(certificate(NOW)))

    assert verify(other, PAYPAL.request(), (), NOW).reason == "no signature matches"


def test_a_certificate_is_used_on_while_its_host_is_away() -> None:
    host = Host(certificate(NOW))
    provider = _sns(host)
    assert verify(provider, SNS.request(), (), NOW).state == VERIFIED

    host.answer = OSError("no route")
    assert verify(provider, SNS.request(), (), NOW + 4000).state == VERIFIED
    assert verify(provider, SNS.request(), (), NOW + 4001).state == VERIFIED
    assert len(host.asked) == 2


def test_a_certificate_that_was_taken_away_is_not_used_on() -> None:
    host = Host(certificate(NOW))
    provider = _sns(host)
    assert verify(provider, SNS.request(), (), NOW).state == VERIFIED

    host.answer = Rejected("the certificate's host answered 404")
    assert verify(provider, SNS.request(), (), NOW + 4000).state == INVALID


def test_a_flood_of_made_up_certificates_causes_few_fetches_and_drives_out_no_good_one() -> None:
    host = Host(b"pem")
    kept = Certificates(host)
    kept.get("https://x/good", NOW)
    host.answer = Rejected("the certificate's host answered 404")
    refused = []
    for number in range(1000):
        with pytest.raises((Rejected, CannotVerify)) as caught:
            kept.get(f"https://x/{number}", NOW + number)
        refused.append(str(caught.value))

    assert len(host.asked) <= 10 * 18
    assert "too many certificates are asked for" in refused
    assert kept.get("https://x/good", NOW + 1000) == b"pem"
    assert host.asked.count("https://x/good") == 1


class _Routes(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        status = {"/moved": 302, "/missing": 404, "/busy": 503, "/slow-down": 429}.get(self.path, 200)
        content = b"x" * 100_000 if self.path == "/huge" else b"pem"
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/ok")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            self.wfile.write(content)
        except OSError:
            pass  # the client has read enough

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def https_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """A real server with a certificate that this process trusts, and the paths it was asked for."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(rsa_key().public_key())
        .serial_number(2)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(rsa_key(), hashes.SHA256())
    )
    chain = tmp_path / "host.pem"
    chain.write_bytes(made.public_bytes(Encoding.PEM) + private_pem(rsa_key()))
    monkeypatch.setenv("SSL_CERT_FILE", str(chain))
    monkeypatch.setenv("no_proxy", "*")
    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Routes", (_Routes,), {"seen": seen}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_there_is_fetched(https_host: tuple[str, list[str]]) -> None:
    assert fetch(f"{https_host[0]}/ok") == b"pem"


def test_a_redirect_is_not_followed(https_host: tuple[str, list[str]]) -> None:
    url, seen = https_host

    with pytest.raises(Rejected, match="302"):
        fetch(f"{url}/moved")
    assert seen == ["/moved"]


def test_what_is_missing_or_too_large_is_rejected(https_host: tuple[str, list[str]]) -> None:
    with pytest.raises(Rejected, match="404"):
        fetch(f"{https_host[0]}/missing")
    with pytest.raises(Rejected, match="too large"):
        fetch(f"{https_host[0]}/huge")


def test_a_host_in_trouble_can_be_asked_again(https_host: tuple[str, list[str]]) -> None:
    with pytest.raises(CannotVerify, match="503"):
        fetch(f"{https_host[0]}/busy")
    with pytest.raises(CannotVerify, match="429"):
        fetch(f"{https_host[0]}/slow-down")


def test_a_host_that_is_not_trusted_is_not_believed(
    https_host: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))

    with pytest.raises(CannotVerify, match="can't be fetched"):
        fetch(f"{https_host[0]}/ok")


def test_only_https_is_fetched() -> None:
    for url in ("http://127.0.0.1/x", "file:///etc/passwd", "ftp://x/y"):
        with pytest.raises(Rejected, match="https"):
            fetch(url)
