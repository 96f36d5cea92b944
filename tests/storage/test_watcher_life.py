"""The watcher's thread: when it lives, what ends it, what it survives, and what a fork makes of it."""

from __future__ import annotations

import gc
import itertools
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from brant.errors import DatabaseClosed
from brant.storage.sqlite.wake import FileWatch
from tests.storage.watched import DEAF, MODES, SOON, App, linux, waiting


@pytest.fixture(params=MODES)
def app(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    with closing(App(tmp_path / "app.db", request.param)) as app:
        yield app


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "brant-watcher"]


def until_no_watcher() -> None:
    gc.collect()
    for thread in watchers():
        thread.join(SOON)
    assert not watchers()


def test_close_fails_waiters_and_whoever_comes_later(app: App) -> None:
    with waiting([app.watch.subscribe() for _ in range(2)]) as answers:
        app.watch.close(DatabaseClosed("closed"))
    for answer in answers:
        with pytest.raises(DatabaseClosed):
            answer.result()
    with pytest.raises(DatabaseClosed):
        app.watch.subscribe()
    app.watch.committed()
    app.watch.close(DatabaseClosed("closed twice"))


def test_one_thread_watches_all_databases_and_ends_with_the_last_subscription(tmp_path: Path) -> None:
    until_no_watcher()
    apps = [App(tmp_path / f"{number}.db", MODES[number % 2]) for number in range(6)]
    for _ in range(2):
        bells = [app.watch.subscribe() for app in apps]
        assert len(watchers()) == 1
        for app, bell in zip(apps, bells, strict=True):
            app.commit()
            assert bell.wait(SOON)
        del bells, bell
        until_no_watcher()
    for app in apps:
        app.close()


def test_a_newcomer_need_not_wait_for_a_watcher_that_sleeps(tmp_path: Path) -> None:
    with closing(App(tmp_path / "quiet.db")) as quiet, closing(App(tmp_path / "app.db", "poll")) as app:
        silent = quiet.watch.subscribe()
        waited = 0.0
        for _ in range(5):
            assert not silent.wait(0.25)  # by then the watcher sleeps until the next check
            with closing(app.watch.subscribe()) as bell:
                started = time.monotonic()
                app.commit()
                assert bell.wait(SOON)
                waited += time.monotonic() - started
            app.watch.close(DatabaseClosed("to be watched anew"))
            app.watch = FileWatch(str(app.path), app.connect, "poll")
        assert waited < 2 * DEAF


def test_subscriptions_that_are_dropped_leave_nothing(app: App) -> None:
    before = threading.active_count()
    for _ in range(300):
        app.watch.subscribe()
    held = [app.watch.subscribe() for _ in range(100)]
    assert threading.active_count() <= before + 1
    assert len(app.watch.subscribers) == 100
    del held
    until_no_watcher()
    assert not app.watch.subscribers


@linux
def test_two_watches_of_one_file_do_not_deafen_each_other(tmp_path: Path) -> None:
    with closing(App(tmp_path / "app.db")) as app:
        bell = app.watch.subscribe()
        waited = 0.0
        for _ in range(5):
            with closing(App(tmp_path / "app.db")) as other:
                other.watch.subscribe()
            assert not bell.wait(0.25)  # by then the watcher looks no more unless there is an event
            started = time.monotonic()
            app.commit()
            assert bell.wait(SOON)
            waited += time.monotonic() - started
        assert waited < 2 * DEAF


def connections_of(app: App, *, breaking: threading.Event) -> Iterator[sqlite3.Connection]:
    """One connection on which every statement fails once `breaking` is set, and another."""
    first = app.connect()
    first.set_progress_handler(breaking.is_set, 1)
    yield first
    yield app.connect()


def test_a_lost_connection_is_replaced_and_everybody_rung(app: App, caplog: pytest.LogCaptureFixture) -> None:
    breaking = threading.Event()
    connections = connections_of(app, breaking=breaking)
    with closing(App(app.path, connect=lambda: next(connections))) as broken:
        bell = broken.watch.subscribe()
        breaking.set()
        assert bell.wait(SOON)
        assert "interrupted" in (broken.watch.degraded or "")
        assert [record.name for record in caplog.records] == ["brant.watcher"]
        app.commit()
        assert bell.wait(SOON)


def test_an_error_that_stays_has_its_own_waiters_look_for_themselves_again_and_again(app: App) -> None:
    breaking = threading.Event()
    connections = itertools.islice(connections_of(app, breaking=breaking), 1)
    with closing(App(app.path, connect=lambda: next(connections))) as broken:
        broken_bell, bell = broken.watch.subscribe(), app.watch.subscribe()
        breaking.set()
        for _ in range(2):
            assert broken_bell.wait(SOON)
            assert broken.watch.failure == "StopIteration()"
        app.commit()
        assert bell.wait(SOON)
        assert app.watch.failure is None


FORK = """
import os, sqlite3, sys, threading
from brant.errors import DatabaseClosed
from brant.storage.sqlite.wake import FileWatch

def connect():
    return sqlite3.connect(sys.argv[1], check_same_thread=False, isolation_level=None)

owner, watch = connect(), FileWatch(sys.argv[1], connect)
bell = watch.subscribe()
ready, told = os.pipe()
if os.fork() == 0:
    try:
        watch.subscribe()
    except DatabaseClosed:
        pass
    else:
        os._exit(2)
    own = FileWatch(sys.argv[1], connect)
    with_own_thread = own.subscribe()
    os.write(told, b"!")
    rung = with_own_thread.wait(5)
    own.close(DatabaseClosed())
    sys.exit(0 if rung and threading.active_count() <= 2 else 3)
os.read(ready, 1)
for _ in range(3):
    owner.execute("INSERT INTO t VALUES (1)")
    assert bell.wait(5)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_a_forked_child_has_a_watcher_of_its_own_and_leaves_the_parents_alone(tmp_path: Path) -> None:
    with closing(App(tmp_path / "app.db")) as app:
        subprocess.run([sys.executable, "-c", FORK, str(app.path)], check=True, timeout=60)


AUDIT = """
import sqlite3, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from brant.storage.sqlite.wake import FileWatch
watch = FileWatch(sys.argv[1], lambda: sqlite3.connect(sys.argv[1], check_same_thread=False, isolation_level=None))
bell = watch.subscribe()
watch.check_file()
bell.wait(1)
sys.exit(any(path.startswith(sys.argv[1]) for path in opened))
"""


def test_the_files_are_never_opened_but_by_sqlite(tmp_path: Path) -> None:
    with closing(App(tmp_path / "app.db")) as app:
        subprocess.run([sys.executable, "-c", AUDIT, str(app.path)], check=True, timeout=60)
