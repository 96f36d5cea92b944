"""Noticing commits, and files that go away: real files, real threads and real processes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from brant.errors import DatabaseClosed, DatabaseReplaced
from brant.storage.sqlite.wake import FileWatch
from tests.storage.watched import DEAF, MODES, QUIET, SOON, App, linux, other_process, waiting


@pytest.fixture(params=MODES)
def app(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    with closing(App(tmp_path / "app.db", request.param)) as app:
        yield app


def test_a_commit_of_another_connection_rings_everybody(app: App) -> None:
    with waiting([app.watch.subscribe() for _ in range(4)]) as answers:
        app.commit()
    assert all(answer.result() for answer in answers)


def test_commits_of_another_process_ring_at_once(app: App) -> None:
    bell = app.watch.subscribe()
    with other_process(app.path) as commit:
        started = time.monotonic()
        for _ in range(10):
            commit(1)
            assert bell.wait(SOON)
        assert time.monotonic() - started < 10 * DEAF
    assert app.watch.degraded is None


def test_a_waiter_that_reads_after_each_ring_misses_nothing(app: App) -> None:
    bell = app.watch.subscribe()
    late = []
    with other_process(app.path) as commit, ThreadPoolExecutor(1) as pool:
        for burst in range(1, 31):
            committed = pool.submit(lambda: commit(5) or time.monotonic())
            while app.owner.execute("SELECT count(*) FROM t").fetchone()[0] < 5 * burst:
                assert bell.wait(SOON)
            seen = time.monotonic()
            late.append(seen - committed.result())
    assert max(late) < DEAF


def test_a_commit_right_after_subscribing_rings(app: App) -> None:
    started = time.monotonic()
    for _ in range(10):
        bell = app.watch.subscribe()
        app.commit()
        assert bell.wait(SOON)
        bell.close()
    assert time.monotonic() - started < 10 * DEAF


def test_earlier_commits_and_rollbacks_do_not_ring(app: App) -> None:
    app.watch.subscribe().close()
    app.commit()
    bell = app.watch.subscribe()
    app.owner.execute("BEGIN IMMEDIATE")
    app.commit()
    app.owner.execute("ROLLBACK")
    assert not bell.wait(QUIET)


def test_a_large_transaction_rings_when_it_commits(app: App) -> None:
    bell = app.watch.subscribe()
    app.owner.execute("PRAGMA cache_size = 5")  # so that pages are written to -wal long before the commit
    app.owner.execute("BEGIN IMMEDIATE")
    app.owner.executemany("INSERT INTO t VALUES (zeroblob(?))", [(3000,)] * 200)
    assert not bell.wait(QUIET)
    app.owner.execute("COMMIT")
    assert bell.wait(SOON)


def test_a_commit_of_this_process_rings_once(app: App) -> None:
    bell = app.watch.subscribe()
    app.commit()
    app.watch.committed()
    assert bell.wait(0)
    assert not bell.wait(QUIET)


def test_four_commits_ring_four_times(app: App) -> None:
    bell = app.watch.subscribe()
    rings = 0
    for _ in range(4):
        app.commit()
        app.watch.committed()
        deadline = time.monotonic() + 0.03
        while bell.wait(deadline - time.monotonic()):
            rings += 1
    assert 4 <= rings <= 6


# The file


def delete(app: App) -> None:
    app.path.unlink()


def replace(app: App) -> None:
    new = app.path.with_name("new.db")
    sqlite3.connect(new).close()
    new.replace(app.path)


def delete_wal(app: App) -> None:
    app.path.with_name("app.db-wal").unlink()


@pytest.mark.parametrize("harm", [delete, replace, delete_wal])
def test_waiters_of_a_file_that_is_gone_fail_within_a_second(app: App, harm: Callable[[App], None]) -> None:
    app.commit()
    app.watch.check_file()
    bells = [app.watch.subscribe() for _ in range(3)]
    with waiting(bells) as answers:
        started = time.monotonic()
        harm(app)
        for answer in answers:
            with pytest.raises(DatabaseReplaced, match=r"watcher.*app\.db"):
                answer.result()
        assert time.monotonic() - started < 1
    with pytest.raises(DatabaseReplaced):
        app.watch.check_file()
    with pytest.raises(DatabaseReplaced):
        app.watch.subscribe()


@linux
def test_wal_may_be_missing_at_first_and_its_other_users_may_come_and_go(tmp_path: Path) -> None:
    with closing(App(tmp_path / "app.db")) as app:
        app.owner.close()
        assert not (tmp_path / "app.db-wal").exists()
        watch = FileWatch(str(app.path), app.connect)
        bell = watch.subscribe()
        assert watch.mode == "inotify"
        for _ in range(3):  # each time, the last connection but the watch's is closed
            with other_process(app.path) as commit:
                commit(1)
                assert bell.wait(SOON)
        watch.check_file()
        watch.close(DatabaseClosed("closed by the test"))


def test_without_wal_it_polls_says_so_and_is_not_deterred_by_a_lock(tmp_path: Path) -> None:
    with closing(App(tmp_path / "app.db", journal="DELETE")) as app:
        bell = app.watch.subscribe()
        assert app.watch.mode == "poll"
        assert "app.db-wal" in (app.watch.degraded or "")
        app.owner.execute("BEGIN EXCLUSIVE")
        app.commit()
        assert not bell.wait(0.1)  # every look in this time found the database busy
        app.owner.execute("COMMIT")
        assert bell.wait(SOON)


@linux
def test_inotify_takes_over_once_there_is_a_wal(tmp_path: Path) -> None:
    with closing(App(tmp_path / "app.db", journal="DELETE")) as app:
        bell = app.watch.subscribe()
        app.owner.execute("PRAGMA journal_mode = WAL")
        deadline = time.monotonic() + SOON
        while app.watch.mode == "poll" and time.monotonic() < deadline:
            app.commit()
            assert bell.wait(SOON)
        assert app.watch.degraded is None


@linux
def test_a_symbolic_link_is_followed_to_the_wal(tmp_path: Path) -> None:
    with closing(App(tmp_path / "app.db")) as app:
        (tmp_path / "link.db").symlink_to(app.path)
        with closing(App(tmp_path / "link.db")) as linked:
            bell = linked.watch.subscribe()
            assert linked.watch.mode == "inotify"
            app.commit()
            assert bell.wait(SOON)
