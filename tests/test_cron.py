"""Cron expressions and intervals: the grammar, the calendar and daylight saving.

cronsim is the oracle wherever it understands an expression and is right; where the clock shifts by
half an hour or at midnight it isn't, and there the oracle is a walk over every minute.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from brant.cron import CronSchedule, crontab, every_s
from brant.errors import InvalidValue

MINUTE = 60
HOUR = 3_600
DAY = 86_400

# Shifts of an hour, at an hour, away from midnight: what cronsim gets right.
PLAIN_ZONES = ["Europe/Berlin", "America/New_York", "America/St_Johns", "Asia/Kolkata", "UTC"]
HALF_HOUR_ZONE = "Australia/Lord_Howe"
# A shift at midnight, a shift of two hours, shifts around Ramadan.
ODD_ZONES = [HALF_HOUR_ZONE, "America/Havana", "Antarctica/Troll", "Africa/Casablanca"]


def unix(text: str, tz: str = "UTC", fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz), fold=fold).timestamp())


def wall(instant: int, tz: str) -> datetime:
    return datetime.fromtimestamp(instant, ZoneInfo(tz)).replace(tzinfo=None)


def fires(schedule: CronSchedule, after: int) -> Iterator[int]:
    while True:
        after = schedule.next_fire(after)
        yield after


def fires_until(schedule: CronSchedule, after: int, end: int) -> list[int]:
    found: list[int] = []
    for instant in fires(schedule, after):
        if instant > end:
            return found
        found.append(instant)
    raise AssertionError("schedules never end")


def following(expr: str, start: str, count: int) -> list[str]:
    """The next `count` boundaries in UTC."""
    found = islice(fires(CronSchedule(expr, "UTC"), unix(start)), count)
    return [wall(instant, "UTC").isoformat(" ") for instant in found]


@cache
def shifts(tz: str, first_year: int = 2020, last_year: int = 2030) -> list[int]:
    """The instants at which the zone's clock is put forward or back."""

    def offset(instant: int) -> timedelta:
        return wall(instant, tz) - wall(instant, "UTC")

    days = range(unix(f"{first_year}-01-01"), unix(f"{last_year + 1}-01-01"), DAY)
    changing_days = [day for day in days if offset(day) != offset(day + DAY)]
    minutes = [minute for day in changing_days for minute in range(day + MINUTE, day + DAY + MINUTE, MINUTE)]
    return [minute for minute in minutes if offset(minute) != offset(minute - MINUTE)]


# --- the grammar ---------------------------------------------------------------------------------

MONDAY_NOON = "2024-01-01 12:00"


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("* * * * *", ["2024-01-01 12:01:00", "2024-01-01 12:02:00"]),
        ("  5\t*   * *\t\t* \n", ["2024-01-01 12:05:00", "2024-01-01 13:05:00"]),
        ("05 * * * *", ["2024-01-01 12:05:00", "2024-01-01 13:05:00"]),
        ("0,30 * * * *", ["2024-01-01 12:30:00", "2024-01-01 13:00:00"]),
        ("10-11 * * * *", ["2024-01-01 12:10:00", "2024-01-01 12:11:00", "2024-01-01 13:10:00"]),
        ("10-13/2 * * * *", ["2024-01-01 12:10:00", "2024-01-01 12:12:00", "2024-01-01 13:10:00"]),
        ("*/25 * * * *", ["2024-01-01 12:25:00", "2024-01-01 12:50:00", "2024-01-01 13:00:00"]),
        ("*/100 * * * *", ["2024-01-01 13:00:00", "2024-01-01 14:00:00"]),
        ("5/40 * * * *", ["2024-01-01 12:05:00", "2024-01-01 12:45:00", "2024-01-01 13:05:00"]),
        ("5-5/40 * * * *", ["2024-01-01 12:05:00", "2024-01-01 13:05:00"]),
        ("1,50-59/5,1 * * * *", ["2024-01-01 12:01:00", "2024-01-01 12:50:00", "2024-01-01 12:55:00"]),
        ("0 9 * * MON-WED", ["2024-01-02 09:00:00", "2024-01-03 09:00:00", "2024-01-08 09:00:00"]),
        ("0 9 * * mon,Wed", ["2024-01-03 09:00:00", "2024-01-08 09:00:00"]),
        ("0 0 1 feb-APR/2 *", ["2024-02-01 00:00:00", "2024-04-01 00:00:00", "2025-02-01 00:00:00"]),
        ("0 0 1 NOV/1 *", ["2024-11-01 00:00:00", "2024-12-01 00:00:00", "2025-11-01 00:00:00"]),
        ("0 0 31 * *", ["2024-01-31 00:00:00", "2024-03-31 00:00:00", "2024-05-31 00:00:00"]),
        ("59 23 31 12 *", ["2024-12-31 23:59:00", "2025-12-31 23:59:00"]),
    ],
)
def test_an_expression_fires_at_the_times_it_names(expr: str, expected: list[str]) -> None:
    assert following(expr, MONDAY_NOON, len(expected)) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("* * * * * *", ["2024-01-01 12:00:01", "2024-01-01 12:00:02"]),
        ("*/20 * * * * *", ["2024-01-01 12:00:20", "2024-01-01 12:00:40", "2024-01-01 12:01:00"]),
        ("15 30 8 * * *", ["2024-01-02 08:30:15", "2024-01-03 08:30:15"]),
        ("59 59 23 31 12 *", ["2024-12-31 23:59:59", "2025-12-31 23:59:59"]),
    ],
)
def test_a_sixth_field_leads_and_is_the_second(expr: str, expected: list[str]) -> None:
    assert following(expr, MONDAY_NOON, len(expected)) == expected


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("@hourly", ["2024-01-01 13:00:00", "2024-01-01 14:00:00"]),
        ("@daily", ["2024-01-02 00:00:00", "2024-01-03 00:00:00"]),
        ("@midnight", ["2024-01-02 00:00:00", "2024-01-03 00:00:00"]),
        ("@weekly", ["2024-01-07 00:00:00", "2024-01-14 00:00:00"]),
        ("@monthly", ["2024-02-01 00:00:00", "2024-03-01 00:00:00"]),
        ("@yearly", ["2025-01-01 00:00:00", "2026-01-01 00:00:00"]),
        ("@annually", ["2025-01-01 00:00:00", "2026-01-01 00:00:00"]),
        ("@Daily", ["2024-01-02 00:00:00", "2024-01-03 00:00:00"]),
        (" @HOURLY ", ["2024-01-01 13:00:00", "2024-01-01 14:00:00"]),
    ],
)
def test_aliases(alias: str, expected: list[str]) -> None:
    assert following(alias, MONDAY_NOON, 2) == expected


@pytest.mark.parametrize(
    ("expr", "named", "allowed"),
    [
        ("", "''", "5, or 6"),
        ("* * * *", "4 fields", "5, or 6"),
        ("* * * * * * *", "7 fields", "5, or 6"),
        ("60 * * * *", "minute '60'", "0-59"),
        ("60 * * * * *", "second '60'", "0-59"),
        ("* 24 * * *", "hour '24'", "0-23"),
        ("* * 0 * *", "day-of-month '0'", "1-31"),
        ("* * 32 * *", "day-of-month '32'", "1-31"),
        ("* * * 0 *", "month '0'", "1-12 or JAN-DEC"),
        ("* * * 13 *", "month '13'", "1-12 or JAN-DEC"),
        ("* * * * 8", "day-of-week '8'", "0-7 or SUN-SAT"),
        ("* * * MON *", "month 'MON'", "1-12 or JAN-DEC"),
        ("* * * * JAN", "day-of-week 'JAN'", "0-7 or SUN-SAT"),
        ("* * * * MONDAY", "day-of-week 'MONDAY'", "0-7 or SUN-SAT"),
        ("MON * * * *", "minute 'MON'", "0-59"),
        ("+5 * * * *", "minute '+5'", "0-59"),
        ("-5 * * * *", "minute ''", "0-59"),
        ("1_0 * * * *", "minute '1_0'", "0-59"),
        ("1.5 * * * *", "minute '1.5'", "0-59"),
        ("0x5 * * * *", "minute '0x5'", "0-59"),
        ("9" * 5000 + " * * * *", "minute '999", "0-59"),
        ("\u0665 * * * *", "\u0665", "printable ASCII"),
        ("\u2075 * * * *", "\u2075", "printable ASCII"),
        ("* * * * \u017fun", "\u017fun", "printable ASCII"),
        ("*\u00a0* * * *", "xa0", "printable ASCII"),
        ("* * *\n* *", r"\n", "printable ASCII"),
        ("1,,2 * * * *", "minute ''", "0-59"),
        (",1 * * * *", "minute ''", "0-59"),
        ("1, * * * *", "minute ''", "0-59"),
        ("1- * * * *", "minute ''", "0-59"),
        ("1-2-3 * * * *", "minute '2-3'", "0-59"),
        ("*-5 * * * *", "minute '*'", "0-59"),
        ("** * * * *", "minute '**'", "0-59"),
        ("? * * * *", "minute '?'", "0-59"),
        ("* * L * *", "day-of-month 'L'", "1-31"),
        ("* * * * MON#1", "day-of-week 'MON#1'", "0-7 or SUN-SAT"),
        ("*/0 * * * *", "minute step '0'", "1 or more"),
        ("*/ * * * *", "minute step ''", "1 or more"),
        ("*/-1 * * * *", "minute step '-1'", "1 or more"),
        ("*/2/2 * * * *", "minute step '2/2'", "1 or more"),
        ("/5 * * * *", "minute ''", "0-59"),
        ("* * * * */MON", "day-of-week step 'MON'", "1 or more"),
        ("10-5 * * * *", "minute range '10-5'", "reversed"),
        ("* * * * FRI-MON", "day-of-week range 'FRI-MON'", "reversed (5 to 1)"),
        ("@reboot", "'@reboot'", "@hourly, @daily"),
        ("@", "'@'", "@hourly, @daily"),
        ("@daily 5", "'@daily 5'", "@hourly, @daily"),
        ("0 0 31 2 *", "never fires", "day 31"),
        ("0 0 30,31 FEB *", "never fires", "day 30"),
        ("0 0 31 4,6,9,11 */2", "never fires", "day 31"),
    ],
)
def test_a_bad_expression_is_refused_with_its_name_and_what_is_allowed(expr: str, named: str, allowed: str) -> None:
    for build in (CronSchedule, crontab):
        with pytest.raises(InvalidValue) as refusal:
            build(expr)
        message = str(refusal.value)
        assert repr(expr.strip()) in message
        assert named in message
        assert allowed in message


@pytest.mark.parametrize("tz", ["Mars/Olympus", "", "Europe", "../etc/passwd", "/etc/passwd", "Europe/Berlin\0"])
@pytest.mark.parametrize("expr", ["* * * * *", "@every 5s"])
def test_an_unknown_zone_is_refused_by_name(expr: str, tz: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        CronSchedule(expr, tz)
    assert f"time zone {tz!r}" in str(refusal.value)


def test_a_schedule_is_a_value() -> None:
    schedule = crontab(" */5 * * * * ", "Europe/Berlin")
    assert (schedule.expr, schedule.tz) == ("*/5 * * * *", "Europe/Berlin")
    assert repr(schedule) == "CronSchedule('*/5 * * * *', tz='Europe/Berlin')"
    assert repr(crontab("@daily")) == "CronSchedule('@daily')"
    same, other_zone, other_expr = (
        crontab("*/5 * * * *", "Europe/Berlin"),
        crontab("*/5 * * * *"),
        crontab("*/6 * * * *", "Europe/Berlin"),
    )
    assert schedule == same
    assert schedule != other_zone
    assert schedule != other_expr
    assert len({schedule, same, other_zone, other_expr}) == 3
    assert schedule != "*/5 * * * *"


def test_importing_does_not_load_the_zone_database() -> None:
    check = "import sys, brant.cron; brant.cron.crontab('@daily').next_fire(0); sys.exit('zoneinfo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


# --- days ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sunday", ["0", "7", "SUN", "sun", "0,7", "7/1", "*/7"])
def test_both_0_and_7_are_sunday(sunday: str) -> None:
    assert following(f"0 0 * * {sunday}", MONDAY_NOON, 2) == ["2024-01-07 00:00:00", "2024-01-14 00:00:00"]


def test_a_range_of_weekdays_may_end_in_7() -> None:
    days = ["2024-01-05", "2024-01-06", "2024-01-07", "2024-01-12"]
    assert following("0 0 * * 5-7", MONDAY_NOON, 4) == [f"{day} 00:00:00" for day in days]


@pytest.mark.parametrize(
    ("day_of_month", "day_of_week", "days"),
    [
        ("13", "FRI", [5, 12, 13, 19, 26]),  # both restricted: either is enough
        ("13", "1-5", [2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 15]),
        ("5,*", "FRI", [2, 3, 4, 5, 6]),  # restricted, as it doesn't begin with a star
        ("13", "*", [13]),
        ("*", "FRI", [5, 12, 19, 26]),
        ("*/2", "FRI", [5, 19]),  # begins with a star: both must match
        ("5-20", "*/5", [5, 7, 12, 14, 19]),
        ("*,13", "FRI", [5, 12, 19, 26]),
    ],
)
def test_how_the_two_day_fields_combine(day_of_month: str, day_of_week: str, days: list[int]) -> None:
    expected = [f"2024-01-{day:02} 00:00:00" for day in days]
    assert following(f"0 0 {day_of_month} * {day_of_week}", MONDAY_NOON, len(days)) == expected


@pytest.mark.parametrize(
    ("expr", "start", "expected"),
    [
        ("0 0 29 2 *", "2024-02-29 00:00", "2028-02-29 00:00:00"),
        ("0 0 29 2 *", "2096-02-29 00:00", "2104-02-29 00:00:00"),
        ("*/5 12 29 2 */7", "2088-03-01 00:00", "2128-02-29 12:00:00"),
        ("0 0 30 2 MON", "2024-01-01 00:00", "2024-02-05 00:00:00"),
    ],
)
def test_rare_dates(expr: str, start: str, expected: str) -> None:
    assert following(expr, start, 1) == [expected]


# --- strictly later ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "expected"),
    [(0, 60), (0.5, 60), (59.999, 60), (60, 120), (60.0, 120), (-1, 0), (-0.5, 0), (-60, 0), (-60.5, -60)],
)
def test_the_next_boundary_is_strictly_later(after: float, expected: int) -> None:
    assert crontab("* * * * *", "UTC").next_fire(after) == expected


def test_a_moment_is_answered_in_its_own_kind() -> None:
    schedule = crontab("0 9 * * *", "Europe/Berlin")
    berlin = ZoneInfo("Europe/Berlin")
    assert schedule.next_after(datetime(2024, 7, 1, 9)) == datetime(2024, 7, 2, 9)
    assert schedule.next_after(datetime(2024, 7, 1, 8, 59, 59, 999_999)) == datetime(2024, 7, 1, 9)
    aware = schedule.next_after(datetime(2024, 7, 1, 6, 59, 59, 999_999, tzinfo=UTC))
    assert (aware, aware.tzinfo) == (datetime(2024, 7, 1, 9, tzinfo=berlin), berlin)
    assert schedule.next_after(datetime(2024, 7, 1, 7, tzinfo=UTC)) == datetime(2024, 7, 2, 9, tzinfo=berlin)


def test_microseconds_are_dropped_also_before_1970() -> None:
    half_past = datetime(1969, 12, 31, 23, 59, 58, 500_000)
    assert crontab("* * * * * *", "UTC").next_after(half_past) == datetime(1969, 12, 31, 23, 59, 59)


def test_fold_tells_the_passes_of_a_naive_moment_apart() -> None:
    schedule = crontab("*/30 * * * *", "Europe/Berlin")
    found = [datetime(2024, 10, 27, 2)]
    for _ in range(4):
        found.append(schedule.next_after(found[-1]))
    assert [f"{moment:%H:%M} {moment.fold}" for moment in found] == [
        "02:00 0",
        "02:30 0",
        "02:00 1",
        "02:30 1",
        "03:00 0",
    ]


# --- intervals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "seconds"),
    [
        ("@every 1s", 1),
        ("@every 90s", 90),
        ("@every 5m", 300),
        ("@every 2h", 7_200),
        ("@every 1d", 86_400),
        ("@every5m", 300),
        ("@EVERY \t 5m", 300),
    ],
)
@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_an_interval_counts_from_the_moment_given(expr: str, seconds: int, tz: str | None) -> None:
    schedule = CronSchedule(expr, tz)
    spring_forward = unix("2024-03-31 00:30")
    assert schedule.next_fire(spring_forward) == spring_forward + seconds
    assert schedule.next_fire(1_000.9) == 1_000 + seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "0s",
        "-5s",
        "+5s",
        "1_0s",
        "1.5s",
        "5 s",
        "5w",
        "5S",
        "s5",
        "5m5s",
        "one",
        "4000000000s",
        "9" * 5000 + "s",
    ],
)
def test_a_bad_interval_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        CronSchedule(f"@every {text}")
    assert repr(text) in str(refusal.value)
    assert "unit s, m, h or d" in str(refusal.value)


def test_every_s() -> None:
    schedule = every_s(90)
    assert (schedule.expr, schedule.tz) == ("@every 90s", None)
    assert schedule == CronSchedule("@every 90s")
    assert schedule.next_fire(10.7) == 100
    assert schedule.next_after(datetime(2024, 1, 1, tzinfo=UTC)) == datetime(2024, 1, 1, 0, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (0, "'0s' is not a number of 1 or more"),
        (-1, "'-1s' is not a number of 1 or more"),
        (True, "whole number, not True"),
        (1.0, "whole number, not 1.0"),
        ("5", "whole number, not '5'"),
        (None, "whole number, not None"),
    ],
)
def test_every_s_takes_a_positive_int_only(seconds: int, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        every_s(seconds)


@pytest.mark.parametrize("expr", ["@every 5s", " @every 5s", "@EVERY 5s", "@every", "@everything"])
def test_crontab_refuses_intervals(expr: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        crontab(expr)
    assert repr(expr) in str(refusal.value)
    assert "every()" in str(refusal.value)


# --- daylight saving -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tz", "day", "expr", "expected"),
    [
        ("Europe/Berlin", "2024-03-31", "30 2 * * *", "03:00+02:00"),
        ("Europe/Berlin", "2024-03-31", "15,30 2,3 * * *", "03:00+02:00 03:15+02:00 03:30+02:00"),
        ("Europe/Berlin", "2024-03-31", "0 2,3 * * *", "03:00+02:00"),
        ("Europe/Berlin", "2024-03-31", "0 * * * *", "00:00+01:00 01:00+01:00 03:00+02:00 04:00+02:00"),
        ("Europe/Berlin", "2024-03-31", "*/30 1-3 * * *", "01:00+01:00 01:30+01:00 03:00+02:00 03:30+02:00"),
        ("Europe/Berlin", "2024-03-31", "*/30 2 * * *", ""),
        ("Europe/Berlin", "2024-03-31", "0 30 2 * * *", "03:00+02:00"),
        ("Europe/Berlin", "2024-03-31", "* 30 2 * * *", ""),
        ("Europe/Berlin", "2024-10-27", "30 2 * * *", "02:30+02:00"),
        (
            "Europe/Berlin",
            "2024-10-27",
            "0-59/30 1-3 * * *",
            "01:00+02:00 01:30+02:00 02:00+02:00 02:30+02:00 03:00+01:00 03:30+01:00",
        ),
        (
            "Europe/Berlin",
            "2024-10-27",
            "0 * * * *",
            "00:00+02:00 01:00+02:00 02:00+02:00 02:00+01:00 03:00+01:00 04:00+01:00",
        ),
        ("Europe/Berlin", "2024-10-27", "*/30 2 * * *", "02:00+02:00 02:30+02:00 02:00+01:00 02:30+01:00"),
        ("Europe/Berlin", "2024-10-27", "0 30 2 * * *", "02:30+02:00"),
        ("America/New_York", "2024-03-10", "59 2 * * *", "03:00-04:00"),
        ("America/New_York", "2024-11-03", "0 1 * * *", "01:00-04:00"),
        ("America/New_York", "2024-11-03", "*/45 1 * * *", "01:00-04:00 01:45-04:00 01:00-05:00 01:45-05:00"),
        ("Australia/Lord_Howe", "2024-10-06", "15 2 * * *", "02:30+11:00"),
        ("Australia/Lord_Howe", "2024-10-06", "*/15 2 * * *", "02:30+11:00 02:45+11:00"),
        ("Australia/Lord_Howe", "2024-10-06", "*/15 3 * * *", "03:00+11:00 03:15+11:00 03:30+11:00 03:45+11:00"),
        ("Australia/Lord_Howe", "2024-04-07", "45 1 * * *", "01:45+11:00"),
        ("Australia/Lord_Howe", "2024-04-07", "*/45 1 * * *", "01:00+11:00 01:45+11:00 01:45+10:30"),
        ("America/Havana", "2024-03-10", "0 0 * * *", "01:00-04:00"),
        ("America/Havana", "2024-03-10", "*/30 0-1 * * *", "01:00-04:00 01:30-04:00"),
        ("America/Havana", "2024-11-03", "0 0 * * *", "00:00-04:00"),
        ("America/Havana", "2024-11-03", "*/30 0 * * *", "00:00-04:00 00:30-04:00 00:00-05:00 00:30-05:00"),
    ],
)
def test_the_night_of_a_shift(tz: str, day: str, expr: str, expected: str) -> None:
    zone = ZoneInfo(tz)
    found = fires_until(crontab(expr, tz), unix(f"{day} 00:00", tz) - 1, unix(f"{day} 04:00", tz))
    shown = [datetime.fromtimestamp(instant, zone).isoformat(timespec="minutes") for instant in found]
    assert shown == [f"{day}T{clock}" for clock in expected.split()]


def test_a_second_pass_is_not_missed_when_the_next_time_on_the_clock_is_a_year_away() -> None:
    schedule = crontab("*/45 2 25 10 *", "Europe/Berlin")
    last_of_first_pass = unix("2020-10-25 02:45", "Europe/Berlin")
    assert schedule.next_fire(last_of_first_pass) == unix("2020-10-25 02:00", "Europe/Berlin", fold=1)


@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
@pytest.mark.parametrize("clock", ["0 0", "30 1", "45 1", "0 2", "15 2", "30 2", "0 3", "30 23"])
def test_a_fixed_time_fires_exactly_once_on_every_local_day(tz: str, clock: str) -> None:
    first, last = unix("2020-01-01 00:00", tz), unix("2031-01-01 00:00", tz)
    found = fires_until(crontab(f"{clock} * * *", tz), first - 1, last - 1)
    days = Counter(wall(instant, tz).date() for instant in found)
    assert len(days) == (last - first + HOUR) // DAY
    assert set(days.values()) == {1}
    minute, hour = map(int, clock.split())
    moved = {instant for instant in found if (wall(instant, tz).hour, wall(instant, tz).minute) != (hour, minute)}
    assert moved <= set(shifts(tz))


@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_running_schedules_keep_their_pace_through_every_shift(tz: str) -> None:
    hourly, half_hourly = crontab("0 * * * *", tz), crontab("*/30 * * * *", tz)
    # Where the clock shifts by half an hour, the full hours of before and after are apart by half an hour more.
    hours = {HOUR, HOUR + HOUR // 2} if tz == HALF_HOUR_ZONE else {HOUR}
    assert len(shifts(tz)) == 22
    for shift in shifts(tz):
        start, end = shift - DAY, shift + DAY
        assert {late - early for early, late in pairwise(fires_until(hourly, start, end))} == hours
        assert {late - early for early, late in pairwise(fires_until(half_hourly, start, end))} == {HOUR // 2}


# --- the system's zone ---------------------------------------------------------------------------


@pytest.fixture
def set_system_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def set_zone(tz: str) -> None:
        monkeypatch.setenv("TZ", tz)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York", *ODD_ZONES])
def test_without_a_zone_the_system_zone_counts(tz: str, set_system_zone: Callable[[str], None]) -> None:
    set_system_zone(tz)
    for expr in ["30 2 * * *", "15 1,2 * * *", "0 0 * * *", "*/30 * * * *", "*/45 0-3 * * *", "0 30 2 * * *"]:
        local, named = crontab(expr), crontab(expr, tz)
        for shift in shifts(tz, 2024, 2025):
            starts = range(shift - 5 * HOUR, shift + 5 * HOUR, 25 * MINUTE)
            assert [local.next_fire(start) for start in starts] == [named.next_fire(start) for start in starts]


def test_a_schedule_follows_a_change_of_the_system_zone(set_system_zone: Callable[[str], None]) -> None:
    schedule = crontab("0 9 * * *")
    set_system_zone("Asia/Kolkata")
    assert schedule.next_fire(unix("2024-07-01 00:00")) == unix("2024-07-01 03:30")
    set_system_zone("America/New_York")
    assert schedule.next_fire(unix("2024-07-01 00:00")) == unix("2024-07-01 13:00")


def test_moments_in_the_system_zone(set_system_zone: Callable[[str], None]) -> None:
    set_system_zone("America/New_York")
    schedule = crontab("30 2 * * *")
    assert schedule.next_after(datetime(2024, 3, 9, 12)) == datetime(2024, 3, 10, 3)
    aware = schedule.next_after(datetime(2024, 7, 1, 12, tzinfo=UTC))
    assert aware.isoformat() == "2024-07-02T02:30:00-04:00"


# --- against the oracles -------------------------------------------------------------------------


def field(low: int, high: int, words: str = "") -> st.SearchStrategy[str]:
    """A field as a crontab may have it; ranges with a step span two numbers or more, as cronsim misreads `5-5/2`."""
    names = st.sampled_from(words.split()) if words else st.nothing()
    number = st.integers(low, high)
    span = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(1, high).map(lambda value: f"/{value}")
    stepped = st.tuples(st.one_of(st.just("*"), number.map(str), span), step).map("".join)
    item = st.one_of(st.just("*"), number.map(str), names, span, stepped)
    return st.one_of(st.just("*"), st.lists(item, min_size=1, max_size=3).map(",".join))


MINUTES = field(0, 59)
HOURS = st.one_of(field(0, 23), field(0, 3))
DAYS = [field(1, 31), field(1, 12, "JAN jun Dec"), field(0, 7, "SUN mon Sat")]
EXPRESSIONS = st.one_of(st.tuples(MINUTES, HOURS, *DAYS), st.tuples(field(0, 59), MINUTES, HOURS, *DAYS)).map(" ".join)


def starts(tz: str, first_year: int = 2020, last_year: int = 2030) -> st.SearchStrategy[int]:
    anywhere = st.integers(unix(f"{first_year}-01-01"), unix(f"{last_year}-12-31"))
    if not (known := shifts(tz, first_year, last_year)):
        return anywhere
    around = st.builds(int.__add__, st.sampled_from(known), st.integers(-4 * HOUR, 4 * HOUR))
    return st.one_of(anywhere, around)


def zoned_starts(zones: list[str]) -> st.SearchStrategy[tuple[str, int]]:
    return st.sampled_from(zones).flatmap(lambda tz: st.tuples(st.just(tz), starts(tz)))


def oracle(expr: str, tz: str, start: int, count: int) -> list[int]:
    """What cronsim says, less what it repeats when it's started in the second pass of an hour."""
    found = (int(moment.timestamp()) for moment in CronSim(expr, datetime.fromtimestamp(start, ZoneInfo(tz))))
    return list(islice((instant for instant in found if instant > start), count))


def is_fixed(expr: str) -> bool:
    *_, minute, hour, _, _, _ = expr.split()
    return not minute.startswith("*") and not hour.startswith("*")


def has_seconds(expr: str) -> bool:
    return len(expr.split()) == 6


@settings(max_examples=400, deadline=None)
@given(expr=EXPRESSIONS, place=zoned_starts(PLAIN_ZONES))
def test_fires_when_cronsim_says(expr: str, place: tuple[str, int]) -> None:
    assume(not (has_seconds(expr) and is_fixed(expr)))  # those keep to the rule of five fields here, not in cronsim
    tz, start = place
    try:
        expected = oracle(expr, tz, start, 5)
    except CronSimError:
        with pytest.raises(InvalidValue):
            CronSchedule(expr, tz)
    else:
        assert list(islice(fires(CronSchedule(expr, tz), start), 5)) == expected


@settings(max_examples=150, deadline=None)
@given(expr=EXPRESSIONS, start=starts(HALF_HOUR_ZONE))
def test_fires_when_cronsim_says_in_the_half_hour_zone(expr: str, start: int) -> None:
    try:
        expected = oracle(expr, HALF_HOUR_ZONE, start, 5)
    except CronSimError:
        assume(False)
    found = list(islice(fires(CronSchedule(expr, HALF_HOUR_ZONE), start), 5))
    # cronsim steps over times of a running schedule where the clock shifts by half an hour.
    near_a_shift = any(abs(instant - shift) < DAY for instant in [start, *found] for shift in shifts(HALF_HOUR_ZONE))
    assume((is_fixed(expr) and not has_seconds(expr)) or not near_a_shift)
    assert found == expected


def walked(expr: str, tz: str, start: int, end: int) -> list[int]:
    """Every minute after `start` and until `end` at which `expr`, of five fields, fires."""
    pattern = CronSim(expr, datetime(2020, 1, 1))

    def matches(shown: datetime) -> bool:
        on_this_day = pattern.match_day(shown.date()) and shown.month in pattern.months
        return on_this_day and shown.hour in pattern.hours and shown.minute in pattern.minutes

    instants = range(start + MINUTE, end + MINUTE, MINUTE)
    if not is_fixed(expr):
        return [instant for instant in instants if matches(wall(instant, tz))]
    furthest = wall(start, tz)
    found = []
    for instant in instants:
        newly_passed = (wall(instant, tz) - furthest) // timedelta(minutes=1)
        if any(matches(furthest + timedelta(minutes=1 + passed)) for passed in range(newly_passed)):
            found.append(instant)
        furthest = max(furthest, wall(instant, tz))
    return found


@settings(max_examples=150, deadline=None)
@given(data=st.data(), tz=st.sampled_from(ODD_ZONES), minutes=MINUTES, hours=HOURS, weekdays=DAYS[2])
def test_every_boundary_near_a_shift_is_visited_exactly_once(
    data: st.DataObject, tz: str, minutes: str, hours: str, weekdays: str
) -> None:
    shift = data.draw(st.sampled_from(shifts(tz)))
    start = shift + data.draw(st.integers(-12, -3)) * HOUR
    end = shift + data.draw(st.integers(3, 12)) * HOUR
    expr = f"{minutes} {hours} * * {weekdays}"
    assert fires_until(CronSchedule(expr, tz), start, end) == walked(expr, tz, start, end)


@settings(max_examples=300, deadline=None)
@given(expr=EXPRESSIONS, place=zoned_starts([*PLAIN_ZONES, *ODD_ZONES]), part=st.floats(0, 0.999))
def test_never_goes_back_and_skips_nothing(expr: str, place: tuple[str, int], part: float) -> None:
    tz, start = place
    try:
        schedule = CronSchedule(expr, tz)
    except InvalidValue:
        assume(False)
    following = schedule.next_fire(start + part)
    assert following > start + part
    assert schedule.next_fire(following - 1) == following
    assert schedule.next_fire((start + following) // 2) == following
    assert schedule.next_fire(following) > following


@pytest.mark.parametrize(
    "expr", ["30 2 * * *", "0-59 2 * * *", "*/7 2 * * *", "0 * * * *", "* * * * * *", "5 5 2 * * *"]
)
def test_never_goes_back_from_any_minute_of_a_repeated_hour(expr: str) -> None:
    schedule = crontab(expr, "Europe/Berlin")
    first_pass = unix("2024-10-27 02:00", "Europe/Berlin")
    for after in range(first_pass, first_pass + 2 * HOUR, 30):
        assert schedule.next_fire(after) > after
