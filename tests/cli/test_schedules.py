"""schedule: added, listed, changed and fired in the shell."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.cli.conftest import Run
from tests.cli.processes import running
from tests.waiting import PATIENCE_S


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    """The database that the command finds in its directory."""
    with brant.open(tmp_path / ".brant.db") as database:
        yield database


@pytest.fixture
def scheduler(db: brant.Database) -> brant.Scheduler:
    return db.scheduler()


def added_in_the_past(path: Path, name: str, *, seconds_ago: int) -> None:
    """A schedule of once an hour whose first hour was over that many seconds ago."""
    with brant.open(path, clock=FakeClock(int(time.time()) - seconds_ago - 3600)) as past:
        past.scheduler().add(name=name, queue="q", schedule=brant.every_s(3600), payload={"from": name})


# add, list


def test_add_takes_every_option(brant_command: Run, scheduler: brant.Scheduler) -> None:
    when = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin")
    job = ("--payload", '{"a": "é"}', "--priority", "-5", "--expires", "60", "--max-attempts", "7", "--missed", "one")
    done = brant_command("schedule", "add", "nightly", "--queue", "q", *when, *job)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("Scheduled 'nightly': next at 2")
    (added,) = scheduler.schedules()
    assert (added.name, added.queue, added.cron_expr, added.tz) == ("nightly", "q", "30 2 * * *", "Europe/Berlin")
    assert (added.payload, added.priority, added.expires_s) == ({"a": "é"}, -5, 60)
    assert (added.max_attempts, added.missed, added.enabled) == (7, "one", True)


def test_add_an_interval_to_an_alias_with_defaults_and_replace_it(
    brant_command: Run, db: brant.Database, scheduler: brant.Scheduler
) -> None:
    db.add_alias("short", "q")
    assert brant_command("-q", "schedule", "add", "s", "--queue", "@short", "--every", "90").stderr == ""
    (added,) = scheduler.schedules()
    assert (added.queue, added.cron_expr, added.tz, added.payload) == ("q", "@every 90s", None, None)
    assert (added.priority, added.expires_s, added.max_attempts, added.missed) == (0, None, 3, "all")
    brant_command("schedule", "add", "s", "--queue", "q", "--cron", "@daily")
    assert [schedule.cron_expr for schedule in scheduler.schedules()] == ["@daily"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--queue", "q"), "--cron --every"),
        (("--queue", "q", "--cron", "@daily", "--every", "5"), "not allowed with"),
        (("--cron", "@daily"), "--queue"),
        (("--queue", "q", "--cron", "61 * * * *"), "invalid schedule"),
        (("--queue", "q", "--cron", "@daily", "--tz", "Mars/Olympus"), "Mars/Olympus"),
        (("--queue", "q", "--every", "5", "--tz", "UTC"), "--tz belongs to --cron"),
        (("--queue", "q", "--every", "0"), "at least 1"),
        (("--queue", "q", "--every", "5", "--payload", "nope"), "--payload is not JSON"),
        (("--queue", "no queue", "--every", "5"), "Invalid queue name"),
        (("--queue", "q", "--every", "5", "--missed", "some"), "some"),
    ],
)
def test_a_bad_schedule_is_one_line_and_exit_1(
    brant_command: Run, scheduler: brant.Scheduler, words: tuple[str, ...], hint: str
) -> None:
    done = brant_command("schedule", "add", "s", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: ")
    assert hint in done.stderr
    assert done.stderr.count("\n") == 1
    assert scheduler.schedules() == []


def test_list_shows_when_each_fires_next_and_what_is_wrong(
    brant_command: Run, db: brant.Database, scheduler: brant.Scheduler
) -> None:
    assert brant_command("schedule", "list").stdout == ""
    scheduler.add(name="a", queue="q", schedule=brant.crontab("30 2 * * *", "Europe/Berlin"))
    scheduler.add(name="b", queue="p", schedule=brant.every_s(7300))
    scheduler.add(name="broken", queue="q", schedule=brant.every_s(60))
    scheduler.pause("a")
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_scheduler_tasks SET cron_expr = 'nonsense', next_fire_at = 0 WHERE name = 'broken'")
    scheduler.tick()
    done = brant_command("schedule", "list", TZ="Asia/Tokyo")
    assert (done.returncode, done.stderr) == (0, "")
    a, b, broken = (line.split("\t") for line in done.stdout.splitlines())
    assert (*a[:4], *a[5:]) == ("a", "30 2 * * *", "Europe/Berlin", "q", "no", "")
    assert (*b[:4], *b[5:]) == ("b", "@every 7300s", "local", "p", "yes", "")
    assert "nonsense" in broken[6]
    shown, _, relative = b[4].partition(" (")
    assert shown.endswith("+09:00")
    assert datetime.fromisoformat(shown).timestamp() == scheduler.schedules()[1].next_fire_at
    assert relative == "in 2 h)"


def test_list_as_json(brant_command: Run, scheduler: brant.Scheduler) -> None:
    scheduler.add(name="a", queue="q", schedule=brant.every_s(60), payload={"x": "é"}, missed="one")
    (line,) = brant_command("schedule", "list", "--json").stdout.splitlines()
    assert json.loads(line) == vars(scheduler.schedules()[0])
    assert '"é"' in line


# pause, resume, remove


def test_pause_resume_and_remove_tell_by_the_exit_code_whether_anything_changed(
    brant_command: Run, scheduler: brant.Scheduler
) -> None:
    scheduler.add(name="s", queue="q", schedule=brant.every_s(60))
    steps = [
        ("resume", 2, "The schedule 's' is not paused\n"),
        ("pause", 0, "Paused 's'\n"),
        ("pause", 2, "The schedule 's' is paused already\n"),
        ("resume", 0, "Resumed 's'\n"),
        ("remove", 0, "Removed 's'\n"),
        ("remove", 2, "There is no schedule 's'\n"),
        ("pause", 2, "There is no schedule 's'\n"),
    ]
    for action, code, told in steps:
        done = brant_command("schedule", action, "s")
        assert (action, done.returncode, done.stdout, done.stderr) == (action, code, "", told)
    assert scheduler.schedules() == []


def test_pause_holds_until_resume(brant_command: Run, scheduler: brant.Scheduler) -> None:
    scheduler.add(name="s", queue="q", schedule=brant.every_s(60))
    assert brant_command("-q", "schedule", "pause", "s").stderr == ""
    assert not scheduler.schedules()[0].enabled
    brant_command("schedule", "resume", "s")
    assert scheduler.schedules()[0].enabled


# run


def test_once_fires_what_is_due_and_prints_it(brant_command: Run, tmp_path: Path, db: brant.Database) -> None:
    added_in_the_past(tmp_path / ".brant.db", "due", seconds_ago=10)
    added_in_the_past(tmp_path / ".brant.db", "not yet", seconds_ago=-600)
    due_at = next(schedule.next_fire_at for schedule in db.scheduler().schedules() if schedule.name == "due")
    done = brant_command("schedule", "run", "--once", TZ="UTC")
    job = db.queue("q").claim_one("w")
    assert job is not None
    assert job.payload == {"from": "due"}
    assert done.returncode == 0
    name, queue, fired_at, job_id = done.stdout.removesuffix("\n").split("\t")
    assert (name, queue, int(job_id)) == ("due", "q", job.id)
    assert datetime.fromisoformat(fired_at).timestamp() == due_at
    done = brant_command("schedule", "run", "--once")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_run_fires_until_a_signal_and_leaves_the_lead(
    brant_command: Run, tmp_path: Path, db: brant.Database, stop: int
) -> None:
    brant_command("schedule", "add", "s", "--queue", "q", "--every", "1", "--payload", '"tick"')
    jobs = db.queue("q").claim("w")
    with running(tmp_path, "schedule", "run") as scheduling:
        assert scheduling.error_line() == "Starting the scheduler, with 1 schedules..."
        fired = [jobs.get(PATIENCE_S) for _ in range(2)]
        assert [job and job.payload for job in fired] == ["tick", "tick"]
        second = brant_command("schedule", "run")
        assert second.returncode == 1
        assert second.stderr.splitlines()[-1].startswith("brant: error: another scheduler holds the lock")
        assert scheduling.stopped_by(stop) == 0
        assert (scheduling.line(), scheduling.error_line()) == ("", "")
    with db.lock(brant.Scheduler.LOCK_NAME):
        pass


def test_run_without_schedules_is_an_error(brant_command: Run) -> None:
    done = brant_command("schedule", "run")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "brant: error: there are no schedules; add one with 'brant schedule add'\n"
