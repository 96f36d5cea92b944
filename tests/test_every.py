"""every(): an interval, said as a number of seconds, as a text with a unit, or as a timedelta."""

from __future__ import annotations

from datetime import timedelta

import pytest

import brant
from brant.testing import FakeClock


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        (30, 30),
        ("45s", 45),
        ("5m", 300),
        (" 2h ", 7_200),
        ("1d", 86_400),
        (timedelta(minutes=5), 300),
        (timedelta(days=1, seconds=1), 86_401),
    ],
)
def test_an_interval_can_be_said_in_three_ways(interval: int | str | timedelta, seconds: int) -> None:
    assert brant.every(interval) == brant.every_s(seconds)
    assert brant.every(interval).next_fire(1_000) == 1_000 + seconds


@pytest.mark.parametrize(
    ("interval", "reason"),
    [
        (0, "at least one second"),
        (-5, "at least one second"),
        (True, "not True"),
        (0.5, "whole number of seconds"),
        (30.0, "whole number of seconds"),
        (None, "not None"),
        (b"5m", "not b'5m'"),
        ("", "'5m'"),
        ("30", "'5m'"),
        ("5 m", "'5m'"),
        ("1h30m", "'5m'"),
        ("5M", "'5m'"),
        ("0s", "'5m'"),
        ("-5m", "'5m'"),
        ("²s", "'5m'"),
        ("9" * 5_000 + "s", "'5m'"),
        (timedelta(seconds=1.5), "whole seconds"),
        (timedelta(0), "at least one second"),
        (timedelta(minutes=-1), "at least one second"),
        (10**12, "100 years"),
        (timedelta(days=400 * 365), "100 years"),
    ],
)
def test_what_is_no_interval_is_refused_with_what_to_write(interval: int, reason: str) -> None:
    with pytest.raises(brant.InvalidValue) as refusal:
        brant.every(interval)
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_a_schedule_of_an_interval_fires(timed: brant.Database, clock: FakeClock) -> None:
    timed.scheduler().add(name="beat", queue="q", schedule=brant.every("5m"))
    clock.advance(299)
    assert timed.scheduler().tick() == []
    clock.advance(1)
    assert [fire.name for fire in timed.scheduler().tick()] == ["beat"]


def test_the_same_interval_in_other_words_keeps_the_next_fire(timed: brant.Database, clock: FakeClock) -> None:
    timed.scheduler().add(name="beat", queue="q", schedule=brant.every("5m"))
    (before,) = timed.scheduler().schedules()
    clock.advance(60)
    timed.scheduler().add(name="beat", queue="q", schedule=brant.every(timedelta(minutes=5)))
    (after,) = timed.scheduler().schedules()
    assert after.next_fire_at == before.next_fire_at
