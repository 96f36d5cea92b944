"""How commits are noticed: this process's own at once, those of others by LISTEN, or by polling.

NOTIFY is part of the transaction that it tells of, and the server lets transactions with one commit only one after the
other. So each process sends few: for each queue or topic at once if it has sent none for a while, and otherwise one for
all that came since, a little later, by the thread that listens.
"""

from __future__ import annotations

import os
import random
import selectors
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psycopg

from brant.errors import BrantError
from brant.storage.postgres.connecting import BoundedConnection, promptly
from brant.storage.subscription import Subscribers, Subscription

QUIET_S = 0.02  # so long after a ring, further ones of the same queue are put together
SAFETY_S = 5.0  # everybody looks at least so often, whatever was not told
BUSY_POLL_S = 0.02
IDLE_POLL_S = 0.5
BUSY_FOR_S = 1.0
FIRST_PAUSE_S = 0.1  # after the connection was lost; then twice as long each time
LONGEST_PAUSE_S = 5.0
SUBSCRIBE_S = 5.0
_MOST_KEYS = 1000


class Wake:
    """The doorbells of one Database, and the connection that hears of others' commits.

    `connect` gives a connection that listens, or only polls; `send` tells the others; `mark` reads what polling
    compares.
    """

    def __init__(
        self,
        connect: Callable[[], BoundedConnection],
        send: Callable[[BoundedConnection], None],
        mark: Callable[[BoundedConnection], str] | None,
        poll_s: float | None = None,
    ) -> None:
        self.subscribers = Subscribers()
        self.origin = os.urandom(8).hex()
        self.failure: str | None = None
        self._connect = connect
        self._send = send
        self._mark = mark
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._closing = False
        self._sent_at: dict[str, float] = {}
        self._owed_at: float | None = None
        self._last_owed = 0.0
        self._interrupt_reader, self._interrupt_writer = -1, -1

    @property
    def mode(self) -> str:
        return "listen" if self._mark is None else "poll"

    def subscribe(self) -> Subscription:
        """A doorbell that rings for each commit from now on."""
        subscription = self.subscribers.subscribe()
        self._start()
        # Without a server nobody is to wait for ever: the thread goes on trying, and rings when it is there.
        self._ready.wait(SUBSCRIBE_S)
        return subscription

    def rings_now(self, keys: Iterable[str]) -> bool:
        """Whether the transaction that is about to commit is to tell the others by itself."""
        now = time.monotonic()
        with self._lock:
            if len(self._sent_at) > _MOST_KEYS:
                self._sent_at.clear()
            due = [key for key in keys if now - self._sent_at.get(key, 0.0) > QUIET_S]
            self._sent_at.update(dict.fromkeys(due, now))
            return bool(due)

    def unrung(self, key: str) -> None:
        """What was to tell the others of it did not."""
        with self._lock:
            self._sent_at.pop(key, None)

    def committed(self, *, owes_ring: bool, rang_at: float | None = None) -> None:
        """Ring for a commit of this process's own; `owes_ring`: the others are to be told a little later.

        `rang_at`: when the transaction began to tell them by itself. That pays for all that was committed before.
        """
        self.subscribers.ring_all()
        if rang_at is not None:
            with self._lock:
                if self._last_owed < rang_at:
                    self._owed_at = None
        if owes_ring:
            with self._lock:
                is_first = self._owed_at is None
                self._last_owed = time.monotonic()
                if is_first:
                    self._owed_at = self._last_owed + QUIET_S
            if is_first:
                self._start()
                self._interrupt()

    def close(self, error: BaseException) -> bool:
        """Fail every waiter with `error`; tells whether a ring is still owed to the others."""
        self._closing = True
        self.subscribers.fail_all(error)
        self._interrupt()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(SUBSCRIBE_S)
        return self._owed_at is not None

    def disown(self) -> None:
        """In a forked child: the thread and the connection are the parent's."""
        self._closing = True
        self._thread = None
        self._owed_at = None
        self._interrupt_writer = -1

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closing:
                self._interrupt_reader, self._interrupt_writer = os.pipe()
                os.set_blocking(self._interrupt_reader, False)
                os.set_blocking(self._interrupt_writer, False)
                self._thread = threading.Thread(target=self._run, name="brant-listener", daemon=True)
                self._thread.start()

    def _interrupt(self) -> None:
        if self._interrupt_writer >= 0:
            with suppress(OSError):
                os.write(self._interrupt_writer, b".")

    # In the thread

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._interrupt_reader, selectors.EVENT_READ)
            while not self._closing:
                try:
                    self._serve(selector)
                except (psycopg.Error, BrantError, OSError, ValueError) as error:
                    self._falter(error)
                    if self._ready.is_set():
                        pause_s = FIRST_PAUSE_S
                    self._ready.clear()
                    if not self._closing:
                        selector.select(pause_s * random.uniform(0.5, 1.0))
                        self._drain()
                    pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        with self._lock:
            os.close(self._interrupt_reader)
            os.close(self._interrupt_writer)
            self._interrupt_writer = -1

    def _falter(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}".partition("\n")[0]
        if problem != self.failure:
            self.failure = problem
            import logging

            logging.getLogger("brant.watcher").warning("the connection for wake-ups was lost: %s", problem)

    def _serve(self, selector: selectors.BaseSelector) -> None:
        connection = self._connect()
        try:
            connection.add_notify_handler(self._heard)
            fd = os.dup(connection.fileno())
            selector.register(fd, selectors.EVENT_READ)
            try:
                self._watch(connection, selector)
            finally:
                selector.unregister(fd)
                os.close(fd)
        finally:
            with suppress(psycopg.Error, OSError):
                connection.close()

    def _watch(self, connection: BoundedConnection, selector: selectors.BaseSelector) -> None:
        mark = self._mark(connection) if self._mark else None
        if self.failure is not None:
            self.failure = None
            self.subscribers.ring_all()  # nobody knows what was missed
        self._ready.set()
        safety_at = time.monotonic() + SAFETY_S
        active_at = 0.0
        while not self._closing:
            now = time.monotonic()
            wait_s = min(safety_at, self._owed_at or safety_at) - now
            if self._mark is not None:
                wait_s = min(wait_s, self._pause(now - active_at))
            events = selector.select(max(wait_s, 0))
            self._drain()
            if any(key.fd != self._interrupt_reader for key, _ in events):
                self._receive(connection)
            now = time.monotonic()
            if self._owed_at is not None and now >= self._owed_at:
                self._pay(connection)
            if self._mark is not None and mark != (mark := self._mark(connection)):
                active_at = now
                self.subscribers.ring_all()
            if now >= safety_at:
                with promptly(connection):
                    connection.execute("")
                self.subscribers.ring_all()
                safety_at = now + SAFETY_S

    def _pause(self, quiet_s: float) -> float:
        if self._poll_s is not None:
            return self._poll_s
        return min(max(BUSY_POLL_S, (quiet_s - BUSY_FOR_S) / 10), IDLE_POLL_S)

    def _receive(self, connection: BoundedConnection) -> None:
        connection.pgconn.consume_input()
        foreign = False
        while found := connection.pgconn.notifies():
            foreign |= found.extra.decode() != self.origin
        if foreign:
            self.subscribers.ring_all()

    def _heard(self, notify: psycopg.Notify) -> None:
        """What comes while the connection is busy with a statement."""
        if notify.payload != self.origin:
            self.subscribers.ring_all()

    def _pay(self, connection: BoundedConnection) -> None:
        with self._lock:
            owed_at, self._owed_at = self._owed_at, None
        try:
            self._send(connection)
        except BaseException:
            with self._lock:
                self._owed_at = owed_at  # by the next connection
            raise

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._interrupt_reader, 1000):
                pass
