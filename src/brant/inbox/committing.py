"""Group commit: requests that come at the same time share one transaction, and one sync of the disk."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from brant.errors import BrantError, DatabaseBusy, DatabaseClosed, DatabaseReplaced, StorageFull
from brant.failpoint import failpoint
from brant.inbox.records import Received
from brant.inbox.tables import written

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction

P = TypeVar("P")
Answer = Future[Received] | asyncio.Future[Received]
_MOST = 256
_IDLE_S = 5.0
_RETRY_AFTER_S = 5
_SHORT_WAIT_S = 0.002
_NEWEST = 0.2  # the weight of the last commit
_OF_THE_DATABASE = (DatabaseBusy, DatabaseClosed, DatabaseReplaced)
_logger = logging.getLogger("brant.inbox")


class Committer(Generic[P]):
    """Stores what it is given, and answers when it is on disk. Each is judged on its own: one that fails fails alone.

    While nobody commits, whoever calls `store` does so itself, as does an event loop that has nothing else to do, if
    the disk is quick. What comes meanwhile waits, and is the next group, of a thread that is there while there is work.
    """

    def __init__(self, db: Database, store: Callable[[Transaction, Sequence[P]], list[Received]]) -> None:
        self._db = db
        self._store = store
        self._pending: list[tuple[P, Answer]] = []
        self._arriving: dict[tuple[asyncio.AbstractEventLoop, bool], list[tuple[P, Answer]]] = {}
        self._usual_wait_s = _SHORT_WAIT_S  # of a commit, for locks and for the disk
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._closed = False
        self._made_in = os.getpid()

    def store(self, parcel: P) -> Received:
        """For plain functions: waits until it is stored."""
        self._refuse_child()
        with self._changed:
            self._refuse_closed()
            is_free = not self._is_busy and not self._pending
            if is_free:
                self._is_busy = True
        if not is_free:
            return self.submit(parcel).result()
        try:
            return self._answers([parcel])[0]
        finally:
            self._rest()

    async def store_async(self, parcel: P, *, own_loop: bool = False) -> Received:
        """For an event loop, which with `own_loop` may be held up for a moment.

        All that it takes on in one of its rounds is handed on together.
        """
        self._refuse_child()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Received] = loop.create_future()
        arriving = self._arriving.get((loop, own_loop))
        if arriving is None:
            arriving = self._arriving[loop, own_loop] = []
            loop.call_soon(self._hand_on, loop, own_loop)
        arriving.append((parcel, answer))
        return await answer

    def submit(self, parcel: P) -> Future[Received]:
        self._refuse_child()
        answer: Future[Received] = Future()
        answer.set_running_or_notify_cancel()  # whoever stops waiting for it can't take it out of its group
        self._add([(parcel, answer)])
        return answer

    def close(self) -> None:
        """Take nothing more; what was taken is stored first."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._is_busy or self._pending:
                self._changed.wait()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _refuse_child(self) -> None:
        if os.getpid() != self._made_in:
            # Before the lock: the thread that held it, or that would answer, is the parent's.
            raise DatabaseClosed("this Inbox was made in another process, before a fork; make one in this process")

    def _refuse_closed(self) -> None:
        if self._closed:
            raise DatabaseClosed("the Inbox is closed")

    def _hand_on(self, loop: asyncio.AbstractEventLoop, own_loop: bool) -> None:
        arrived = self._arriving.pop((loop, own_loop))
        try:
            if not (own_loop and self._is_stored_here(arrived)):
                self._add(arrived)
        except DatabaseClosed as error:
            _resolve([(answer, unavailable(type(error).__name__)) for _, answer in arrived])

    def _is_stored_here(self, arrived: list[tuple[P, Answer]]) -> bool:
        """False when that would take a while, or goes wrong: the thread takes its time, and tells them apart."""
        if self._usual_wait_s >= _SHORT_WAIT_S or len(arrived) > _MOST:
            return False
        with self._changed:
            if self._is_busy or self._pending or self._closed:
                return False
            self._is_busy = True
        try:
            with self._noting_the_wait():
                answers = self._committed([parcel for parcel, _ in arrived], wait=False)
        except Exception:
            return False
        finally:
            self._rest()
        _resolve([(waiting, answer) for (_, waiting), answer in zip(arrived, answers, strict=True)])
        return True

    def _add(self, several: list[tuple[P, Answer]]) -> None:
        with self._changed:
            self._refuse_closed()
            self._pending += several
            self._call_thread()

    def _call_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="brant-inbox-commit", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _rest(self) -> None:
        with self._changed:
            self._is_busy = False
            if self._pending:
                self._call_thread()
            self._changed.notify_all()

    def _run(self) -> None:
        while group := self._next_group():
            with self._noting_the_wait():
                answers = self._answers([parcel for parcel, _ in group])
            _tell([answer for _, answer in group], answers)
            self._rest()

    def _next_group(self) -> list[tuple[P, Answer]]:
        with self._changed:
            while self._is_busy or not self._pending:
                is_over = self._closed and not self._is_busy
                if is_over or not (self._changed.wait(_IDLE_S) or self._is_busy or self._pending):
                    # Under the lock: whoever submits next sees that a new thread is needed.
                    self._thread = None
                    return []
            self._is_busy = True
            group, self._pending = self._pending[:_MOST], self._pending[_MOST:]
            return group

    def _answers(self, parcels: list[P]) -> list[Received]:
        """Never raises, but for what ends the thread."""
        try:
            return self._committed(parcels)
        except _OF_THE_DATABASE as error:
            _logger.warning("the inbox answers 503: %s", error)
            return [unavailable(type(error).__name__)] * len(parcels)
        except Exception as error:
            if len(parcels) > 1:
                # One of them can't be stored, or is too large for the room that is left, and the others not.
                return [answer for parcel in parcels for answer in self._answers([parcel])]
            if isinstance(error, StorageFull):
                return [unavailable(str(error))]
            _logger.exception("the inbox could not store a request")
            return [unavailable(f"{type(error).__name__}{'' if isinstance(error, BrantError) else ' while storing'}")]

    def _committed(self, parcels: list[P], *, wait: bool = True) -> list[Received]:
        def store(tx: Transaction) -> list[Received]:
            answers = self._store(tx, parcels)
            failpoint("inbox.before_commit")
            return answers

        answers = written(self._db, store, wait=wait)
        failpoint("inbox.after_commit")
        return answers

    @contextmanager
    def _noting_the_wait(self) -> Iterator[None]:
        begun, worked = time.perf_counter(), time.thread_time()
        yield
        waited_s = (time.perf_counter() - begun) - (time.thread_time() - worked)
        self._usual_wait_s += _NEWEST * (waited_s - self._usual_wait_s)


def _tell(waiting: Sequence[Answer], answers: Sequence[Received]) -> None:
    """In one call for each event loop: to wake it costs more than to answer."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Received], Received]]] = {}
    for future, answer in zip(waiting, answers, strict=True):
        if isinstance(future, Future):
            future.set_result(answer)
        else:
            by_loop.setdefault(future.get_loop(), []).append((future, answer))
    for loop, several in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, several)
        except RuntimeError:
            pass  # it was closed: nobody waits there any more


def _resolve(several: Sequence[tuple[Answer, Received]]) -> None:
    for future, answer in several:
        if not future.done():  # whoever waited may have gone
            future.set_result(answer)


def unavailable(reason: str) -> Received:
    """Not stored: the sender shall try again."""
    return Received(503, reason=reason, retry_after_s=_RETRY_AFTER_S)
