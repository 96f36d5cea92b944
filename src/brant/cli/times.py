"""Times and ids as they are typed: `--after`, `--before` and `-m`."""

from __future__ import annotations

from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fractions import Fraction

_MICROS_A_SECOND = 1_000_000
# Whole numbers from here on are ids, not Unix times; below, up to 11 digits are seconds and the rest milliseconds.
_FIRST_NATIVE = 2**44
_LARGEST_NANOS = 2**63
_FIRST_MILLIS = 10**11
_FIRST_NANOS = 10**17
_LONGEST = 40  # far beyond any time, and far from the length at which Python refuses to read a number
_SUFFIXES = {"ns": 1_000_000_000, "ms": 1_000, "s": 1}


class InvalidTimestamp(InvalidValue):
    """A time that can't be read."""


def timestamp(text: str) -> int:
    """The id (microseconds since 1970) that a typed time stands for."""
    stripped = text.strip()
    if not stripped:
        raise InvalidTimestamp("Invalid timestamp: empty string")
    if "e" in stripped.lower():
        raise InvalidTimestamp(f"Invalid timestamp: scientific notation not supported: {text!r}")
    if len(stripped) > _LONGEST:
        raise InvalidTimestamp(f"Invalid timestamp: {stripped[:_LONGEST]!r}... is too long")
    for read in (_with_suffix, _iso, _whole, _decimal):
        micros = read(stripped)
        if micros is not None:
            return micros
    raise InvalidTimestamp(f"Invalid timestamp: {text!r}; use an id, Unix time, '5s', '5ms' or ISO 8601")


def _with_suffix(text: str) -> int | None:
    for suffix, parts in _SUFFIXES.items():
        number = text.removesuffix(suffix)
        if number != text and _is_number(number):
            return _micros(_fraction(number) / parts, text)
    return None


def _iso(text: str) -> int | None:
    if not ("-" in text[1:] or "T" in text or "Z" in text or (len(text) == 8 and _is_digits(text))):
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or "z" in text:
        raise InvalidTimestamp(f"Invalid timestamp: {text!r} is no ISO 8601 date or time")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86_400 + since.seconds) * _MICROS_A_SECOND + since.microseconds
    return _within_range(micros, text)


def _whole(text: str) -> int | None:
    if text.startswith("-") and _is_digits(text[1:]):
        raise InvalidTimestamp(f"Invalid timestamp: cannot be negative: {text!r}")
    if not _is_digits(text):
        return None
    number = int(text)
    if number >= _LARGEST_NANOS:
        raise InvalidTimestamp(f"Invalid timestamp: exceeds maximum value: {text!r}")
    if number < _FIRST_NATIVE:
        return number * _MICROS_A_SECOND if number < _FIRST_MILLIS else number * 1000
    # An id that was noted down under SimpleBroker counts nanoseconds.
    return number // 1000 if number >= _FIRST_NANOS else number


def _decimal(text: str) -> int | None:
    if not _is_number(text):
        return None
    digits = len(text.partition(".")[0])
    parts = 1 if digits <= 11 else 1_000 if digits <= 16 else 1_000_000_000
    return _micros(_fraction(text) / parts, text)


def _micros(seconds: Fraction, text: str) -> int:
    return _within_range(int(seconds * _MICROS_A_SECOND), text)


def _within_range(micros: int, text: str) -> int:
    if micros * 1000 >= _LARGEST_NANOS:
        raise InvalidTimestamp(f"Invalid timestamp: too far in future: {text!r}")
    return micros


def _fraction(text: str) -> Fraction:
    from fractions import Fraction  # exact, and rarely needed

    return Fraction(text)


def _is_number(text: str) -> bool:
    whole, _, part = text.partition(".")
    return _is_digits(whole or "0") and _is_digits(part or "0") and text not in ("", ".")


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


class InvalidMessageId(InvalidValue):
    """An id that has not got the shape of one."""


def message_id(text: str) -> int:
    """An id of 16 digits; or of 19, noted down under SimpleBroker. One that was never ours stands for no message."""
    if _is_digits(text) and len(text) == 16:
        return int(text)
    if _is_digits(text) and len(text) == 19 and int(text) < _LARGEST_NANOS:
        micros, rest = divmod(int(text), 1000)
        return micros if rest == 0 else 0
    raise InvalidMessageId(f"Invalid message id {text!r}: an id has 16 digits, as read -t and --json show it")
