"""Signatures: read strictly, compared as bytes and in constant time, all candidates tried to the end."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from brant.inbox.providers.base import Rejected

NO_MATCH = "no signature matches"
MOST_PARTS = 16
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_HEX = re.compile(r"[0-9a-f]*", re.ASCII)


def decoded(text: str, encoding: str) -> bytes | None:
    """The bytes; None unless the text is their one proper spelling, so that a changed text never means the same."""
    if encoding == "hex":
        return bytes.fromhex(text) if len(text) % 2 == 0 and _HEX.fullmatch(text) else None
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def encoded(raw: bytes, encoding: str) -> str:
    return raw.hex() if encoding == "hex" else base64.b64encode(raw).decode()


def digest(key: bytes, message: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.digest(key, message, algorithm)


def any_match(
    keys: Sequence[bytes], messages: Iterable[bytes], candidates: Sequence[bytes], algorithm: str = "sha256"
) -> bool:
    found = False
    for message in messages:
        for key in keys:
            expected = digest(key, message, algorithm)
            for candidate in candidates:
                found |= hmac.compare_digest(expected, candidate)
    return found


def same_secret(secrets: Sequence[bytes], given: bytes) -> bool:
    """Whether one of them was sent as it is. The time taken tells neither the content nor the length."""
    key = b"brant: compare by digest"
    expected = digest(key, given)
    found = False
    for secret in secrets:
        found |= hmac.compare_digest(digest(key, secret), expected)
    return found


def few(parts: list[str]) -> list[str]:
    if len(parts) > MOST_PARTS:
        raise Rejected(f"there are more than {MOST_PARTS} signatures")
    return parts


def digits(text: str, *, longest: int = 13) -> int:
    """A number in ASCII digits: int() would also take spaces, signs, underscores and the digits of other scripts."""
    if not (text.isascii() and text.isdigit()) or len(text) > longest:
        raise Rejected("the timestamp is not a number")
    return int(text)


def iso_moment(text: object) -> float:
    if not isinstance(text, str) or not _ISO.fullmatch(text):
        raise Rejected("the timestamp is not a date and time")
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise Rejected("the timestamp is not a date and time") from None


def iso_text(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_time(at: float, now: float, tolerance_s: float | None) -> None:
    """Refuses what is too old, and what is too far ahead. No tolerance: any time will do."""
    if tolerance_s is None or abs(now - at) <= tolerance_s:
        return
    raise Rejected(f"the timestamp is too {'old' if at < now else 'far ahead'}")
