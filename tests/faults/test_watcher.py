"""The watcher of commits fails: whoever waits is served all the same, health says so, and it recovers by itself."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import brant
from brant.storage.sqlite.wake import FileWatch, _Watcher
from tests.waiting import PATIENCE_S, in_thread


def watcher() -> threading.Thread:
    # The newest: that of an earlier test may be about to end.
    return [thread for thread in threading.enumerate() if thread.name == "brant-watcher"][-1]


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is set, every look of the watcher fails; those of writers at their own commits do not."""
    broken = threading.Event()
    look = FileWatch.look

    def failing_look(watch: FileWatch) -> bool:
        if broken.is_set() and threading.current_thread().name == "brant-watcher":
            raise RuntimeError("the watcher is broken")
        return look(watch)

    monkeypatch.setattr(FileWatch, "look", failing_look)
    yield broken
    broken.clear()


def degraded(db: brant.Database) -> list[str]:
    return [problem for problem in db.health().problems if "wake-ups are degraded" in problem]


def wait_until_restored(db: brant.Database) -> None:
    with closing(db.update_events()) as commits:
        while degraded(db):
            commits.wait(0.2)


def test_while_the_watcher_fails_waiters_are_served_and_health_says_so(
    path: Path, trouble: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with brant.open(path) as db, brant.open(path) as elsewhere:
        rings = db.update_events()
        assert degraded(db) == []
        trouble.set()
        assert rings.wait(PATIENCE_S)
        assert degraded(db) == ["wake-ups are degraded: RuntimeError('the watcher is broken')"]
        for number in range(3):
            claims = db.queue("q").claim("w", idle_poll_s=None)
            claiming = in_thread(next, claims)
            elsewhere.queue("q").write(str(number))
            job = claiming.result(PATIENCE_S)
            assert (job.payload, job.ack()) == (str(number), True)
            claims.close()
        assert degraded(db)
        trouble.clear()
        wait_until_restored(db)
    assert len([record for record in caplog.records if "the watcher is broken" in record.getMessage()]) <= 2


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, MemoryError, OSError])
def test_an_error_that_ends_other_threads_does_not_end_the_watcher(path: Path, error: type[BaseException]) -> None:
    with brant.open(path) as db, brant.open(path) as elsewhere:
        rings = db.update_events()
        thread = watcher()
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error))
        assert rings.wait(PATIENCE_S)
        assert thread is watcher()
        wait_until_restored(db)
        for number in range(3):
            elsewhere.queue("q").write(str(number))
            assert rings.wait(PATIENCE_S)


def test_an_inotify_descriptor_that_somebody_closed_and_that_is_another_s_now_is_replaced(path: Path) -> None:
    with brant.open(path) as db, brant.open(path) as elsewhere:
        rings = db.update_events()
        if db.health().facts["watcher"] != "inotify":
            pytest.skip("there is no inotify")
        lost = _Watcher.current._inotify.fd  # type: ignore[union-attr]
        with Path(os.devnull).open("rb") as another:
            os.dup2(another.fileno(), lost)
        elsewhere.queue("q").write("while nobody listens")
        assert rings.wait(PATIENCE_S)
        while _Watcher.current._inotify is None or _Watcher.current._inotify.fd == lost:  # type: ignore[union-attr]
            rings.wait(0.2)
        wait_until_restored(db)
        os.close(lost)
        elsewhere.queue("q").write("after")
        assert rings.wait(PATIENCE_S)
        assert db.queue("q").stats().pending == 2
