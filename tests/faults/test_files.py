"""Files that are moved, deleted, replaced or damaged under an open database."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import DatabaseReplaced, StorageError
from tests.waiting import PATIENCE_S, in_thread, line_of, python


def rename(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    brant.open(other).close()
    other.replace(path)


def rename_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def remove_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def replace_log(path: Path) -> None:
    log = Path(f"{path}-wal")
    shutil.copy(log, log.with_name("copy"))
    log.with_name("copy").replace(log)


FAULTS = [rename, delete, replace, rename_directory, remove_log, replace_log]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder / "app.db"


def write_until_refused(queue: brant.Queue) -> None:
    while True:
        queue.write("into the void")


@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_writer_is_told(db: brant.Database, path: Path, fault: Callable[[Path], None]) -> None:
    queue = db.queue("q")
    queue.write("safe")
    fault(path)
    with pytest.raises(DatabaseReplaced, match="replaced or deleted"):
        in_thread(write_until_refused, queue).result(PATIENCE_S)


@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "waiter",
    [
        lambda db: db.queue("q").claim("w", idle_poll_s=None),
        lambda db: db.listen("c", fallback_poll_s=None),
        lambda db: db.stream("s").subscribe(),
    ],
    ids=["claim", "listen", "subscribe"],
)
def test_every_waiter_is_told(
    db: brant.Database, path: Path, fault: Callable[[Path], None], waiter: Callable[[brant.Database], Iterator[Any]]
) -> None:
    waiting = in_thread(next, waiter(db))
    db.notify("other", 1)
    fault(path)
    with pytest.raises(DatabaseReplaced, match="replaced or deleted"):
        waiting.result(PATIENCE_S)


@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_caller_who_brings_a_connection_is_told(
    db: brant.Database, path: Path, fault: Callable[[Path], None]
) -> None:
    queue = db.queue("q")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:

        def write_until_refused() -> None:
            while True:
                queue.write("into the void", tx=connection)

        queue.write("safe", tx=connection)
        fault(path)
        with pytest.raises(DatabaseReplaced):
            in_thread(write_until_refused).result(PATIENCE_S)


@pytest.mark.parametrize("fault", [rename, delete])
def test_no_fresh_database_takes_the_place_of_one_that_is_gone(
    db: brant.Database, path: Path, fault: Callable[[Path], None]
) -> None:
    queue = db.queue("q")
    listener = db.listen("c")
    queue.write("safe")
    fault(path)
    with pytest.raises(DatabaseReplaced):
        in_thread(write_until_refused, queue).result(PATIENCE_S)
    with pytest.raises(DatabaseReplaced):
        in_thread(next, listener).result(PATIENCE_S)
    assert not path.exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_health_says_so(db: brant.Database, path: Path, fault: Callable[[Path], None]) -> None:
    db.queue("q").write("safe")
    fault(path)
    health = db.health()
    assert not health.ok
    assert "replaced or deleted" in health.problems[0]


def test_health_says_so_when_it_has_to_connect_first(db: brant.Database, path: Path) -> None:
    rename(path)
    (problem,) = db.health().problems
    assert "replaced or deleted" in problem


def test_what_was_written_before_a_rename_is_in_the_renamed_file(db: brant.Database, path: Path) -> None:
    db.queue("q").write("safe")
    db.close()
    rename(path)
    with brant.open(path.with_name("moved.db")) as moved:
        assert moved.queue("q").peek() == "safe"


WRITES = """
import sys
import brant
db = brant.open(sys.argv[1])
queue = db.queue("q")
print("ready", flush=True)
try:
    while True:
        queue.write("message")
except brant.StorageError as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("fault", FAULTS)
def test_processes_under_load_are_told_each(path: Path, fault: Callable[[Path], None]) -> None:
    brant.open(path).close()
    with python(WRITES, path) as one, python(WRITES, path) as other:
        assert [line_of(process) for process in (one, other)] == ["ready", "ready"]
        fault(path)
        assert [line_of(process) for process in (one, other)] == ["DatabaseReplaced", "DatabaseReplaced"]


def page_of(path: Path, table: str) -> tuple[int, int]:
    """Where the root page of a table begins in a closed file, and how long it is."""
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (number,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", [table]).fetchone()
    return (number - 1) * size, size


def overwrite(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * length)


def test_a_damaged_page_is_reported_and_the_rest_is_still_there(path: Path) -> None:
    with brant.open(path) as db:
        doomed, healthy = db.queue("doomed", max_attempts=1), db.queue("healthy")
        doomed.enqueue(1)
        doomed.fail(doomed.claim_batch("w", 1)[0].id, "w", "bad")
        healthy.enqueue("fine")
    overwrite(path, *page_of(path, "_honker_dead"))
    with brant.open(path) as db:
        with pytest.raises(StorageError, match="malformed: the file is damaged"):
            db.queue("doomed").list_dead()
        assert db.queue("healthy").read() == "fine"


@pytest.mark.parametrize("table", ["_honker_live", "_brant_meta", "sqlite_schema"])
def test_a_damaged_table_never_looks_empty(path: Path, table: str) -> None:
    with brant.open(path) as db:
        db.queue("q").enqueue_many(range(100))
    start, size = (100, 3000) if table == "sqlite_schema" else page_of(path, table)
    overwrite(path, start, size)
    with pytest.raises(StorageError, match="damaged"), brant.open(path) as db:
        db.queue("q").claim_one("w")


@pytest.mark.guarantee("G16")
def test_a_claim_that_hits_a_damaged_page_leaves_nothing_half_done(path: Path) -> None:
    with brant.open(path) as db:
        db.queue("q", max_attempts=1).enqueue("job")
        db.queue("q").claim_one("w")
    overwrite(path, *page_of(path, "_honker_dead"))
    with brant.open(path) as db:
        job_id = db.query("SELECT id FROM _honker_live")[0]["id"]
        with pytest.raises(StorageError, match="damaged"):
            db.queue("q").fail(job_id, "w", "bad")
        assert db.query("SELECT state FROM _honker_live") == [{"state": "processing"}]
        assert db.query("SELECT * FROM _brant_attempts") == []


COMMITS_TEN = """
import os, signal, sys
import brant
queue = brant.open(sys.argv[1]).queue("q")
for number in range(10):
    queue.enqueue(number)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("place", [0.3, 0.6, 0.95])
def test_a_damaged_log_costs_its_last_commits_and_never_half_of_one(path: Path, place: float) -> None:
    brant.open(path).close()
    with python(COMMITS_TEN, path) as process:
        assert process.wait(PATIENCE_S) == -9
    log = Path(f"{path}-wal")
    overwrite(log, int(log.stat().st_size * place), 8)
    with brant.open(path) as db:
        found = [message.payload for message in db.queue("q").peek_many()]
        assert found == list(range(len(found)))
        assert len(found) < 10
        assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
