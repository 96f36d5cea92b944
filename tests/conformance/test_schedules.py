"""Schedules enqueue jobs when they are due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brant.errors import InvalidValue
from brant.storage.base import ScheduleRow, Storage
from brant.storage.schedules import Fire
from brant.storage.session import Session
from brant.testing import FakeClock
from tests.conformance.conftest import Backend

NOW = 1_700_000_000  # 22:13:20 in UTC
NEXT_MINUTE = NOW + 40
NEXT_HOUR = NOW + 2_800


def register(session: Session, name: str = "s", expr: str = "* * * * *", *, missed: str = "all") -> None:
    session.register_schedule(name, "q", expr, '"p"', tz="UTC", missed=missed)


def fires(session: Session, clock: FakeClock) -> list[int]:
    return [fire.fire_at for fire in session.tick(clock.now())]


def next_fire(session: Session, name: str = "s") -> int:
    schedule = session.get_schedule(name)
    assert schedule is not None
    return schedule.next_fire_at


# Register


def test_a_schedule_is_stored_as_it_was_given(session: Session) -> None:
    session.register_schedule(
        "s", "q", " 0 * * * * ", '"p"', priority=2, expires_s=60, max_attempts=5, tz="Europe/Paris", missed="one"
    )
    assert session.get_schedule("s") == ScheduleRow(
        name="s",
        queue="q",
        cron_expr="0 * * * *",
        payload='"p"',
        priority=2,
        expires_s=60,
        next_fire_at=NEXT_HOUR,
        enabled=1,
        max_attempts=5,
        tz="Europe/Paris",
        missed="one",
        last_fire_at=None,
        error=None,
    )
    assert session.get_schedule("unknown") is None


def test_schedules_are_listed_by_name(session: Session) -> None:
    for name in ("b", "c", "a"):
        register(session, name)
    assert [schedule.name for schedule in session.list_schedules()] == ["a", "b", "c"]


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(("expr", "tz"), [("every minute", None), ("* * * * *", "Nowhere/City")])
def test_a_schedule_that_makes_no_sense_is_refused(session: Session, expr: str, tz: str | None) -> None:
    with pytest.raises(InvalidValue):
        session.register_schedule("s", "q", expr, "1", tz=tz)
    assert session.list_schedules() == []


@pytest.mark.guarantee("G13")
def test_registering_again_keeps_a_fire_that_is_overdue(session: Session, clock: FakeClock) -> None:
    register(session, expr="@every 1h")
    clock.advance(3_605)
    session.register_schedule("s", "other", "@every 1h", '"new"', tz="UTC", max_attempts=0)
    schedule = session.get_schedule("s")
    assert schedule is not None
    assert (schedule.queue, schedule.payload, schedule.max_attempts) == ("other", '"new"', 1)
    assert schedule.next_fire_at == NOW + 3_600


@pytest.mark.parametrize("changed", ["expr", "tz"])
def test_registering_with_other_times_starts_from_now(session: Session, clock: FakeClock, changed: str) -> None:
    register(session, expr="0 * * * *")
    clock.advance(3_600)
    session.register_schedule(
        "s",
        "q",
        "* * * * *" if changed == "expr" else "0 * * * *",
        "1",
        tz="UTC" if changed == "expr" else "Asia/Tokyo",
    )
    assert next_fire(session) == (NEXT_MINUTE + 3_600 if changed == "expr" else NEXT_HOUR + 3_600)


def test_registering_again_leaves_a_paused_schedule_paused(session: Session) -> None:
    register(session)
    session.pause_schedule("s")
    register(session)
    assert session.next_schedule_at() == 0


def test_a_removed_schedule_is_gone(session: Session, clock: FakeClock) -> None:
    register(session)
    assert session.remove_schedule("s")
    assert not session.remove_schedule("s")
    clock.advance(600)
    assert session.tick(clock.now()) == []


# Update


Change = Callable[[Session], bool]
CHANGES: dict[str, tuple[Change, dict[str, Any]]] = {
    "expr": (
        lambda s: s.update_schedule("s", expr=" 0 * * * * "),
        {"cron_expr": "0 * * * *", "next_fire_at": NEXT_HOUR},
    ),
    "tz": (lambda s: s.update_schedule("s", tz="Asia/Tokyo", touch_tz=True), {"tz": "Asia/Tokyo"}),
    "payload": (lambda s: s.update_schedule("s", payload="null"), {"payload": "null"}),
    "priority": (lambda s: s.update_schedule("s", priority=0), {"priority": 0}),
    "expiry": (lambda s: s.update_schedule("s", expires_s=9, touch_expires=True), {"expires_s": 9}),
    "no expiry": (lambda s: s.update_schedule("s", touch_expires=True), {"expires_s": None}),
    "attempts": (lambda s: s.update_schedule("s", max_attempts=0, touch_max_attempts=True), {"max_attempts": 1}),
    "default attempts": (lambda s: s.update_schedule("s", touch_max_attempts=True), {"max_attempts": 3}),
    "missed": (lambda s: s.update_schedule("s", missed="skip"), {"missed": "skip"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_update_changes_what_it_names_and_nothing_else(session: Session, what: str) -> None:
    session.register_schedule(
        "s", "q", "* * * * *", '"p"', priority=2, expires_s=60, max_attempts=5, tz="UTC", missed="one"
    )
    before = session.get_schedule("s")
    assert before is not None
    change, difference = CHANGES[what]
    assert change(session)
    assert session.get_schedule("s") == before._replace(**difference)


def test_an_update_of_nothing_or_of_an_unknown_schedule_is_false(session: Session) -> None:
    register(session)
    assert not session.update_schedule("s")
    assert not session.update_schedule("unknown", priority=1)


@pytest.mark.guarantee("G19")
def test_an_update_to_a_bad_expression_changes_nothing(session: Session) -> None:
    register(session)
    before = session.get_schedule("s")
    with pytest.raises(InvalidValue):
        session.update_schedule("s", expr="every minute", priority=9)
    assert session.get_schedule("s") == before


# Tick


def test_a_fire_enqueues_a_job_with_the_schedules_options(session: Session, clock: FakeClock) -> None:
    session.register_schedule("s", "q", "* * * * *", '"p"', priority=2, expires_s=60, max_attempts=5, tz="UTC")
    assert session.next_schedule_at() == NEXT_MINUTE
    clock.advance(39.75)
    assert session.tick(clock.now()) == []
    clock.advance(0.25)
    (job_id,) = [fire.job_id for fire in session.tick(clock.now())]
    job = session.get_job(job_id)
    assert job is not None
    assert (job.queue, job.payload, job.priority, job.max_attempts) == ("q", '"p"', 2, 5)
    assert (job.run_at, job.expires_at) == (NEXT_MINUTE, NEXT_MINUTE + 60)
    schedule = session.get_schedule("s")
    assert schedule is not None
    assert (schedule.last_fire_at, schedule.next_fire_at) == (NEXT_MINUTE, NEXT_MINUTE + 60)


@pytest.mark.guarantee("G13")
def test_a_due_time_fires_once_however_many_tick(backend: Backend, storage: Storage, clock: FakeClock) -> None:
    with storage.transaction() as session:
        register(session)
    clock.advance(40)
    fired: list[Fire] = []
    for client in (storage, backend.open(), storage):
        with client.transaction() as session:
            fired += session.tick(clock.now())
    assert [fire[:3] for fire in fired] == [("s", "q", NEXT_MINUTE)]


def test_what_is_due_first_fires_first(session: Session, clock: FakeClock) -> None:
    register(session, "b", "@every 50s")
    register(session, "a", "@every 50s")
    register(session, "c")
    clock.advance(50)
    assert [fire.name for fire in session.tick(clock.now())] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("missed", "late_by", "fired"),
    [
        ("all", 7_260, [NEXT_HOUR, NEXT_HOUR + 3_600, NEXT_HOUR + 7_200]),
        ("one", 7_260, [NEXT_HOUR + 7_200]),
        ("one", 7_261, [NEXT_HOUR + 7_200]),
        ("skip", 7_260, [NEXT_HOUR + 7_200]),
        ("skip", 7_261, []),
    ],
)
def test_missed_fires_follow_the_policy(
    session: Session, clock: FakeClock, missed: str, late_by: float, fired: list[int]
) -> None:
    register(session, expr="0 * * * *", missed=missed)
    clock.advance(2_800 + late_by)
    assert fires(session, clock) == fired
    assert next_fire(session) == NEXT_HOUR + 10_800


def test_no_more_than_64_missed_fires_are_made_up_for(session: Session, clock: FakeClock) -> None:
    register(session)
    clock.advance(40 + 60 * 100)
    assert fires(session, clock) == [NEXT_MINUTE + 60 * number for number in range(64)]
    assert next_fire(session) == NEXT_MINUTE + 60 * 101
    assert fires(session, clock) == []


@pytest.mark.guarantee("G13")
def test_a_schedule_that_can_not_fire_is_parked_and_stops_no_other(storage: Storage, clock: FakeClock) -> None:
    with storage.transaction() as session:
        register(session, "bad")
        register(session, "good")
        # As another program may leave it.
        session.execute("UPDATE _honker_scheduler_tasks SET cron_expr = 'nonsense' WHERE name = 'bad'", ())
        clock.advance(40)
        assert [fire.name for fire in session.tick(clock.now())] == ["good"]
        bad = session.get_schedule("bad")
        assert bad is not None
        assert "nonsense" in (bad.error or "")
        assert session.next_schedule_at() == NEXT_MINUTE + 60


def test_a_parked_schedule_is_mended_by_an_update(storage: Storage, clock: FakeClock) -> None:
    with storage.transaction() as session:
        register(session)
        session.execute("UPDATE _honker_scheduler_tasks SET cron_expr = 'nonsense'", ())
        clock.advance(40)
        session.tick(clock.now())
        session.update_schedule("s", expr="* * * * *")
        clock.advance(60)
        assert fires(session, clock) == [NEXT_MINUTE + 60]


# Pause and resume


def test_a_paused_schedule_does_not_fire(session: Session, clock: FakeClock) -> None:
    register(session)
    assert [session.pause_schedule("s"), session.pause_schedule("s")] == [True, False]
    assert not session.pause_schedule("unknown")
    assert session.next_schedule_at() == 0
    clock.advance(40)
    assert session.tick(clock.now()) == []


@pytest.mark.parametrize(("paused_for", "fired"), [(30, []), (40, [NEXT_MINUTE]), (600, [NEXT_MINUTE + 540])])
def test_of_the_fires_in_a_pause_the_last_is_made_up_for(
    session: Session, clock: FakeClock, paused_for: float, fired: list[int]
) -> None:
    register(session)
    session.pause_schedule("s")
    clock.advance(paused_for)
    assert [session.resume_schedule("s"), session.resume_schedule("s")] == [True, False]
    assert fires(session, clock) == fired
    assert not session.resume_schedule("unknown")


def test_after_a_long_pause_one_fire_is_made_up_for(session: Session, clock: FakeClock) -> None:
    register(session)
    session.pause_schedule("s")
    clock.advance(40 + 60 * 1_000)
    session.resume_schedule("s")
    assert len(session.tick(clock.now())) == 1
    assert next_fire(session) == NEXT_MINUTE + 60 * 1_001
