"""SQL functions that wait for commits, for callers who have nothing but SQL."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from brant.errors import BrantError, DatabaseClosed, InvalidValue, StorageError
from brant.storage.sqlite.connection import connect
from brant.storage.sqlite.wake import FileWatch
from brant.storage.subscription import Subscription


class WatchHandles:
    """The watchers that one connection opened, by handle."""

    def __init__(self, owner: sqlite3.Connection) -> None:
        self._owner = owner
        self._numbers = itertools.count(1)
        self._open: dict[int, tuple[FileWatch, Subscription]] = {}

    def functions(self) -> Iterator[tuple[str, str, Callable[..., Any]]]:
        yield "honker_update_watcher_open", "tT", lambda _, path, backend: self.open(path, backend)
        yield "honker_update_watcher_open", "tTI", lambda _, path, backend, poll_ms: self.open(path, backend, poll_ms)
        yield "honker_update_watcher_wait", "ii", lambda _, handle, timeout_ms: self.wait(handle, timeout_ms)
        yield "honker_update_watcher_close", "i", lambda _, handle: self.close(handle)

    def open(self, path: str, backend: str | None, poll_ms: int | None = None) -> int:
        if backend not in (None, "poll", "polling", "kernel", "kernel-watcher"):
            raise InvalidValue(f"unknown watcher backend {backend!r}; use NULL, 'poll' or 'kernel'")
        if poll_ms is not None and poll_ms <= 0:
            raise InvalidValue(f"the poll interval must be positive, not {poll_ms}")
        if not Path(path).is_file():
            raise StorageError(f"there is no database at {path}")
        watch = FileWatch(
            path,
            lambda: connect(path, busy_timeout_ms=5000, synchronous="NORMAL", read_only=True),
            mode="poll" if backend in ("poll", "polling") else "auto",
        )
        handle = next(self._numbers)
        self._open[handle] = (watch, watch.subscribe())
        return handle

    def wait(self, handle: int, timeout_ms: int) -> int:
        """1 after a commit, 0 when the time is over, -1 when the watcher is dead or unknown."""
        if handle not in self._open:
            return -1
        try:
            return int(self._open[handle][1].wait(timeout_ms / 1000))
        except BrantError:
            return -1

    def close(self, handle: int) -> int:
        watch, _ = self._open.pop(handle, (None, None))
        if watch is not None:
            watch.close(DatabaseClosed("the watcher was closed"))
        return 1
