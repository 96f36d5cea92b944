"""Ed25519, ECDSA and RSA, by `cryptography`, which is imported when the first of them is needed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from brant.errors import BrantError, InvalidValue
from brant.inbox.providers.base import Rejected
from brant.inbox.providers.signatures import decoded

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey


def need_cryptography(provider: str) -> None:
    try:
        import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
    except ImportError:
        raise BrantError(f"{provider} needs the package cryptography: pip install 'brant[web]'") from None


def ed25519_matches(public_keys: Sequence[bytes], message: bytes, candidates: Sequence[bytes]) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    found = False
    for raw in public_keys:
        for candidate in candidates:
            try:
                Ed25519PublicKey.from_public_bytes(raw).verify(candidate, message)
                found = True
            except (InvalidSignature, ValueError):
                pass
    return found


def ed25519_sign(seed: bytes, message: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        return Ed25519PrivateKey.from_private_bytes(seed).sign(message)
    except ValueError:
        raise InvalidValue("a private key of Ed25519 has 32 bytes") from None


def ecdsa_public_key(text: bytes) -> EllipticCurvePublicKey:
    """From PEM, or from the bare base64 that dashboards show; InvalidValue if it is no key of P-256."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

    try:
        stripped = text.strip()
        if stripped.startswith(b"-----"):
            key: Any = load_pem_public_key(stripped)
        else:
            key = load_der_public_key(decoded(stripped.decode("ascii"), "base64") or b"")
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise InvalidValue("the public key must be one of P-256, as PEM or as base64")
    return key


def ecdsa_matches(keys: Sequence[EllipticCurvePublicKey], message: bytes, candidate: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    found = False
    for key in keys:
        try:
            key.verify(candidate, message, ECDSA(SHA256()))
            found = True
        except InvalidSignature:
            pass
    return found


def private_signature(pem: bytes, message: bytes, algorithm: str = "sha256") -> bytes:
    """By a private key of P-256 or RSA in PEM, as a sender would sign."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, RSAPrivateKey):
        return key.sign(message, PKCS1v15(), _hash(algorithm))
    if isinstance(key, EllipticCurvePrivateKey):
        return key.sign(message, ECDSA(_hash(algorithm)))
    raise InvalidValue("to sign, give the private key as PEM without a password")


def check_certificate_signature(pem: bytes, message: bytes, signature: bytes, algorithm: str, now: float) -> None:
    """Raises Rejected unless the certificate is in its time, and its RSA key made the signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import load_pem_x509_certificate

    try:
        certificate = load_pem_x509_certificate(pem)
        key = certificate.public_key()
    except Exception:
        raise Rejected("the certificate can't be read") from None
    if not certificate.not_valid_before_utc <= datetime.fromtimestamp(now, UTC) <= certificate.not_valid_after_utc:
        raise Rejected("the certificate is not valid at this time")
    if not isinstance(key, RSAPublicKey):
        raise Rejected("the certificate has no RSA key")
    try:
        key.verify(signature, message, PKCS1v15(), _hash(algorithm))
    except InvalidSignature:
        raise Rejected("no signature matches") from None


def _hash(algorithm: str) -> Any:
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256

    return SHA1() if algorithm == "sha1" else SHA256()  # noqa: S303, what SNS signs with by default
