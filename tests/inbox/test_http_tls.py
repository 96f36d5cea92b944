"""Outgoing webhooks over TLS: sent to whom the certificate names, and to nobody else."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from standardwebhooks import Webhook

from brant.inbox import HttpDelivery
from brant.outcomes import Retry
from tests.inbox.keys import ec_key, private_pem
from tests.inbox.odd_server import OddServer, close_silently, odd_server, status
from tests.inbox.test_http_delivery import SECRET

HOST = "partner.example"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """For the host alone, by nobody but itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    key: ec.EllipticCurvePrivateKey = ec_key()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    file.write_bytes(private_pem(key) + made.public_bytes(Encoding.PEM))
    return file


@pytest.fixture
def identity(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def made(server: OddServer, host: str = HOST, certificate: Path | None = None) -> HttpDelivery:
    trust = None if certificate is None else ssl.create_default_context(cafile=certificate)
    return HttpDelivery(
        f"https://{host}:{server.port}/hook",
        SECRET,
        tls=trust,
        allow="127.0.0.1",
        resolve=lambda host, port: ["127.0.0.1"],
    )


def test_a_host_that_is_trusted_gets_it_and_its_connection_is_used_again(
    certificate: Path, identity: ssl.SSLContext
) -> None:
    with odd_server(status(204), tls=identity) as server:
        delivery = made(server, certificate=certificate)
        for number in range(3):
            delivery.send({"n": number})
        delivery.close()
    assert server.connections == 1
    assert [Webhook(SECRET).verify(each.body, each.headers)["n"] for each in server.requests] == [0, 1, 2]


def test_a_connection_that_ends_under_a_request_is_replaced(certificate: Path, identity: ssl.SSLContext) -> None:
    with odd_server(status(204), close_silently, status(204), tls=identity) as server:
        delivery = made(server, certificate=certificate)
        delivery.send({"n": 1})
        delivery.send({"n": 2})
        delivery.close()
    assert [each.connection for each in server.requests] == [1, 1, 2]


def test_a_host_that_nobody_vouches_for_gets_nothing(identity: ssl.SSLContext) -> None:
    with odd_server(status(204), tls=identity) as server:
        with pytest.raises(Retry, match="SSLCertVerificationError"):
            made(server).send({})
        assert server.requests == []


def test_a_host_with_the_certificate_of_another_gets_nothing(certificate: Path, identity: ssl.SSLContext) -> None:
    with odd_server(status(204), tls=identity) as server:
        with pytest.raises(Retry, match="SSLCertVerificationError"):
            made(server, "other.example", certificate).send({})
        assert server.requests == []
