"""Schedules by SQL on Postgres fire when Brant's own do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import psycopg
import pytest

from brant.cron import CronSchedule
from brant.errors import InvalidValue
from tests.servers import Server

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata"]
EXPRESSIONS = [
    "* * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "0 2 * * *",
    "15,45 1-3 * * *",
    "0 * * * *",
    "*/20 2 * * *",
    "0 0 29 2 *",
    "0 0 31 * *",
    "0 12 1,15 * MON",
    "0 12 */2 * 5",
    "5/15 3 * JAN-MAR,OCT sun",
    "0 9 * * MON-SUN",
    "0 9 * * 7",
    "30 */6 * * * *",
    "*/10 59 23 31 12 *",
    "15 30 2 * * *",
    "@hourly",
    "@Daily",
    "@weekly",
    "@monthly",
    "@yearly",
    "@every 90s",
    "@EVERY2h",
    " @every 1d ",
    "0\t0 * * *",
]
# Around the days on which some of the zones change their clocks.
DAYS = [(2024, 2, 28), (2024, 3, 10), (2024, 3, 31), (2024, 4, 7), (2024, 10, 6), (2024, 10, 27), (2024, 11, 3)]
DAYS += [(2017, 10, 15), (2018, 2, 18), (2023, 12, 31)]


@pytest.fixture(scope="module")
def connection(postgres_server: Server) -> Iterator[psycopg.Connection]:
    with postgres_server.database() as address, psycopg.connect(address, autocommit=True) as plain:
        yield plain


def by_sql(connection: psycopg.Connection, expr: str, zone: str | None, after: int) -> int:
    found = connection.execute("SELECT brant._brant_cron_next(%s, %s, %s)", [expr, zone, after]).fetchone()
    assert found is not None
    return int(found[0])


def moments(zone: str, seed: str) -> list[int]:
    chance = random.Random(seed)
    days = [int(datetime(*day, tzinfo=ZoneInfo(zone)).timestamp()) for day in DAYS]
    return [day + chance.randrange(-3_600, 30 * 3_600) for day in days for _ in range(2)]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_the_next_times_are_those_of_brants_own_schedules(connection: psycopg.Connection, expr: str, zone: str) -> None:
    schedule = CronSchedule(expr, zone)
    for moment in moments(zone, expr):
        expected = schedule.next_fire(moment)
        assert by_sql(connection, expr, zone, moment) == expected, moment
        assert by_sql(connection, expr, zone, expected) == schedule.next_fire(expected), expected


@pytest.mark.parametrize(
    "expr",
    [
        "",
        "nonsense",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "1-0 * * * *",
        "5,,6 * * * *",
        "-1 * * * *",
        "1- * * * *",
        "+5 * * * *",
        "* * * * FOO",
        "0 0 31 2 *",
        "0 0 30 FEB *",
        "@fortnightly",
        "@every",
        "@every 0s",
        "@every 5",
        "@every 5w",
        "@every 99999999999d",
        "@every 36501d",
        "* * * * \u00e9",
        "* * *\n* *",
    ],
)
def test_what_is_no_schedule_is_refused_by_both(connection: psycopg.Connection, expr: str) -> None:
    with pytest.raises(InvalidValue):
        CronSchedule(expr)
    with pytest.raises(psycopg.DataError, match="invalid schedule"):
        by_sql(connection, expr, None, 0)


def test_an_unknown_zone_is_refused(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.DataError, match="Nowhere/City"):
        by_sql(connection, "* * * * *", "Nowhere/City", 0)


def test_a_schedule_without_a_zone_is_in_that_of_the_session(connection: psycopg.Connection) -> None:
    connection.execute("SET TimeZone = 'Asia/Kolkata'")
    expected = CronSchedule("0 9 * * *", "Asia/Kolkata").next_fire(0)
    assert connection.execute("SELECT brant.honker_cron_next_after('0 9 * * *', 0)").fetchone() == (expected,)
    connection.execute("RESET TimeZone")
