"""doctor: each finding, provoked for real."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock
from tests.cli.conftest import Run

DATABASE = ".brant.db"
LONG_AGO = 1_600_000_000


def problems(brant_command: Run) -> list[str]:
    examined = brant_command("doctor", "--json")
    found: dict[str, Any] = json.loads(examined.stdout)
    assert examined.returncode == (1 if found["problems"] else 0)
    assert found["ok"] is (not found["problems"])
    told: list[str] = found["problems"]
    return told


def test_a_healthy_database(brant_command: Run, store: brant.Database, tmp_path: Path) -> None:
    store.queue("q").write("x")
    examined = brant_command("doctor")
    assert (examined.returncode, examined.stderr) == (0, "")
    lines = examined.stdout.splitlines()
    assert f"brant: {brant.__version__}" in lines
    assert f"path: {tmp_path / DATABASE}" in lines
    assert f"sqlite version: {sqlite3.sqlite_version}" in lines
    assert lines[-1] == "ok"
    assert problems(brant_command) == []


@pytest.mark.skipif(sqlite3.sqlite_version_info >= (3, 51, 3), reason="this SQLite has no race to warn of")
def test_an_old_sqlite_is_warned_of(brant_command: Run, store: brant.Database) -> None:
    (warning,) = json.loads(brant_command("doctor", "--json").stdout)["warnings"]
    assert warning.startswith(f"SQLite {sqlite3.sqlite_version} has a rare race")
    assert f"warning: {warning}" in brant_command("doctor").stdout


def test_no_database(brant_command: Run, tmp_path: Path) -> None:
    refused = brant_command("doctor")
    assert (refused.returncode, refused.stdout) == (1, "")
    told = f"brant: error: there is no database at {tmp_path / DATABASE}; write to it, or make one with 'brant init'\n"
    assert refused.stderr == told
    assert list(tmp_path.iterdir()) == []


def test_no_database_at_all_in_a_file(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("notes " * 1000)
    refused = brant_command("doctor")
    assert refused.returncode == 1
    assert "no SQLite database" in refused.stderr


def test_a_damaged_page(brant_command: Run, tmp_path: Path) -> None:
    with brant.open(tmp_path / DATABASE) as store:
        store.queue("q").write_many(["x" * 1000] * 200)
    with (tmp_path / DATABASE).open("r+b") as file:
        file.seek(-20 * 4096, 2)
        file.write(b"\xff" * 4096)
    found = problems(brant_command)
    assert found[0].startswith("the file is damaged: ")
    assert "restore a backup, or save what can be read with 'brant dump'" in found[0]
    assert f"problem: {found[0]}" in brant_command("doctor").stdout


def test_a_snapshot_that_is_kept_open(brant_command: Run, store: brant.Database, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM _honker_live").fetchall()
        for _ in range(8):
            store.queue("q").write("x" * 9_000_000)
        large, pinned = problems(brant_command)
    assert large.startswith("the write-ahead log has ")
    assert pinned.startswith("a connection keeps an old snapshot open, so that the log can't be emptied")
    assert problems(brant_command) == []


def test_a_clock_that_was_set_back(brant_command: Run, tmp_path: Path) -> None:
    with brant.open(tmp_path / DATABASE, clock=FakeClock(time.time() + 3600)) as ahead:
        ahead.queue("q").write("x")
    (found,) = problems(brant_command)
    assert found.startswith("the newest id is 3")
    assert found.endswith("s in the future: the clock was set back; ids go on from there")


def test_leases_that_nobody_takes_over(brant_command: Run, tmp_path: Path) -> None:
    with brant.open(tmp_path / DATABASE, clock=FakeClock(LONG_AGO)) as past:
        past.queue("mail").enqueue_many([1, 2, 3])
        assert len(past.queue("mail").claim_batch("w", 2)) == 2
    told = "2 jobs of the queue 'mail' have a lease that ran out, and nobody claims them: start a worker"
    assert problems(brant_command) == [told]


def test_schedules_that_nobody_runs(brant_command: Run, tmp_path: Path) -> None:
    with brant.open(tmp_path / DATABASE, clock=FakeClock(LONG_AGO)) as past:
        past.scheduler().add(name="nightly", queue="mail", schedule="0 3 * * *", payload=1)
    told = "the schedule 'nightly' is overdue: no scheduler runs; start one with 'brant schedule run'"
    assert problems(brant_command) == [told]


def test_schedules_that_feed_a_queue_which_nobody_empties(brant_command: Run, store: brant.Database) -> None:
    store.scheduler().add(name="often", queue="mail", schedule="0 3 1 1 *", payload=1)
    store.queue("mail").enqueue_many(range(1001))
    told = "the schedule 'often' feeds the queue 'mail', where 1001 jobs wait: nobody takes them"
    assert problems(brant_command) == [told]


def test_a_schedule_that_can_not_be_read(brant_command: Run, store: brant.Database) -> None:
    scheduler = store.scheduler()
    scheduler.add(name="broken", queue="mail", schedule="0 3 * * *", payload=1)
    with store.transaction() as tx:
        tx.execute("UPDATE _honker_scheduler_tasks SET cron_expr = 'at noon', next_fire_at = 1")
    assert scheduler.tick() == []
    assert problems(brant_command) == ["the schedule 'broken' is parked; update or re-add it"]
