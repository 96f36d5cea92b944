"""Schedules: registering, changing, pausing, and what a tick enqueues."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest

import brant
from brant.schedule import Schedule
from brant.testing import FakeClock, pending_payloads
from tests.waiting import PATIENCE_S, in_thread, write_lock_held

pytestmark = pytest.mark.both_backends

START = 1_700_000_000  # a Tuesday, 22:13:20 UTC
MINUTE = START + 40  # the next full one
EVERY_MINUTE = brant.crontab("* * * * *", tz="UTC")


@pytest.fixture
def scheduler(timed: brant.Database) -> brant.Scheduler:
    return timed.scheduler()


def _only(scheduler: brant.Scheduler) -> Schedule:
    (schedule,) = scheduler.schedules()
    return schedule


def _fired(scheduler: brant.Scheduler) -> list[int]:
    return [fire.fire_at for fire in scheduler.tick()]


def test_a_schedule_is_stored_as_it_was_added(scheduler: brant.Scheduler) -> None:
    scheduler.add(
        name="report", queue="q", schedule=EVERY_MINUTE, payload={"a": 1}, priority=5, expires=30, max_attempts=7,
        missed="one",
    )  # fmt: skip
    assert _only(scheduler) == Schedule(
        name="report", queue="q", cron_expr="* * * * *", payload={"a": 1}, priority=5, expires_s=30,
        next_fire_at=MINUTE, enabled=True, max_attempts=7, tz="UTC", missed="one", last_fire_at=None, error=None,
    )  # fmt: skip


def test_the_defaults_are_honker_s(scheduler: brant.Scheduler) -> None:
    scheduler.add(name="n", queue="q", schedule="@every 10s")
    (row,) = scheduler.list()
    assert row | {
        "name": "n", "queue": "q", "cron_expr": "@every 10s", "payload": "null", "priority": 0, "expires_s": None,
        "next_fire_at": START + 10, "enabled": True, "max_attempts": 3, "missed": "all",
    } == row  # fmt: skip


def test_schedules_are_listed_by_name(scheduler: brant.Scheduler) -> None:
    for name in ("b", "c", "a"):
        scheduler.add(name=name, queue="q", schedule=brant.every_s(5))
    assert [schedule.name for schedule in scheduler.schedules()] == ["a", "b", "c"]
    assert [row["name"] for row in scheduler.list()] == ["a", "b", "c"]


def test_a_payload_of_another_program_that_is_not_json_is_shown_as_text(
    timed: brant.Database, scheduler: brant.Scheduler
) -> None:
    with timed.transaction() as tx:
        tx.query("SELECT honker_scheduler_register('theirs', 'q', '@every 5s', 'not JSON', 0, NULL)")
    assert _only(scheduler).payload == "not JSON"


def test_a_tick_enqueues_what_is_due_and_tells_so(
    timed: brant.Database, scheduler: brant.Scheduler, clock: FakeClock
) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE, payload="hi", priority=4, expires=90, max_attempts=2)
    clock.advance(39)
    assert scheduler.tick() == []
    clock.advance(1)
    (fire,) = scheduler.tick()
    job = timed.queue("q").claim_one("worker")
    assert job is not None
    assert (fire.name, fire.queue, fire.fire_at, fire.job_id) == ("n", "q", MINUTE, job.id)
    assert (job.payload, job.priority, job.max_attempts, job.run_at) == ("hi", 4, 2, MINUTE)
    assert job.expires_at == MINUTE + 90
    assert (_only(scheduler).next_fire_at, _only(scheduler).last_fire_at) == (MINUTE + 60, MINUTE)
    assert scheduler.tick() == []


def test_the_attempts_are_the_schedule_s_not_the_queue_s(
    timed: brant.Database, scheduler: brant.Scheduler, clock: FakeClock
) -> None:
    queue = timed.queue("q", max_attempts=10)
    scheduler.add(name="n", queue="q", schedule=brant.every_s(5))
    clock.advance(5)
    scheduler.tick()
    job = queue.claim_one("worker")
    assert job is not None
    assert job.max_attempts == 3


@pytest.mark.parametrize(
    ("late", "fired"), [(0, 1), (59, 1), (60, 2), (63 * 60, 64), (64 * 60, 64), (10_000 * 60 + 5, 64)]
)
def test_missed_fires_are_made_up_for_up_to_64(
    scheduler: brant.Scheduler, clock: FakeClock, late: int, fired: int
) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    clock.advance(40 + late)
    assert _fired(scheduler) == [MINUTE + 60 * number for number in range(fired)]
    assert _only(scheduler).next_fire_at == MINUTE + (late // 60 + 1) * 60
    assert _fired(scheduler) == []


@pytest.mark.parametrize("late", [0, 5, 59, 60, 61, 90, 30 * 60 + 5, 64 * 60, 200 * 60 + 5, 100_000 * 60 + 59])
@pytest.mark.parametrize("missed", ["one", "skip"])
def test_the_other_policies_fire_the_newest_boundary_only(
    scheduler: brant.Scheduler, clock: FakeClock, missed: Literal["one", "skip"], late: int
) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE, missed=missed)
    clock.advance(40 + late)
    assert _fired(scheduler) == [MINUTE + late // 60 * 60]
    assert _only(scheduler).next_fire_at == MINUTE + (late // 60 + 1) * 60


@pytest.mark.parametrize(("late", "fired"), [(0, 1), (60, 1), (61, 0), (3599, 0), (3600, 1), (200 * 3600 + 61, 0)])
def test_skip_fires_nothing_that_is_more_than_a_minute_late(
    scheduler: brant.Scheduler, clock: FakeClock, late: int, fired: int
) -> None:
    scheduler.add(name="n", queue="q", schedule=brant.crontab("@hourly", tz="UTC"), missed="skip")
    clock.advance(_only(scheduler).next_fire_at - START + late)
    assert len(_fired(scheduler)) == fired
    assert _only(scheduler).next_fire_at > clock.now()


def test_an_interval_keeps_its_step_while_all_fires_are_made_up_for(
    scheduler: brant.Scheduler, clock: FakeClock
) -> None:
    scheduler.add(name="n", queue="q", schedule=brant.every_s(10))
    clock.advance(35)
    assert _fired(scheduler) == [START + 10, START + 20, START + 30]
    assert _only(scheduler).next_fire_at == START + 40


@pytest.mark.parametrize("hours", [10, 63, 64, 65, 100, 10_000])
@pytest.mark.parametrize(
    ("missed", "late", "fires"),
    [("one", 0, True), ("one", 1800, True), ("skip", 60, True), ("skip", 1800, False)],
)
def test_an_interval_keeps_its_step_over_any_absence(
    scheduler: brant.Scheduler, clock: FakeClock, missed: Literal["one", "skip"], hours: int, late: int, fires: bool
) -> None:
    scheduler.add(name="n", queue="q", schedule=brant.every("1h"), missed=missed)
    clock.advance(hours * 3600 + late)
    assert _fired(scheduler) == ([START + hours * 3600] if fires else [])
    assert _only(scheduler).next_fire_at == START + (hours + 1) * 3600


def test_an_interval_keeps_its_step_where_not_all_fires_are_made_up_for(
    scheduler: brant.Scheduler, clock: FakeClock
) -> None:
    scheduler.add(name="n", queue="q", schedule=brant.every("1h"))
    clock.advance(100 * 3600 + 1800)
    assert _fired(scheduler) == [START + number * 3600 for number in range(1, 65)]
    assert _only(scheduler).next_fire_at == START + 101 * 3600


@pytest.mark.parametrize("hours", [10, 64, 65, 100, 10_000])
def test_an_interval_keeps_its_step_over_any_pause(scheduler: brant.Scheduler, clock: FakeClock, hours: int) -> None:
    scheduler.add(name="n", queue="q", schedule=brant.every("1h"))
    scheduler.pause("n")
    clock.advance(hours * 3600 + 1800)
    scheduler.resume("n")
    assert _fired(scheduler) == [START + hours * 3600]
    assert _only(scheduler).next_fire_at == START + (hours + 1) * 3600


@pytest.mark.guarantee("G13")
def test_re_adding_unchanged_keeps_the_next_fire(path: Path, clock: FakeClock) -> None:
    for restart in range(4):
        with brant.open(path, clock=clock) as db:
            scheduler = db.scheduler()
            scheduler.add(name="hourly", queue="q", schedule=brant.every_s(3600), payload=restart)
            assert _only(scheduler).next_fire_at == START + 3600
            assert _only(scheduler).payload == restart
        clock.advance(1800)
    with brant.open(path, clock=clock) as db:
        db.scheduler().add(name="hourly", queue="q", schedule=brant.every_s(3600))
        assert _fired(db.scheduler()) == [START + 3600, START + 7200]


@pytest.mark.parametrize("schedule", [brant.every_s(61), brant.crontab("* * * * *", tz="Asia/Kolkata")])
def test_re_adding_with_other_times_starts_from_now(
    scheduler: brant.Scheduler, clock: FakeClock, schedule: brant.CronSchedule
) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    clock.advance(600)
    scheduler.add(name="n", queue="q", schedule=schedule)
    assert _only(scheduler).next_fire_at == schedule.next_fire(clock.now())
    assert _only(scheduler).tz == schedule.tz


def test_re_adding_does_not_end_a_pause(scheduler: brant.Scheduler) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    scheduler.pause("n")
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    assert not _only(scheduler).enabled


def test_a_removed_schedule_fires_no_more(scheduler: brant.Scheduler, clock: FakeClock) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    assert scheduler.remove("n") is True
    assert scheduler.remove("n") is False
    clock.advance(600)
    assert _fired(scheduler) == []


def test_pause_and_resume_tell_whether_they_changed_anything(scheduler: brant.Scheduler) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    assert [scheduler.pause("n"), scheduler.pause("n"), scheduler.pause("unknown")] == [True, False, False]
    assert [scheduler.resume("n"), scheduler.resume("n"), scheduler.resume("unknown")] == [True, False, False]


@pytest.mark.parametrize("paused_for", [30, 60, 65, 30 * 60 + 5, 64 * 60, 100 * 60, 5000 * 60 + 59])
@pytest.mark.parametrize("missed", ["all", "one"])
def test_resume_fires_the_last_overdue_boundary_once(
    scheduler: brant.Scheduler, clock: FakeClock, missed: Literal["all", "one"], paused_for: int
) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE, missed=missed)
    scheduler.pause("n")
    clock.advance(paused_for)
    assert _fired(scheduler) == []
    scheduler.resume("n")
    last = int(clock.now()) // 60 * 60
    assert _fired(scheduler) == ([last] if last >= MINUTE else [])
    assert _only(scheduler).next_fire_at == last + 60


@pytest.mark.parametrize(
    ("change", "column", "value"),
    [
        ({"schedule": "@every 5s"}, "cron_expr", "@every 5s"),
        ({"payload": None}, "payload", "null"),
        ({"payload": {"b": 2}}, "payload", '{"b": 2}'),
        ({"priority": 9}, "priority", 9),
        ({"priority": 0}, "priority", 0),
        ({"expires": None}, "expires_s", None),
        ({"expires": 60}, "expires_s", 60),
        ({"max_attempts": None}, "max_attempts", 3),
        ({"max_attempts": 9}, "max_attempts", 9),
        ({"missed": "skip"}, "missed", "skip"),
    ],
)
def test_update_changes_what_is_given_and_nothing_else(
    scheduler: brant.Scheduler, clock: FakeClock, change: dict[str, Any], column: str, value: object
) -> None:
    scheduler.add(
        name="n", queue="q", schedule=EVERY_MINUTE, payload="old", priority=5, expires=30, max_attempts=7, missed="one"
    )
    (before,) = scheduler.list()
    clock.advance(600)
    assert scheduler.update("n", **change) is True
    (after,) = scheduler.list()
    assert after[column] == value
    changed = {key for key in after if after[key] != before[key]}
    assert changed <= ({column} if column != "cron_expr" else {"cron_expr", "tz", "next_fire_at"})


def test_update_with_other_times_starts_from_now(scheduler: brant.Scheduler, clock: FakeClock) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    clock.advance(600)
    scheduler.update("n", schedule=brant.every_s(7))
    assert _only(scheduler).next_fire_at == clock.now() + 7


def test_update_of_nothing_or_of_nobody_is_false(scheduler: brant.Scheduler) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    assert scheduler.update("n") is False
    assert scheduler.update("unknown", priority=1) is False


BAD: list[dict[str, Any]] = [
    {"schedule": "61 * * * *"},
    {"schedule": "never"},
    {"schedule": 60},
    {"priority": "high"},
    {"priority": 1.5},
    {"expires": "soon"},
    {"expires": float("nan")},
    {"max_attempts": 0},
    {"max_attempts": "many"},
    {"missed": "maybe"},
    {"payload": object()},
]


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("bad", BAD)
def test_what_can_not_be_scheduled_is_refused_and_nothing_changes(
    scheduler: brant.Scheduler, clock: FakeClock, bad: dict[str, Any]
) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    before = scheduler.list()
    good: dict[str, Any] = {"name": "other", "queue": "q", "schedule": EVERY_MINUTE}
    with pytest.raises((brant.InvalidValue, TypeError)):
        scheduler.add(**good | bad)
    with pytest.raises((brant.InvalidValue, TypeError)):
        scheduler.update("n", **bad)
    assert scheduler.list() == before
    clock.advance(40)
    assert _fired(scheduler) == [MINUTE]


@pytest.mark.parametrize("names", [{"name": ""}, {"name": "a\nb"}, {"queue": ""}, {"queue": 5}])
def test_bad_names_are_refused(scheduler: brant.Scheduler, names: dict[str, Any]) -> None:
    good: dict[str, Any] = {"name": "n", "queue": "q", "schedule": EVERY_MINUTE}
    with pytest.raises(brant.InvalidValue):
        scheduler.add(**good | names)
    assert scheduler.list() == []


def _break(column: str, value: object) -> Callable[[brant.Database], None]:
    def breaking(db: brant.Database) -> None:
        with db.transaction() as tx:
            tx.execute(f"UPDATE _honker_scheduler_tasks SET {column} = ? WHERE name = 'bad'", [value])

    return breaking


@pytest.mark.guarantee("G13")
@pytest.mark.parametrize(
    "breaking",
    [
        _break("cron_expr", "not a schedule"),
        _break("cron_expr", "0 0 31 2 *"),
        pytest.param(_break("expires_s", "soon"), marks=pytest.mark.files_only("a server's columns have types")),
        _break("next_fire_at", -(10**18)),
    ],
)
def test_a_bad_row_is_parked_with_its_error_and_the_others_fire(
    timed: brant.Database, scheduler: brant.Scheduler, clock: FakeClock, breaking: Callable[[brant.Database], None]
) -> None:
    for name in ("bad", "good"):
        scheduler.add(name=name, queue="q", schedule=EVERY_MINUTE, payload=name)
    breaking(timed)
    clock.advance(40)
    assert [fire.name for fire in scheduler.tick()] == ["good"]
    assert pending_payloads(timed.queue("q")) == ["good"]
    bad, good = scheduler.schedules()
    assert bad.error
    assert good.error is None
    assert any("'bad'" in problem for problem in timed.health().problems)
    scheduler.add(name="bad", queue="q", schedule=EVERY_MINUTE)
    clock.advance(60)
    assert [fire.name for fire in scheduler.tick()] == ["bad", "good"]
    assert timed.health().ok


@pytest.mark.guarantee("G13")
def test_ten_threads_ticking_one_boundary_fire_once(
    timed: brant.Database, scheduler: brant.Scheduler, clock: FakeClock
) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    clock.advance(40)
    ticks = [in_thread(timed.scheduler().tick) for _ in range(10)]
    assert sum(len(tick.result(PATIENCE_S)) for tick in ticks) == 1
    assert timed.queue("q").stats().pending == 1


@pytest.mark.guarantee("G16")
def test_schedules_take_part_in_the_callers_transaction(timed: brant.Database, scheduler: brant.Scheduler) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    before = scheduler.list()
    with pytest.raises(ZeroDivisionError), timed.transaction() as tx:
        scheduler.add(name="other", queue="q", schedule=EVERY_MINUTE, tx=tx)
        scheduler.update("n", priority=5, tx=tx)
        scheduler.pause("n", tx=tx)
        scheduler.remove("other", tx=tx)
        raise ZeroDivisionError
    assert scheduler.list() == before


@pytest.mark.guarantee("G14")
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_a_schedule_fires_once_a_night_by_its_own_zone_also_when_the_clocks_change(path: Path, zone: str) -> None:
    clock = FakeClock(datetime(2026, 10, 20, tzinfo=ZoneInfo("UTC")))
    with brant.open(path, clock=clock) as db:
        scheduler = db.scheduler()
        scheduler.add(name="nightly", queue="q", schedule=brant.crontab("30 2 * * *", tz=zone))
        nights = []
        for _ in range(20 * 24):
            clock.advance(3600)
            for fire in scheduler.tick():
                local = datetime.fromtimestamp(fire.fire_at, ZoneInfo(zone))
                assert (local.hour, local.minute) == (2, 30)
                nights.append(local.date())
        assert len(nights) == len(set(nights)) == 20


@pytest.mark.guarantee("G14")
def test_a_minute_schedule_fires_once_a_minute_through_the_hour_that_is_repeated(path: Path) -> None:
    clock = FakeClock(datetime(2026, 10, 24, 23, 30, tzinfo=ZoneInfo("UTC")))
    with brant.open(path, clock=clock) as db:
        scheduler = db.scheduler()
        scheduler.add(name="minutely", queue="q", schedule=brant.crontab("* * * * *", tz="Europe/Berlin"))
        for _ in range(150):
            clock.advance(60)
            assert _fired(scheduler) == [clock.now()]


@pytest.mark.guarantee("G8")
def test_looking_at_schedules_does_not_wait_for_a_writer(scheduler: brant.Scheduler, path: Path) -> None:
    scheduler.add(name="n", queue="q", schedule=EVERY_MINUTE)
    with write_lock_held(path):
        assert len(scheduler.list()) == len(scheduler.schedules()) == 1
