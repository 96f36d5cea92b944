"""Opening odd, damaged and foreign files; what closing, dropping and forking leave behind."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import DatabaseClosed, InvalidValue, StorageError
from tests.waiting import PATIENCE_S, in_thread, line_of, python


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def run(program: str, *args: object) -> str:
    """What a program in a process of its own prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name",
    ["with space", "quo'te", 'quo"te', "que?ry", "per%20cent", "ha#sh", "日本", "-dash", "a&b=c", "file"],
)
def test_any_file_name_works(tmp_path: Path, name: str) -> None:
    with brant.open(tmp_path / name) as db:
        events = db.update_events()
        db.queue("q").write("message")
        assert events.wait(PATIENCE_S)
        assert db.query("SELECT count(*) AS n FROM _honker_live") == [{"n": 1}]
        assert db.path == str(tmp_path / name)
    assert names(tmp_path) == [name]


def test_a_relative_path_stays_the_same_file_when_the_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with brant.open("app.db") as db:
        monkeypatch.chdir(tmp_path / "elsewhere")
        db.queue("q").write("message")
        assert db.query("SELECT count(*) AS n FROM _honker_live") == [{"n": 1}]
    assert names(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("query", ["", "?mode=rwc", "?cache=private", "#ignored"])
def test_a_uri_names_a_file(tmp_path: Path, query: str) -> None:
    with brant.open(f"file:{tmp_path}/with%20space.db{query}") as db:
        db.queue("q").write("message")
        assert db.queue("q").peek() == "message"
        assert db.path == str(tmp_path / "with space.db")
        assert stat.S_IMODE(Path(db.path).stat().st_mode) == 0o600


def test_a_uri_that_must_not_create_does_not(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"missing\.db"):
        brant.open(f"file:{tmp_path}/missing.db?mode=rw")
    with pytest.raises(StorageError, match=r"missing\.db"):
        brant.open(f"file:{tmp_path}/missing.db", create=False)
    assert names(tmp_path) == []


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("uri", ["file::memory:", "file:x?mode=memory&cache=shared", "file:"])
def test_a_uri_without_a_file_is_refused(uri: str) -> None:
    with pytest.raises(InvalidValue, match="names no file"):
        brant.open(uri)


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("path", ["mysql://localhost/app", "redis://localhost", "nul\0byte.db"])
def test_a_path_that_can_be_no_file_is_refused(path: str) -> None:
    with pytest.raises(InvalidValue):
        brant.open(path)


def test_the_log_is_its_owners_only_too(path: Path) -> None:
    with brant.open(path) as db:
        db.queue("q").write("secret")
        modes = {name: stat.S_IMODE((path.parent / name).stat().st_mode) for name in names(path.parent)}
    assert modes == {"app.db": 0o600, "app.db-wal": 0o600, "app.db-shm": 0o600}


def test_the_mode_of_a_file_that_was_there_is_kept(path: Path) -> None:
    path.touch()
    path.chmod(0o664)
    with brant.open(path) as db:
        db.queue("q").write("message")
        assert stat.S_IMODE(path.stat().st_mode) == 0o664


def test_a_database_of_the_applications_own_keeps_its_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as mine:
        mine.execute("CREATE TABLE orders (id)")
        mine.execute("INSERT INTO orders VALUES (1)")
        mine.commit()
    with brant.open(path) as db:
        assert db.query("SELECT * FROM orders") == [{"id": 1}]


def make_directory(path: Path) -> Path:
    path.mkdir()
    return path


def make_below_a_file(path: Path) -> Path:
    path.write_text("a file")
    return path / "app.db"


def make_damaged_header(path: Path) -> Path:
    brant.open(path).close()
    with path.open("r+b") as file:
        file.write(b"\0" * 16)
    return path


def make_newer(path: Path) -> Path:
    with brant.open(path) as db, db.transaction() as tx:
        tx.execute("UPDATE _brant_meta SET value = 99 WHERE key = 'schema_version'")
    return path


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (make_directory, "it is a directory"),
        (make_below_a_file, "unable to open"),
        (make_damaged_header, "not a database"),
        (make_newer, "newer Brant"),
        (lambda path: path.with_name("x" * 300), "unable to open"),
        (lambda path: path / "missing" / "app.db", "unable to open"),
    ],
    ids=["directory", "below a file", "damaged header", "newer", "name too long", "no directory"],
)
def test_what_can_not_be_opened_is_a_storage_error_that_says_why(
    path: Path, make: Callable[[Path], Path], text: str
) -> None:
    broken = make(path)
    with pytest.raises(StorageError, match=text):
        brant.open(broken)


READS_AS_NOBODY = """
import os, sys
import brant
open_database = brant.open
os.setuid(65534)
with open_database(sys.argv[1]) as db:
    queue = db.queue("q")
    print(queue.peek(), db.query("SELECT count(*) AS n FROM _honker_live"))
    try:
        queue.write("refused")
    except brant.StorageError as error:
        print(error)
"""


def test_a_file_that_may_only_be_read_can_be_read_and_a_write_says_why(path: Path) -> None:
    with brant.open(path) as db:
        db.queue("q").write("message")
        with brant.open(f"file:{path}?mode=ro") as reader:
            queue = reader.queue("q")
            assert queue.peek() == "message"
            with pytest.raises(StorageError, match="readonly"):
                queue.write("refused")
        assert db.queue("q").stats().pending == 1


def test_a_file_of_another_user_can_be_read_and_a_write_says_why() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become somebody else")
    # Not in tmp_path, whose parents are nobody else's to enter.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        with brant.open(Path(place) / "app.db") as db:
            db.queue("q").write("message")
            for file in Path(place).iterdir():
                file.chmod(0o644)
            seen, refusal = run(READS_AS_NOBODY, db.path).splitlines()
    assert seen == "message [{'n': 1}]"
    assert "readonly database" in refusal


@pytest.mark.parametrize(
    "waiter",
    [
        lambda db: db.queue("q").claim("w", idle_poll_s=None),
        lambda db: db.listen("c", fallback_poll_s=None),
        lambda db: db.stream("s").subscribe("reader"),
    ],
    ids=["claim", "listen", "subscribe"],
)
def test_closing_ends_every_waiter_with_an_error(path: Path, waiter: Callable[[brant.Database], Iterator[Any]]) -> None:
    with brant.open(path) as db:
        waiting = in_thread(next, waiter(db))
    with pytest.raises(DatabaseClosed, match="Database is closed"):
        waiting.result(PATIENCE_S)


def test_closing_ends_a_task_that_waits(path: Path) -> None:
    async def wait_and_close() -> None:
        db = brant.open(path)
        waiting = asyncio.ensure_future(anext(aiter(db.update_events())))
        await asyncio.sleep(0)
        db.close()
        with pytest.raises(RuntimeError, match="watcher"):
            await asyncio.wait_for(waiting, PATIENCE_S)

    asyncio.run(wait_and_close())


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.query("SELECT 1"),
        lambda db: db.queue("new"),
        lambda db: db.stream("s"),
        lambda db: db.listen("c"),
        lambda db: db.notify("c", 1),
        lambda db: db.update_events(),
        lambda db: db.health(),
        lambda db: db.lock("l").__enter__(),
        lambda db: db.scheduler().tick(),
    ],
)
def test_after_close_everything_says_so(path: Path, use: Callable[[brant.Database], object]) -> None:
    db = brant.open(path)
    db.close()
    with pytest.raises(DatabaseClosed, match="Database is closed"):
        use(db)


def test_the_last_to_close_leaves_one_file(path: Path) -> None:
    with brant.open(path) as one, brant.open(path) as other:
        one.queue("q").write("message")
        assert other.queue("q").peek() == "message"
    assert names(path.parent) == ["app.db"]


LEAVES_NOTHING_OPEN = """
import gc, os, sys, threading
import brant

def descriptors():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            pass
    return [target for target in found if "app.db" in target or "inotify" in target]

def use(path, max_readers):
    db = brant.open(path, max_readers=max_readers)
    queue = db.queue("q")
    claims, listener, events = queue.claim("w"), db.listen("c"), db.stream("s").subscribe("reader")
    queue.enqueue(1)
    next(claims)
    db.notify("c", 1)
    next(listener)
    with db.transaction() as tx:
        tx.query("SELECT honker_enqueue('q', '1', NULL, NULL, 0, 3, NULL)")
    db.query("SELECT 1")
    assert descriptors()
    return db

gc.disable()  # a collection that another thread is at makes the one below do nothing
for _ in range(3):
    if sys.argv[2] == "close":
        use(sys.argv[1], 2).close()
    else:
        use(sys.argv[1], 2)
gc.collect()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join(20)
print(descriptors(), threading.active_count(), os.listdir(os.path.dirname(sys.argv[1])))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("end", ["close", "drop"])
def test_neither_closing_nor_dropping_leaves_a_descriptor_or_a_thread(path: Path, end: str) -> None:
    assert run(LEAVES_NOTHING_OPEN, path, end) == "[] 1 ['app.db']\n"


def test_a_temporary_database_is_gone_when_its_process_ends_without_closing() -> None:
    place = run("import brant; db = brant.open(':memory:'); db.queue('q').write('m'); print(db.path)").strip()
    assert place
    assert not Path(place).parent.exists()


OPENS_WHEN_TOLD = """
import sys
import brant
print("ready", flush=True)
for line in sys.stdin:
    with brant.open(line.strip()) as db:
        print(db.queue("q").write("message") > 0, flush=True)
"""


def test_two_processes_may_open_a_new_file_at_the_same_time(tmp_path: Path) -> None:
    with python(OPENS_WHEN_TOLD) as one, python(OPENS_WHEN_TOLD) as other:
        both = (one, other)
        assert [line_of(process) for process in both] == ["ready", "ready"]
        for number in range(20):
            path = tmp_path / f"{number}.db"
            for process in both:
                assert process.stdin is not None
                process.stdin.write(f"{path}\n")
                process.stdin.flush()
            assert [line_of(process) for process in both] == ["True", "True"]
            with brant.open(path) as db:
                assert db.queue("q").stats().pending == 2
                assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def test_what_a_database_hands_out_keeps_it_open(path: Path) -> None:
    listener = brant.open(path).listen("c")
    events = brant.open(path).update_events()
    with brant.open(path).transaction() as tx:
        tx.notify("c", "heard")
    assert next(listener).payload == "heard"
    assert events.wait(10)
    listener.close()
    events.close()
