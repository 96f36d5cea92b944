"""Keeping the write-ahead log small: checkpoints, from one place and under the write lock."""

from __future__ import annotations

import os
import sqlite3
import time

# The pages that a commit adds to the log are estimated, since SQLite tells Python nothing of them.
_PAGES_A_COMMIT = 5
_ROWS_A_PAGE = 3
_CHECKPOINT_PAGES = 3000
_PAGES_A_LOOK = 100
_LARGEST_BYTES = 16 * 1024 * 1024
_PAGE_BYTES = 4096 + 24  # with its header in the log
_MOST_PAGES_FOR_ONE = 8.0  # other processes write to the log too
# A reader with an old snapshot blocks a checkpoint: how long to wait for it, and when to try again.
_PATIENCE_MS = 20
_PAUSE_S = 1.0


class Log:
    """The log of one file, as its writer sees it; whoever calls holds the writer's slot.

    RESTART and TRUNCATE take the write lock. SQLite before 3.51.3 can corrupt a file when one connection checkpoints
    without it while another one restarts the log.
    """

    def __init__(self, writer: sqlite3.Connection, path: str, busy_timeout_ms: int) -> None:
        self._writer = writer
        self._path = path
        self._busy_timeout_ms = busy_timeout_ms
        self._pages = 0.0
        self._next_look = 0.0
        self._began_empty = False
        self._pages_for_one = 1.0  # how many there really are for one of the estimate
        self._next_checkpoint = 0.0
        self.short_of_room = False

    def committed(self, rows_written: int) -> None:
        """Checkpoint now and then."""
        self._pages += (_PAGES_A_COMMIT + rows_written // _ROWS_A_PAGE) * self._pages_for_one
        if self._pages < self._next_look:
            return
        size = self._bytes()
        self._learn(size / _PAGE_BYTES)
        self._next_look = self._pages + _PAGES_A_LOOK
        too_large = size > _LARGEST_BYTES
        if (too_large or self._pages > _CHECKPOINT_PAGES) and time.monotonic() > self._next_checkpoint:
            # A log that is overwritten is much faster than one that has to grow anew: shrink it only when it must be.
            self.checkpoint("TRUNCATE" if too_large else "RESTART")

    def make_room(self) -> None:
        """Once the disk was full, and until there is plenty again: the little that is left is not for the log."""
        import shutil

        self.checkpoint("TRUNCATE")
        try:
            self.short_of_room = shutil.disk_usage(self._path).free < 2 * _LARGEST_BYTES
        except OSError:
            pass  # asked again before the next transaction

    def checkpoint(self, mode: str) -> bool:
        """False when a reader blocked it. Never raises: the commit before it is done, whatever becomes of this."""
        self._writer.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        try:
            blocked = self._writer.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0]
        except sqlite3.Error:
            blocked = True
        finally:
            self._writer.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
        if blocked:
            self._next_checkpoint = time.monotonic() + _PAUSE_S
        else:
            self._pages = self._next_look = 0
            self._began_empty = mode == "TRUNCATE"
        return not blocked

    def _learn(self, pages: float) -> None:
        """A log that has grown from nothing tells how many pages the commits of this program really have."""
        if self._began_empty and pages > self._pages > 0:
            self._pages_for_one = min(self._pages_for_one * pages / self._pages, _MOST_PAGES_FOR_ONE)
            self._pages = pages

    def _bytes(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0
