"""How commits to an SQLite file are noticed, whoever makes them.

`PRAGMA data_version` on a connection that never writes tells that another has committed, here or in another process;
inotify on `-wal` tells when to ask, or else it is polled. The database, `-wal` and `-shm` are watched and stat()ed by
path and never opened: closing a descriptor of one would drop the locks that SQLite holds on it in this process.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable

from brant.errors import BrantError, DatabaseClosed, DatabaseReplaced
from brant.storage.sqlite.inotify import Inotify
from brant.storage.subscription import Subscribers, Subscription

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, Final, Literal

CHECK_S: Final = 0.5  # how often the file's identity is checked, and commits are found that no event told of
FIRST_LOOK_S: Final = 0.000_05  # an event comes before its commit is visible: look again after this long,
SETTLE_S: Final = 0.1  # then less and less often, until nothing has happened for this long
CALM_ROUNDS: Final = 4  # while events do not cease the pause doubles, so many times: a busy writer needs the GIL
OWN_PAUSE_S: Final = 0.005  # between looks while this process itself commits, since each of its commits looks, too
OWN_FOR_S: Final = 0.02
BUSY_POLL_S: Final = 0.001
IDLE_POLL_S: Final = 0.05
BUSY_FOR_S: Final = 1.0  # how long a polled file counts as busy after a commit
RECOVERY_S: Final = 1.0  # after an error, the next look
Connect = Callable[[], sqlite3.Connection]


class FileWatch:
    """Notices commits to one SQLite file and rings its subscribers.

    `connect` gives a connection in autocommit mode for any thread. The owner keeps another open: else `-wal` may go.
    """

    def __init__(
        self, path: str, connect: Connect, mode: Literal["auto", "poll"] = "auto", poll_s: float | None = None
    ) -> None:
        self.subscribers = Subscribers()
        self.degraded: str | None = None  # why inotify is not in use, or the last error of the connection
        self.failure: str | None = None  # the error that keeps the watcher from looking, until it works again
        self._path = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        self._wal = os.path.realpath(self._path) + "-wal"
        self._known: dict[str, tuple[int, int]] = {}
        self.check_file()
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None  # by a fork, with whether nobody used it then
        self._idle_at_fork = False
        self._version: int | None = None  # None: unknown, so that whatever is read next counts as a commit
        # Re-entrant: a garbage collection at any allocation may finalize the owner, which closes this.
        self._lock = threading.RLock()
        # What follows is the watcher's: the kernel's number, rounds in a row with events, and monotonic times.
        self._wants_inotify = mode == "auto"
        self._poll_s = poll_s  # None: often while there are commits, less often without
        self._watch: int | None = None
        self._burst = 0
        self._active = self._next_look = self._next_check = self._own_commit = 0.0
        _files.add(self)

    @property
    def mode(self) -> Literal["inotify", "poll"]:
        """How commits are noticed at present."""
        return "poll" if self._watch is None else "inotify"

    def subscribe(self) -> Subscription:
        """A doorbell that rings for each commit from now on."""
        with self._lock:
            nobody_waits = not self.subscribers
            subscription = self.subscribers.subscribe()
            if nobody_waits:
                self._version = self._read_version()
        _Watcher.look_after(self)
        return subscription

    def committed(self) -> None:
        """Ring for a commit that this process has just made, unless the watcher was faster."""
        self._own_commit = time.monotonic()
        self.look()

    def look(self) -> bool:
        """Ring if anybody has committed since the last look; tells whether it rang."""
        with self._lock:
            if not self.subscribers:
                return False
            try:
                version = self._read_version()
            except (sqlite3.Error, BrantError, OSError) as error:
                self._disconnect()  # the next look connects anew, and rings: nobody knows what was missed
                self._warn(f"the connection failed: {error}")
                return False
            # None is no answer: as long as the old version is kept, a later look still finds the commit.
            if version is None or version == self._version:
                return False
            self._version = version
            self.subscribers.ring_all()
            return True

    def check_file(self) -> None:
        """Raise DatabaseReplaced unless the database and its `-wal` are the files that were there before."""
        self._require_same(self._path)
        self._require_same(self._wal)

    def close(self, error: BaseException) -> None:
        """Fail every waiter with `error` and stop watching."""
        with self._lock:
            self.subscribers.fail_all(error)
            self._disconnect()
        _Watcher.forget(self)

    def give_up(self, error: DatabaseReplaced) -> None:
        """Close: nobody must wait for what will never come."""
        self._warn(repr(error))
        self.close(error)

    def falter(self, error: BaseException) -> None:
        """After an error in the watcher: try again soon, and have everybody look for themselves meanwhile."""
        if (problem := repr(error)) != self.failure:
            self.failure = problem
            self._log(problem)
        self._next_look = self._next_check = time.monotonic() + RECOVERY_S
        self.subscribers.ring_all()

    def disown(self) -> None:
        """Let go of what belongs to the parent process, in a forked child."""
        is_idle = self._lock.acquire(blocking=False)
        self._lock = threading.RLock()  # the parent's watcher may have held it at the fork
        if self._connection is not None:
            import ctypes

            self._idle_at_fork = is_idle
            # One reference too many: closing it, even while the interpreter shuts down, could hang or unlock the file.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            self._inherited, self._connection = self._connection, None
        self.subscribers.fail_all(DatabaseClosed(f"{self._path} was opened in another process; open it anew"))

    def let_go(self) -> bool:
        """Close the connection that came with a fork; False if the parent's watcher was at work on it."""
        if self._inherited is None:
            return True
        if self._idle_at_fork:
            self._inherited.close()
            self._inherited = None
        return self._idle_at_fork

    def _require_same(self, path: str) -> None:
        try:
            status = os.stat(path)
            same = self._known.setdefault(path, found := (status.st_dev, status.st_ino)) == found
        except (FileNotFoundError, NotADirectoryError):
            same = path is self._wal and path not in self._known
        if not same:
            raise DatabaseReplaced(f"watcher: {path} was replaced or deleted under the open Database; open it anew")

    def _read_version(self) -> int | None:
        """The data_version, or None while the database is busy. Connects if there is no connection."""
        if self._connection is None:
            self._require_same(self._path)
            self._connection, self._version = self._connect(), None
            self._connection.execute("PRAGMA busy_timeout = 0")  # never wait with the lock held
        try:
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return None
            raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _warn(self, problem: str) -> None:
        if problem != self.degraded:
            self.degraded = problem
            self._log(problem)

    def _log(self, problem: str) -> None:
        import logging  # slow to import, and hardly ever needed

        logging.getLogger("brant.watcher").warning("watching %s: %s", self._path, problem)


class _Watcher:
    """The one thread of this process that looks at every subscribed file. It ends when none is left."""

    lock: ClassVar = threading.RLock()
    current: ClassVar[_Watcher | None] = None

    def __init__(self) -> None:
        self._files: set[FileWatch] = set()
        self._inotify: Inotify | None = None
        threading.Thread(target=self._run, name="brant-watcher", daemon=True).start()

    @classmethod
    def look_after(cls, file: FileWatch) -> None:
        with cls.lock:
            watcher = cls.current = cls.current or cls()
            if file not in watcher._files:
                watcher._files.add(file)
                watcher._arm(file)
                file._active = file._next_look = file._next_check = time.monotonic()
                if watcher._inotify:
                    watcher._inotify.interrupt(file._path)

    @classmethod
    def forget(cls, file: FileWatch) -> None:
        with cls.lock:
            watch, file._watch, file.failure = file._watch, None, None
            if watcher := cls.current:
                watcher._files.discard(file)
                # Two FileWatches of one file share the kernel's watch.
                if watcher._inotify and watch and all(other._watch != watch for other in watcher._files):
                    watcher._inotify.unwatch(watch)

    @classmethod
    def start_anew_in_child(cls) -> None:
        """A forked child has none of its parent's threads, and must not touch its parent's connections."""
        cls.lock = threading.RLock()
        if cls.current and cls.current._inotify:
            os.close(cls.current._inotify.fd)
        cls.current = None
        for file in list(_files):
            file.disown()

    def _arm(self, file: FileWatch) -> None:
        """Have the kernel tell of writes to `-wal`. Repeated at each check, since `-wal` may have come later."""
        if file._wants_inotify:
            try:
                self._inotify = self._inotify or Inotify()
                watch, problem = self._inotify.watch(file._wal), None
            except Exception as error:  # whatever it is, polling is left
                watch, problem = None, f"no inotify on {file._wal}: {error}"
                if isinstance(error, OSError) and error.errno in (errno.EBADF, errno.EINVAL):
                    # No inotify any more: somebody has closed it.
                    self._drop_inotify()
            if watch is None or watch != file._watch:
                file._watch, file.degraded = watch, problem

    def _run(self) -> None:
        while True:
            try:
                if not self._look_around():
                    break
            except BaseException as error:  # whatever it is: were this thread to end, nobody would look
                self._falter(error)
                time.sleep(RECOVERY_S)
        if self._inotify:
            os.close(self._inotify.fd)

    def _look_around(self) -> bool:
        """Wait for what is next; False when no file is left."""
        with _Watcher.lock:
            files = tuple(self._files)
            if not files:
                _Watcher.current = None
                return False
        if all(time.monotonic() - file._own_commit < OWN_FOR_S for file in files):
            # Deaf to the kernel meanwhile: to be woken by each of one's own commits costs more than the commits.
            time.sleep(OWN_PAUSE_S)
        written = self._wait(min(file._next_look for file in files) - time.monotonic())
        for file in files:
            self._serve(file, time.monotonic(), file._watch in written)
        return True

    def _falter(self, error: BaseException) -> None:
        with _Watcher.lock:
            if isinstance(error, OSError):
                self._drop_inotify()
            for file in self._files:
                file.falter(error)

    def _drop_inotify(self) -> None:
        """Start anew at the next check. Not closed: whoever has closed it may have been given its number."""
        self._inotify = None
        for file in self._files:
            file._watch = None

    def _wait(self, seconds: float) -> set[int]:
        if self._inotify and not 0 < seconds < 0.001:  # poll() counts whole milliseconds
            return self._inotify.wait(max(seconds, 0))
        time.sleep(max(seconds, 0))
        return self._inotify.wait(0) if self._inotify else set()

    def _serve(self, file: FileWatch, now: float, written: bool) -> None:
        if now < file._next_look and not written:
            return
        try:
            if file._next_check <= now:
                file._next_check = now + CHECK_S
                with _Watcher.lock:
                    # Under the lock that subscribe() takes once it has subscribed: none can slip in between.
                    if not file.subscribers:
                        _Watcher.forget(file)
                        return
                    self._arm(file)
                file.check_file()
            if file.look() or written:
                file._active = now
            # A ring is no reason to stop: the events of the next commit may have come with those of this one.
            quiet = now - file._active
            if file.mode == "poll":
                pause = file._poll_s or min(max(BUSY_POLL_S, (quiet - BUSY_FOR_S) / 10), IDLE_POLL_S)
            else:
                pause = max(FIRST_LOOK_S * 2**file._burst, quiet) if quiet < SETTLE_S else CHECK_S
            file._next_look = min(file._next_check, now + pause)
            file._burst = min(file._burst + 1, CALM_ROUNDS) if written else 0
            file.failure = None
        except DatabaseReplaced as error:
            file.give_up(error)
        except Exception as error:
            file.falter(error)


_files: weakref.WeakSet[FileWatch] = weakref.WeakSet()
_forking = threading.Lock()
_held: list[threading.RLock] = []


def _hold_still() -> None:
    """Have no look under way at a fork, so that a child can let go of the connections."""
    _forking.acquire()
    _held.extend(file._lock for file in list(_files))
    for lock in _held:
        lock.acquire()


def _move_on() -> None:
    while _held:
        _held.pop().release()
    _forking.release()


def _start_anew() -> None:
    _move_on()
    _Watcher.start_anew_in_child()


if sys.platform != "win32":
    os.register_at_fork(before=_hold_still, after_in_parent=_move_on, after_in_child=_start_anew)
