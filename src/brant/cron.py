"""When a schedule fires next: cron expressions and plain intervals.

Daylight saving is treated as Debian's cron treats it. An expression whose minute and hour (and
second, where there is one) are all given (`30 2 * * *`) names local times: each fires once, at the
first instant after the gap if the clock jumps over it, and in the first pass only if the clock
repeats it. An expression with a star at the start of one of them follows real time: it fires in
both passes, and the clock jumping over one of its times means nothing to it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from datetime import date, datetime, time, timedelta, tzinfo

from brant.errors import InvalidValue
from brant.intervals import EVERY, Interval, is_interval, parse_digits, parse_expression, whole_seconds

__all__ = ["CronSchedule", "crontab", "every", "every_s"]

_ONE_SECOND = timedelta(seconds=1)
_ONE_DAY = timedelta(days=1)
_DAY_S = 86_400
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MOST_DAYS_IN_MONTH = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}


class CronSchedule:
    """A cron expression or interval, validated at construction."""

    def __init__(self, expr: str, tz: str | None = None) -> None:
        """Read `expr` in the IANA zone `tz`, or in the system's local zone if there is none."""
        if not isinstance(expr, str) or not isinstance(tz, str | None):
            raise InvalidValue(f"an expression and a zone are texts, not {expr!r} and {tz!r}")
        self.expr = expr.strip()
        self.tz = tz
        self._zone = _Zone(tz)
        try:
            self._rule = _parse_rule(self.expr, self._zone)
        except InvalidValue as error:
            raise InvalidValue(f"invalid schedule {self.expr!r}: {error}") from None

    def next_fire(self, after: float) -> int:
        """The first boundary strictly after the unix time `after`, as unix time."""
        return self._rule.next_after(math.floor(after))

    def latest_fire(self, until: float, known: int) -> int:
        """The last boundary until `until`; `known` is one that is not later, from which an interval counts."""
        if isinstance(self._rule, Interval):
            return self._rule.latest_until(math.floor(until), known)
        moments = range(known, math.floor(until) + 1)
        passed = bisect_left(moments, True, key=lambda moment: self.next_fire(moment) > until)
        return self.next_fire(moments[passed - 1]) if passed else known

    def next_after(self, moment: datetime) -> datetime:
        """The first boundary strictly after `moment`, in the schedule's zone.

        A naive moment is a wall clock time in that zone, and so is the answer. In an hour that the
        clock repeats, `fold` tells the passes apart, in what is given as in what is returned.
        """
        whole = moment.replace(microsecond=0)
        if moment.tzinfo is None:
            return self._zone.wall_at(self.next_fire(self._zone.instant_of(whole)))
        return self._zone.aware_at(self.next_fire(whole.timestamp()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CronSchedule):
            return NotImplemented
        return (self.expr, self.tz) == (other.expr, other.tz)

    def __hash__(self) -> int:
        return hash((self.expr, self.tz))

    def __repr__(self) -> str:
        zone = "" if self.tz is None else f", tz={self.tz!r}"
        return f"CronSchedule({self.expr!r}{zone})"


def crontab(expr: str, tz: str | None = None) -> CronSchedule:
    """A schedule from 5 fields, from 6 fields of which the first is the second, or from an alias such as @daily."""
    if is_interval(expr.strip()):
        raise InvalidValue(f"{expr!r} is an interval, not a crontab; use every(), as in every('5m')")
    return CronSchedule(expr, tz)


def every(interval: int | str | timedelta) -> CronSchedule:
    """A schedule of an interval: whole seconds, a text with a unit (`"30s"`, `"5m"`, `"2h"`, `"1d"`), or a timedelta.

    It fires that long after the fire before, or after it was added, whatever the clock shows.
    """
    return CronSchedule(f"{EVERY} {whole_seconds(interval)}s")


def every_s(seconds: int) -> CronSchedule:
    """A schedule that fires `seconds` after the moment it's asked about, whatever the clock shows."""
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise InvalidValue(f"seconds must be a whole number, not {seconds!r}")
    return CronSchedule(f"{EVERY} {seconds}s")


class _Zone:
    """Converts between instants (unix seconds) and what the wall clock of one zone shows.

    Walls are naive datetimes. With no name, the system's zone is asked each time, so that a change
    of TZ is noticed.
    """

    def __init__(self, name: str | None) -> None:
        self._tzinfo = None if name is None else _load_zone(name)

    def wall_at(self, instant: int) -> datetime:
        return datetime.fromtimestamp(instant, self._tzinfo).replace(tzinfo=None)

    def aware_at(self, instant: int) -> datetime:
        local = datetime.fromtimestamp(instant, self._tzinfo)
        return local if local.tzinfo else local.astimezone()

    def instant_of(self, wall: datetime) -> int:
        return int(wall.replace(tzinfo=self._tzinfo).timestamp())

    def bounds_of(self, wall: datetime) -> tuple[int, int]:
        """The two passes if the clock repeats `wall`, an instant on each side if it jumps over it, else one twice."""
        one, other = (self.instant_of(wall.replace(fold=fold)) for fold in (0, 1))
        return min(one, other), max(one, other)

    def first_reach(self, wall: datetime) -> int:
        """The first instant at which the clock shows `wall`, or has jumped over it."""
        earliest, latest = self.bounds_of(wall)
        if self.wall_at(earliest) == wall:
            return earliest
        return self.first_shift(earliest, latest)

    def shifts(self, start: int, end: int) -> bool:
        """Whether the clock was put forward or back after `start` and until `end`."""
        return _seconds(self.wall_at(end) - self.wall_at(start)) != end - start

    def first_shift(self, start: int, end: int) -> int:
        """The instant at which the clock is put forward or back, known to be after `start` and until `end`."""
        return start + bisect_left(range(start, end), True, key=lambda instant: self.shifts(start, instant))


class _FixedTimes:
    """Fires once for each wall clock time, also where the clock jumps over it or repeats it."""

    def __init__(self, times: _WallTimes, zone: _Zone) -> None:
        self._times = times
        self._zone = zone

    def next_after(self, after: int) -> int:
        wall = self._zone.wall_at(after)
        while True:
            wall = self._times.first_from(wall + _ONE_SECOND)
            instant = self._zone.first_reach(wall)
            # In the second pass of a repeated hour, the times still ahead on the clock have fired in the first.
            if instant > after:
                return instant


class _RunningTimes:
    """Fires at each instant at which the clock shows a matching time: twice in a repeated hour, never in a gap."""

    def __init__(self, times: _WallTimes, zone: _Zone) -> None:
        self._times = times
        self._zone = zone

    def next_after(self, after: int) -> int:
        start = after + 1
        while True:
            shown = self._zone.wall_at(start)
            wall = self._times.first_from(shown)
            unshifted = start + _seconds(wall - shown)
            # A shift further away than a day can't bring back a time that the clock has already passed at `start`.
            horizon = min(unshifted, start + _DAY_S)
            if self._zone.shifts(start, horizon):
                start = self._zone.first_shift(start, horizon)
            elif horizon == unshifted:
                return unshifted
            else:
                start, _ = self._zone.bounds_of(wall)


class _WallTimes:
    """The wall clock times that six fields describe; knows nothing of zones."""

    def __init__(self, texts: list[str]) -> None:
        values = [field.parse(text) for field, text in zip(_FIELDS, texts, strict=True)]
        self._seconds, self._minutes, self._hours, self._days, self._months, weekdays = values
        self._weekdays = {weekday % 7 for weekday in weekdays}
        self._either_day_field_is_enough = not (texts[3].startswith("*") or texts[5].startswith("*"))
        self._refuse_impossible_date()

    def first_from(self, wall: datetime) -> datetime:
        """The first matching time at or after `wall`."""
        day = wall.date()
        if self._matches_day(day) and (clock := self._clock_from(wall.hour, wall.minute, wall.second)):
            return datetime.combine(day, clock)
        earliest_clock = time(self._hours[0], self._minutes[0], self._seconds[0])
        return datetime.combine(self._day_from(day + _ONE_DAY), earliest_clock)

    def _clock_from(self, hour: int, minute: int, second: int) -> time | None:
        if hour in self._hours:
            if minute in self._minutes and (later := _first_from(self._seconds, second)) is not None:
                return time(hour, minute, later)
            if (later := _first_from(self._minutes, minute + 1)) is not None:
                return time(hour, later, self._seconds[0])
        if (later := _first_from(self._hours, hour + 1)) is not None:
            return time(later, self._minutes[0], self._seconds[0])
        return None

    def _day_from(self, day: date) -> date:
        while not self._matches_day(day):
            day = day + _ONE_DAY if day.month in self._months else _start_of_next_month(day)
        return day

    def _matches_day(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        in_month = day.day in self._days
        in_week = day.isoweekday() % 7 in self._weekdays
        return (in_month or in_week) if self._either_day_field_is_enough else (in_month and in_week)

    def _refuse_impossible_date(self) -> None:
        # Every date that exists, 29 February too, falls on every weekday within 40 years.
        longest = max(_MOST_DAYS_IN_MONTH[month] for month in self._months)
        if self._days[0] > longest and not self._either_day_field_is_enough:
            raise InvalidValue(f"it never fires, because no month it names has a day {self._days[0]}")


class _Field:
    """One field of a cron expression: what it's called and what may stand in it."""

    def __init__(self, name: str, low: int, high: int, words: str = "") -> None:
        self._name = name
        self._low = low
        self._high = high
        self._words = {word: number for number, word in enumerate(words.split(), start=low)}
        self._allowed = f"{low}-{high}" + (f" or {words[:3]}-{words[-3:]}" if words else "")

    def parse(self, text: str) -> list[int]:
        """The numbers that `text` stands for, in order."""
        return sorted({value for item in text.split(",") for value in self._parse_item(item)})

    def _parse_item(self, item: str) -> range:
        span, slash, step = item.partition("/")
        first, last = self._parse_span(span)
        if not slash:
            return range(first, last + 1)
        is_single = span != "*" and "-" not in span
        return range(first, (self._high if is_single else last) + 1, self._parse_step(step))

    def _parse_span(self, span: str) -> tuple[int, int]:
        if span == "*":
            return self._low, self._high
        first_text, dash, last_text = span.partition("-")
        first = self._parse_value(first_text)
        last = self._parse_value(last_text) if dash else first
        if last < first and last_text.upper() == "SUN":
            last = self._high  # a week may be named from Monday to Sunday
        if last < first:
            raise InvalidValue(f"{self._name} range {span!r} is reversed ({first} to {last})")
        return first, last

    def _parse_value(self, text: str) -> int:
        value = self._words.get(text.upper(), parse_digits(text))
        if value is None or not self._low <= value <= self._high:
            raise InvalidValue(f"{self._name} {text!r} is not one of {self._allowed}")
        return value

    def _parse_step(self, text: str) -> int:
        step = parse_digits(text)
        if not step:
            raise InvalidValue(f"{self._name} step {text!r} is not a whole number of 1 or more")
        return step


_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day-of-month", 1, 31),
    _Field("month", 1, 12, "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
    _Field("day-of-week", 0, 7, "SUN MON TUE WED THU FRI SAT"),
)


def _parse_rule(expr: str, zone: _Zone) -> Interval | _FixedTimes | _RunningTimes:
    if not (expr.isascii() and expr.replace("\t", " ").isprintable()):
        raise InvalidValue("only printable ASCII, spaces and tabs are allowed")
    if is_interval(expr):
        return parse_expression(expr)
    fields = _resolve_alias(expr).split()
    if len(fields) not in (5, 6):
        raise InvalidValue(f"it has {len(fields)} fields; 5, or 6 with a leading second, are allowed")
    if len(fields) == 5:
        fields = ["0", *fields]
    is_running = any(field.startswith("*") for field in fields[:3])
    return (_RunningTimes if is_running else _FixedTimes)(_WallTimes(fields), zone)


def _resolve_alias(expr: str) -> str:
    if not expr.startswith("@"):
        return expr
    if expr.lower() not in _ALIASES:
        raise InvalidValue(f"it is none of {', '.join(_ALIASES)} and {EVERY}")
    return _ALIASES[expr.lower()]


def _load_zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # slow to import, and most schedules have no zone

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidValue(f"unknown time zone {name!r}; use an IANA name such as 'Europe/Berlin'") from None


def _seconds(span: timedelta) -> int:
    return span // _ONE_SECOND


def _first_from(values: list[int], low: int) -> int | None:
    index = bisect_left(values, low)
    return values[index] if index < len(values) else None


def _start_of_next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
