"""--status, --vacuum, --cleanup, init, config, backup, bench."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.waiting import PATIENCE_S, in_thread

DATABASE = ".brant.db"


def tables(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return [name for (name,) in found if not name.startswith("sqlite_")]
    finally:
        connection.close()


# --status


def test_the_status_of_a_new_database(brant_command: Run, tmp_path: Path) -> None:
    lines = brant_command("--status").stdout.splitlines()
    assert lines[:2] == ["total_messages: 0", "last_timestamp: 0"]
    assert lines[2].startswith("db_size: ")
    size = (tmp_path / DATABASE).stat().st_size
    assert brant_command("--status", "--json").stdout == (
        f'{{"total_messages": 0, "last_timestamp": 0, "db_size": {size}}}\n'
    )


def test_the_status_counts_claims_and_remembers_the_last_id(brant_command: Run, store: brant.Database) -> None:
    queue = store.queue("q")
    queue.write_many(["a", "b"])
    last = store.queue("r").write("c")
    assert queue.claim_one("w") is not None
    assert json.loads(brant_command("--status", "--json").stdout)["total_messages"] == 3
    assert brant_command("delete", "--all").returncode == 0
    found = json.loads(brant_command("--status", "--json").stdout)
    assert (found["total_messages"], found["last_timestamp"]) == (0, last)


# --vacuum


def test_vacuum_sweeps_what_has_expired_and_no_lease(brant_command: Run, tmp_path: Path) -> None:
    with brant.open(tmp_path / DATABASE, clock=FakeClock(1_600_000_000)) as past:
        past.queue("q").enqueue_many(["old"] * 3, expires=10)
    with brant.open(tmp_path / DATABASE) as store:
        store.queue("q").write("leased")
        assert store.queue("q").claim_one("w") is not None
        swept = brant_command("--vacuum")
        assert (swept.returncode, swept.stdout) == (0, "")
        assert swept.stderr.startswith("Vacuumed 3 expired messages and results in ")
        assert brant_command("--vacuum").stderr == "No claimed messages to vacuum\n"
        assert store.queue("q").stats().claimed == 1


def test_compact_gives_room_back(brant_command: Run, tmp_path: Path) -> None:
    with brant.open(tmp_path / DATABASE) as store:
        store.queue("q").write_many(["x" * 1000] * 2000)
        store.queue("q").delete()
        store.queue("q").write("stays")
    before = (tmp_path / DATABASE).stat().st_size
    done = brant_command("--vacuum", "--compact")
    assert done.returncode == 0
    assert [line.split(" in ")[0] for line in done.stderr.splitlines()] == [
        "No claimed messages to vacuum",
        "Database compacted",
    ]
    assert (tmp_path / DATABASE).stat().st_size < before / 2
    assert brant_command("read", "q").stdout == "stays\n"


def test_vacuum_makes_no_database(brant_command: Run, tmp_path: Path) -> None:
    done = brant_command("--vacuum")
    assert (done.returncode, done.stderr) == (0, f"Database not found: {tmp_path / DATABASE}\n")
    assert list(tmp_path.iterdir()) == []


# --cleanup


def test_cleanup_removes_the_file_and_its_log(brant_command: Run, tmp_path: Path) -> None:
    brant_command("write", "q", "x")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"{DATABASE}{suffix}").touch()
    done = brant_command("--cleanup")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"Database cleaned up: {tmp_path / DATABASE}\n")
    assert list(tmp_path.iterdir()) == []
    again = brant_command("--cleanup")
    told = f"Database not found, nothing to clean up: {tmp_path / DATABASE}\n"
    assert (again.returncode, again.stderr) == (0, told)


def test_cleanup_leaves_the_tables_of_others(brant_command: Run, store: brant.Database, tmp_path: Path) -> None:
    with store.transaction() as tx:
        tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
        tx.execute("CREATE VIEW items AS SELECT item FROM orders")
        tx.execute("INSERT INTO orders (item) VALUES ('pump')")
    store.queue("q").write("x")
    store.close()
    done = brant_command("--cleanup")
    told = f"Brant's tables dropped; {tmp_path / DATABASE} holds other tables and is kept\n"
    assert (done.returncode, done.stderr) == (0, told)
    assert tables(tmp_path / DATABASE) == ["orders"]
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        assert connection.execute("SELECT * FROM items").fetchall() == [("pump",)]
    connection.close()
    assert brant_command("write", "q", "again").returncode == 0


def test_cleanup_refuses_what_is_not_brants(brant_command: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.close()
    (tmp_path / "notes.txt").write_text("not a database, but rather a text of more than a few bytes\n" * 100)
    for name, why in (("other.db", "not Brant's: it is left as it is"), ("notes.txt", "no SQLite database")):
        before = (tmp_path / name).read_bytes()
        refused = brant_command("-f", name, "--cleanup")
        assert refused.returncode == 1
        assert refused.stderr.startswith("brant: error: ")
        assert why in refused.stderr
        assert (tmp_path / name).read_bytes() == before


def test_cleanups_at_once_do_not_mind_each_other(brant_command: Run, tmp_path: Path) -> None:
    for _ in range(3):
        brant_command("write", "q", "x")
        runs = [in_thread(brant_command, "--cleanup") for _ in range(4)]
        done = [run.result(PATIENCE_S) for run in runs]
        assert [found.returncode for found in done] == [0] * 4, [found.stderr for found in done]
        assert list(tmp_path.iterdir()) == []


# init


def test_init_makes_a_database_once(brant_command: Run, tmp_path: Path) -> None:
    made = brant_command("init")
    assert (made.returncode, made.stdout) == (0, "")
    assert made.stderr == f"Initialized Brant database: {tmp_path / DATABASE}\n"
    brant_command("write", "q", "stays")
    again = brant_command("init")
    assert (again.returncode, again.stderr) == (0, f"Brant database already exists: {tmp_path / DATABASE}\n")
    assert brant_command("read", "q").stdout == "stays\n"


def test_init_where_it_is_told(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    made = brant_command("-d", "there", "-f", "x.db", "init")
    assert made.stderr == f"Initialized Brant database: {tmp_path / 'there' / 'x.db'}\n"
    assert [found.name for found in tmp_path.iterdir()] == ["there"]


def test_init_leaves_a_file_that_is_no_database(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("my notes " * 1000)
    for words in (("init",), ("init", "--force", "--yes")):
        refused = brant_command(*words)
        assert refused.returncode == 1
        assert refused.stderr.startswith("brant: error: ")
        assert (tmp_path / DATABASE).read_text() == "my notes " * 1000


def test_init_by_force_needs_a_yes(brant_command: Run, tmp_path: Path) -> None:
    brant_command("write", "q", "x")
    refused = brant_command("init", "--force")
    assert refused.returncode == 1
    assert "There is no terminal to ask at: add --yes to do it" in refused.stderr
    assert brant_command("peek", "q").stdout == "x\n"
    forced = brant_command("init", "--force", "--yes")
    assert (forced.returncode, forced.stderr) == (0, f"Initialized Brant database: {tmp_path / DATABASE}\n")
    assert brant_command("list", "--stats").stdout == ""
    assert brant_command("init", "--force", "-h").returncode == 0


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, []), (b"\n", 1, ["q"]), (b"no\n", 1, ["q"])])
def test_init_by_force_asks_at_a_terminal(tmp_path: Path, answer: bytes, code: int, left: list[str]) -> None:
    with brant.open(tmp_path / DATABASE) as store:
        store.queue("q").write("x")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run(
            [COMMAND, "init", "--force"], stdin=theirs, capture_output=True, cwd=tmp_path, env=clean_environment()
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code
    assert done.stderr.startswith(f"Delete {tmp_path / DATABASE} and all that is in it? [y/N] ".encode())
    with brant.open(tmp_path / DATABASE) as store:
        assert store.queue_names() == left


# config


def test_config_tells_where_each_setting_comes_from(brant_command: Run, tmp_path: Path) -> None:
    environment = {"BRANT_SYNC_MODE": "full", "BROKER_BUSY_TIMEOUT": "100", "BROKER_SYNC_MODE": "off"}
    lines = brant_command("config", **environment).stdout.splitlines()
    assert f"database\t{tmp_path / DATABASE}\tthe current directory" in lines
    assert "sync_mode\tFULL\tBRANT_SYNC_MODE" in lines
    assert "busy_timeout_ms\t100\tBROKER_BUSY_TIMEOUT" in lines
    assert "generator_batch_size\t250\tdefault" in lines
    found = json.loads(brant_command("-f", "x.db", "config", "--json", **environment).stdout)
    assert found["database"] == {"value": str(tmp_path / "x.db"), "from": "-f"}
    assert found["sync_mode"] == {"value": "FULL", "from": "BRANT_SYNC_MODE"}
    assert list(tmp_path.iterdir()) == []


# backup


def test_a_backup_holds_what_was_committed(brant_command: Run, store: brant.Database, tmp_path: Path) -> None:
    store.queue("q").write_many(["a", "b"])
    done = brant_command("backup", "copy.db")
    assert (done.returncode, done.stderr) == (0, "Copied to copy.db\n")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    store.queue("q").read()
    assert brant_command("-f", "copy.db", "read", "q", "--all").stdout == "a\nb\n"
    before = (tmp_path / "copy.db").read_bytes()
    refused = brant_command("backup", "copy.db")
    assert (refused.returncode, refused.stderr) == (1, "brant: error: copy.db exists already; name a new file\n")
    assert (tmp_path / "copy.db").read_bytes() == before


def test_a_backup_needs_a_directory_that_is_there(brant_command: Run, tmp_path: Path) -> None:
    refused = brant_command("backup", "missing/copy.db")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("brant: error: unable to open")
    assert not (tmp_path / "missing").exists()


def test_a_backup_that_does_not_fit_leaves_no_file(brant_command: Run, store: brant.Database, tmp_path: Path) -> None:
    store.queue("q").write_many(["x" * 1000] * 200)
    # A limit of the shell for the files that its commands write: the disk is full for this one.
    limited = ["sh", "-c", f"ulimit -f 64; exec {COMMAND} backup copy.db"]
    done = subprocess.run(limited, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("brant: error: ")
    assert not (tmp_path / "copy.db").exists()
    assert brant_command("backup", "copy.db").returncode == 0


def test_a_backup_needs_a_name(brant_command: Run) -> None:
    refused = brant_command("backup", "")
    assert (refused.returncode, refused.stderr) == (1, "brant: error: name the file to copy to\n")


# bench


def test_bench_beside_a_file_in_a_folder_that_is_not_there_yet(brant_command: Run, tmp_path: Path) -> None:
    assert brant_command("-f", tmp_path / "new" / "er" / "x.db", "bench", "-n", "1").returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_bench_measures_and_leaves_nothing_behind(brant_command: Run, tmp_path: Path) -> None:
    shown = brant_command("bench", "-n", "3")
    assert (shown.returncode, shown.stderr) == (0, "")
    rates = json.loads(brant_command("bench", "--count", "3", "--json").stdout)
    assert [line.partition("\t")[0] for line in shown.stdout.splitlines()] == list(rates)
    assert all(rate > 0 for rate in rates.values())
    assert list(tmp_path.iterdir()) == []
