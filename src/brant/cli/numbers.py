"""Numbers as they are typed, for argparse: each refusal says what to type instead."""

from __future__ import annotations

from argparse import ArgumentTypeError

# Far less than a system can wait for, and as long as the longest interval of a schedule.
_LONGEST_S = 100 * 366 * 86_400
_MOST_DIGITS = 18


def duration(text: str) -> float:
    """Seconds. A whole number stays one: those are stored as such."""
    try:
        number = int(text) if _is_digits(text) else float(text)
    except ValueError:
        number = -1
    if not number >= 0:  # NaN neither
        raise ArgumentTypeError(f"{text!r} is no number of seconds; use one like 5 or 0.5")
    if number > _LONGEST_S:
        raise ArgumentTypeError(f"{text!r} is more than 100 years; use at most {_LONGEST_S} seconds")
    return number


def positive_duration(text: str) -> float:
    number = duration(text)
    if number == 0:
        raise ArgumentTypeError("must be more than 0 seconds")
    return number


def whole_number(text: str) -> int:
    if not _is_digits(text.removeprefix("-")):
        raise ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def count(text: str) -> int:
    if not _is_digits(text) or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def port(text: str) -> int:
    if not _is_digits(text) or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is no port; a port is a number up to 65535, and 0 takes a free one")
    return int(text)


def job_id(text: str) -> int:
    """Of any length: in files that other programs made, ids may count from 1."""
    if not _is_digits(text):
        raise ArgumentTypeError(f"{text!r} is no id; an id is a number, as enqueue and claim print it")
    return int(text)


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
