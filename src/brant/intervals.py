"""Plain intervals: `@every 90s` in an expression, and what `every()` takes."""

from __future__ import annotations

from datetime import timedelta

from brant.errors import InvalidValue

EVERY = "@every"
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST_S = 100 * 365 * 86_400
_MOST_DIGITS = 10  # enough for the longest interval; int() itself fails on thousands of them
_LONGEST_SHOWN = 40


class Interval:
    """Fires a number of seconds later, not aligned to the clock."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def next_after(self, after: int) -> int:
        return after + self._seconds

    def latest_until(self, until: int, known: int) -> int:
        return known + (until - known) // self._seconds * self._seconds


def is_interval(expr: str) -> bool:
    return expr.lower().startswith(EVERY)


def parse_expression(expr: str) -> Interval:
    """Of `@every 90s`."""
    text = expr[len(EVERY) :].strip()
    seconds = _seconds_in(text)
    if seconds is None:
        raise InvalidValue(f"{text!r} is not a number of 1 or more with a unit s, m, h or d, up to 100 years")
    return Interval(seconds)


def whole_seconds(interval: object) -> int:
    """The seconds of what `every()` was given."""
    if isinstance(interval, str):
        seconds = _seconds_in(interval.strip())
        if seconds is None:
            shown = interval if len(interval) <= _LONGEST_SHOWN else f"{interval[:_LONGEST_SHOWN]}..."
            raise InvalidValue(
                f"{shown!r} is no interval: use a number of 1 or more and a unit, such as '30s', '5m', '2h' or '1d'"
            )
        return seconds
    if isinstance(interval, timedelta):
        if interval.microseconds:
            raise InvalidValue(f"an interval has whole seconds, and {interval!r} has not")
        return _within_bounds(interval.days * 86_400 + interval.seconds, interval)
    if isinstance(interval, bool) or not isinstance(interval, int):
        raise InvalidValue(
            f"an interval is a whole number of seconds, a text such as '5m', or a timedelta, not {interval!r}"
        )
    return _within_bounds(interval, interval)


def parse_digits(text: str) -> int | None:
    # int() alone would take '+5' and '1_0' too.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _seconds_in(text: str) -> int | None:
    seconds = (parse_digits(text[:-1]) or 0) * _UNITS_S.get(text[-1:], 0)
    return seconds if 1 <= seconds <= _LONGEST_S else None


def _within_bounds(seconds: int, interval: object) -> int:
    if not 1 <= seconds <= _LONGEST_S:
        raise InvalidValue(f"an interval is at least one second and at most 100 years long, not {interval!r}")
    return seconds
