"""Locks and logs: many writers at once, a reader that holds on, and descriptors that must not be touched."""

from __future__ import annotations

import ast
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import brant
from brant.errors import DatabaseBusy
from tests.waiting import PATIENCE_S, in_thread, line_of, python, write_lock_held

SOURCE = Path(brant.__file__).parent
WRITERS = 8
WRITES = 40


READS_THEN_WRITES = """
import sys
import brant
with brant.open(sys.argv[1]) as db:
    queue = db.queue("q")
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        with db.transaction() as tx:
            n = tx.query("SELECT n FROM counter")[0]["n"]
            tx.execute("UPDATE counter SET n = ?", [n + 1])
            queue.enqueue(n, tx=tx)
        queue.read()
print("done", flush=True)
"""


@pytest.mark.guarantee("G16")
def test_eight_processes_that_read_and_then_write_lose_nothing_and_get_no_error(db: brant.Database, path: Path) -> None:
    with db.transaction() as tx:
        tx.execute("CREATE TABLE counter (n)")
        tx.execute("INSERT INTO counter VALUES (0)")
    with ExitStack() as stack:
        writers = [stack.enter_context(python(READS_THEN_WRITES, path, WRITES)) for _ in range(WRITERS)]
        assert {line_of(writer) for writer in writers} == {"ready"}
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert {line_of(writer) for writer in writers} == {"done"}
    assert db.query("SELECT n FROM counter") == [{"n": WRITERS * WRITES}]
    assert db.queue("q").stats().total == 0


def test_a_lock_held_for_longer_than_the_timeout_is_an_error_for_every_writer_and_then_over(path: Path) -> None:
    with brant.open(path, busy_timeout_ms=100) as db:
        queue = db.queue("q")
        with write_lock_held(path):
            waiting = [in_thread(queue.enqueue, number) for number in range(4)]
            for answer in waiting:
                with pytest.raises(DatabaseBusy, match="try again"):
                    answer.result(PATIENCE_S)
        assert queue.enqueue("again") > 0
        assert queue.stats().pending == 1


@pytest.mark.guarantee("G8")
def test_readers_and_waiters_work_while_another_process_holds_the_lock(path: Path) -> None:
    with brant.open(path, busy_timeout_ms=0) as db:
        queue = db.queue("q")
        queue.enqueue(1)
        queue.save_result(7, "answer")
        with write_lock_held(path):
            assert queue.stats().pending == 1
            assert queue.peek() == "1"
            assert queue.get_result(7) == (True, "answer")
            assert db.stream("s").read() == []
            assert db.health().facts["journal_mode"] == "wal"
            assert not db.update_events().wait(0)


def log_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def test_the_log_shrinks_again_once_a_reader_that_pinned_it_is_gone(db: brant.Database, path: Path) -> None:
    stream = db.stream("s")
    large = [f"{number:4}" * 250 for number in range(100)]
    with closing(sqlite3.connect(path, isolation_level=None)) as pinned:
        pinned.execute("BEGIN")
        pinned.execute("SELECT count(*) FROM _honker_stream").fetchall()
        while log_bytes(path) < 12 * 1024 * 1024:
            stream.publish_many(large)
    deadline = time.monotonic() + PATIENCE_S
    while log_bytes(path) > 8 * 1024 * 1024:
        assert time.monotonic() < deadline, f"the log still has {log_bytes(path)} bytes"
        stream.publish_many(large)
    assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def test_the_log_stays_small_under_load(db: brant.Database, path: Path) -> None:
    stream = db.stream("s")
    events = db.stream("s").subscribe("reader")
    for _ in range(200):
        stream.publish_many(["x" * 1000] * 100)
        next(events)
        assert log_bytes(path) < 16 * 1024 * 1024


@pytest.mark.guarantee("G8")
def test_no_reader_of_brants_own_keeps_a_snapshot(db: brant.Database, path: Path) -> None:
    queue = db.queue("q")
    queue.enqueue_many(range(10))
    db.query("SELECT * FROM _honker_live")
    claims, messages, listener = queue.claim("w"), queue.peek_generator(), db.listen("c")
    next(claims)
    next(messages)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        db.notify("c", 1)
        next(listener)
        busy, _, _ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0
    claims.close()


OPENERS = {"open", "fdopen", "read_bytes", "read_text", "write_bytes", "write_text", "copyfile", "copy2"}
# What they open is Brant's own SQL.
MAY_OPEN = {"storage/postgres/sql.py", "storage/sqlite/schema.py"}


def test_no_code_below_the_public_api_opens_a_file() -> None:
    found = set()
    for file in SOURCE.glob("storage/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            function = node.func if isinstance(node, ast.Call) else None
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            if name in OPENERS and getattr(getattr(function, "value", None), "id", "") != "self":
                found.add(str(file.relative_to(SOURCE)))
    assert found == MAY_OPEN


USES_EVERYTHING = """
import sqlite3, sys
import brant
with brant.open(sys.argv[1]) as db:
    queue, stream = db.queue("q"), db.stream("s")
    claims, listener, events = queue.claim("w"), db.listen("c"), stream.subscribe("reader")
    queue.enqueue(1)
    next(claims).ack()
    stream.publish(1)
    next(events)
    db.notify("c", 1)
    next(listener)
    db.health()
    connection = sqlite3.connect(sys.argv[1])
    queue.enqueue(2, tx=connection)
    connection.commit()
    connection.close()
    with db.transaction() as tx:
        tx.query("SELECT honker_enqueue('q', '1', NULL, NULL, 0, 3, NULL)")
    with db.lock("l"):
        db.query("SELECT * FROM _honker_live")
    for watcher in ("poll", "kernel"):
        with brant.open(sys.argv[1], watcher_backend=watcher) as other:
            other.update_events()
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_only_sqlite_opens_the_file_its_log_and_its_index(path: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-o", str(trace), "-e", "trace=open,openat,openat2,creat"]
    program = [sys.executable, "-c", USES_EVERYTHING, str(path)]
    done = subprocess.run([*strace, *program], capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr:
        pytest.skip("strace is not permitted here")
    assert done.returncode == 0, done.stderr
    opened = [line for line in trace.read_text().splitlines() if re.search(rf'"{path}(-wal|-shm)?"', line)]
    assert len(opened) > 3
    # SQLite refuses to follow links; nobody else here asks for that.
    assert [line for line in opened if "O_NOFOLLOW" not in line] == []


COMMITS_AND_DIES = """
import os, signal, subprocess
touch = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM _honker_live'); c.close()"
db = brant.open(sys.argv[1])
queue = db.queue("survivors")
subprocess.run([sys.executable, "-c", touch, sys.argv[1]], check=True)
for number in range(50):
    queue.enqueue(number)
print("committed", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.guarantee("G2")
def test_whatever_brant_does_in_a_process_costs_that_process_no_locks(path: Path) -> None:
    # With one descriptor closed by hand, the other program would remove the log, and all 50 would be gone.
    kept_open = USES_EVERYTHING.replace("with brant.open(sys.argv[1]) as db:", "db = brant.open(sys.argv[1])\nif db:")
    with python(kept_open + COMMITS_AND_DIES, path) as process:
        assert line_of(process) == "committed"
        assert process.wait(PATIENCE_S) == -9
    with brant.open(path) as db:
        assert [message.payload for message in db.queue("survivors").peek_many()] == list(range(50))


OPENS_THE_FILE_ITSELF = """
import subprocess, sys
import brant
queue = brant.open(sys.argv[1]).queue("q")
queue.enqueue("safe")
open(sys.argv[1], "rb").close()
touch = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM _honker_live'); c.close()"
subprocess.run([sys.executable, "-c", touch, sys.argv[1]], check=True)
try:
    while True:
        queue.enqueue("lost")
except brant.StorageError as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.guarantee("G10")
def test_an_application_that_closed_a_descriptor_of_the_file_is_told_that_its_log_is_gone(path: Path) -> None:
    with python(OPENS_THE_FILE_ITSELF, path) as process:
        assert line_of(process) == "DatabaseReplaced"
