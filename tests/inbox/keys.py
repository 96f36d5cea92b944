"""Keys and a certificate made for one run, as senders would have them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID


def private_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def ec_public_base64() -> bytes:
    return base64.b64encode(ec_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def ec_public_pem() -> bytes:
    return ec_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@cache
def ed25519_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def ed25519_public() -> bytes:
    return ed25519_key().public_key().public_bytes_raw()


def certificate(at: float, days: int = 30) -> bytes:
    """A certificate for `rsa_key` around the moment `at`."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sender.test")])
    moment = datetime.fromtimestamp(at, UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(rsa_key().public_key())
        .serial_number(1)
        .not_valid_before(moment - timedelta(days=days))
        .not_valid_after(moment + timedelta(days=days))
        .sign(rsa_key(), hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM)
