"""top: what is in the database, once or again and again, for people and for programs."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.cli.processes import Running, running
from tests.waiting import PATIENCE_S, in_thread

LONG_AGO = 1_700_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    """The database that the command finds in its directory."""
    with brant.open(tmp_path / ".brant.db") as database:
        yield database


def fill(db: brant.Database) -> None:
    emails = db.queue("emails")
    emails.enqueue_many(range(5))
    emails.enqueue("later", delay=3600)
    for job in emails.claim_batch("w", 2):
        if job.payload == 0:
            job.fail("no")
    db.queue("reports").pause()
    db.queue("reports").enqueue("x")
    db.scheduler().add(name="nightly", queue="reports", schedule="@every 2h")
    orders = db.stream("orders")
    orders.publish_many([1, 2, 3])
    orders.save_offset("billing", 1)


def test_json_has_everything(db: brant.Database, brant_command: Run) -> None:
    fill(db)
    done = brant_command("top", "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    look = json.loads(done.stdout)
    emails, reports = look["queues"]
    assert emails.pop("oldest_age_s") >= 0
    assert emails == {
        "queue": "emails",
        "paused": False,
        "pending": 4,
        "delayed": 1,
        "processing": 1,
        "dead": 1,
        "enqueued_per_s": None,
        "finished_per_s": None,
        "rates_are_exact": None,
    }
    (running,) = look["running"]
    assert 290 < running.pop("lease_left_s") <= 301
    assert running.pop("job_id") > 1_700_000_000_000_000
    assert running == {"worker": "w", "queue": "emails", "task": None, "attempt": 1, "max_attempts": 3}
    assert (reports["queue"], reports["paused"], reports["pending"]) == ("reports", True, 1)
    (nightly,) = look["schedules"]
    assert (nightly["schedule"], nightly["queue"], nightly["error"]) == ("nightly", "reports", None)
    assert 7000 < nightly["next_fire_at"] - look["at"] <= 7201
    assert look["streams"] == [{"stream": "orders", "head": 3, "consumers": [{"consumer": "billing", "lag": 2}]}]


def test_the_tables_say_the_same_to_people(db: brant.Database, brant_command: Run) -> None:
    fill(db)
    done = brant_command("top", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0][1:] == ["queues:", "2", "running:", "1", "streams:", "1"]
    assert rows[2] == ["QUEUE", "PENDING", "DELAYED", "RUNNING", "DEAD", "OLDEST", "IN/S", "OUT/S"]
    assert rows[3][:5] == ["emails", "4", "1", "1", "1"]
    assert rows[4][:3] == ["reports", "(paused)", "1"]
    assert rows[6] == ["WORKER", "QUEUE", "TASK", "TRY", "LEASE"]
    assert (rows[7][:3], rows[7][4:]) == (["w", "emails", "job"], ["1/3", "4", "min"])
    assert rows[9] == ["SCHEDULE", "QUEUE", "NEXT"]
    assert rows[10] == ["nightly", "reports", "in", "1", "h"]
    assert rows[12] == ["STREAM", "CONSUMER", "HEAD", "LAG"]
    assert rows[13] == ["orders", "billing", "3", "2"]


def test_no_line_is_wider_than_a_terminal(tmp_path: Path, brant_command: Run) -> None:
    with brant.open(tmp_path / ".brant.db", clock=FakeClock(LONG_AGO)) as db:
        name = "n" * 100
        db.queue(name).enqueue_many([{"__honker_task__": {"task": name}}] * 1000)
        db.queue(name).claim_batch(name, 21, 10**9)
        db.queue(name).pause()
        db.scheduler().add(name=name, queue=name, schedule="@every 2h")
        db.stream(name).publish(1)
        db.stream(name).save_offset(name, 1)
    lines = brant_command("top", "--once").stdout.splitlines()
    assert max(map(len, lines)) == 80
    assert sum("…" in line for line in lines) == 1 + 20 + 1 + 1
    assert "and 1 more" in lines


def test_an_empty_database_is_no_error(brant_command: Run) -> None:
    done = brant_command("top", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[1:] == ["queues:", "0", "running:", "0", "streams:", "0"]


def test_a_stream_that_nobody_reads_and_a_schedule_that_is_off(db: brant.Database, brant_command: Run) -> None:
    db.stream("orders").publish(1)
    db.scheduler().add(name="off", queue="q", schedule="@every 1h")
    db.scheduler().pause("off")
    done = brant_command("top", "--once")
    assert "SCHEDULE" not in done.stdout
    assert done.stdout.splitlines()[-2].split() == ["orders", "-", "1", "-"]


class Looks:
    """The looks of a running `top`, of the queue `emails`."""

    def __init__(self, top: Running) -> None:
        self._top = top

    def next(self) -> dict[str, Any]:
        look: dict[str, Any] = json.loads(self._top.line())["queues"][0]
        return look

    def until(self, **facts: object) -> list[dict[str, Any]]:
        """All up to the first that has these numbers."""
        seen = [self.next()]
        while not seen[-1].items() >= facts.items():
            seen.append(self.next())
        return seen


def came_and_went(looks: list[dict[str, Any]]) -> tuple[bool, bool]:
    return any(look["enqueued_per_s"] > 0 for look in looks), any(look["finished_per_s"] > 0 for look in looks)


def test_it_looks_again_until_it_is_stopped_and_tells_what_came_and_what_went(
    tmp_path: Path, db: brant.Database
) -> None:
    emails = db.queue("emails")
    emails.enqueue(0)
    with running(tmp_path, "top", "--interval", "0.05", "--json") as top:
        looks = Looks(top)
        assert looks.next()["enqueued_per_s"] is None
        emails.enqueue_many(range(10))
        assert came_and_went(looks.until(pending=11)) == (True, False)
        jobs = emails.claim_batch("w", 11)
        assert came_and_went(looks.until(processing=11)) == (False, False)
        emails.ack_batch([job.id for job in jobs], "w")
        assert came_and_went(looks.until(processing=0)) == (False, True)
        assert top.stopped_by(signal.SIGTERM) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_long_pause(number: int, tmp_path: Path, db: brant.Database) -> None:
    with running(tmp_path, "top", "--interval", "3600", "--json") as top:
        top.line()
        assert top.stopped_by(number) == 0


def test_an_interval_of_nothing_is_refused(brant_command: Run) -> None:
    done = brant_command("top", "--interval", "0")
    assert done.returncode == 1
    assert done.stderr == ("brant: error: argument --interval: must be more than 0 seconds; see brant top --help\n")


def test_a_terminal_shows_a_live_screen(tmp_path: Path, db: brant.Database) -> None:
    pytest.importorskip("rich")
    fill(db)
    ours, theirs = pty.openpty()
    environment = clean_environment(TERM="xterm-256color", COLUMNS="80", LINES="24")
    with subprocess.Popen(
        [COMMAND, "top", "--interval", "0.05"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env=environment,
    ) as process:
        os.close(theirs)
        shown = ""
        try:
            while shown.count("billing") < 2:  # the second look has replaced the first
                shown += in_thread(os.read, ours, 65536).result(PATIENCE_S).decode()
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            os.close(ours)
    assert "\x1b[?1049h" in shown  # a screen of its own: what was on the terminal comes back
