"""Group commit: requests that come at the same time share one transaction, and one sync of the disk."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

from brant.errors import BrantError, DatabaseClosed, StorageFull
from brant.failpoint import failpoint
from brant.inbox.records import Received
from brant.inbox.tables import run

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction

P = TypeVar("P")
_MOST = 256
_IDLE_S = 5.0
_RETRY_AFTER_S = 5
_logger = logging.getLogger("brant.inbox")


class Committer(Generic[P]):
    """Stores what is submitted, in a thread that is there while there is work.

    What is answered is on disk. Each is judged on its own: one that fails is undone alone.
    """

    def __init__(self, db: Database, store: Callable[[Transaction, P], Received]) -> None:
        self._db = db
        self._store = store
        self._pending: list[tuple[P, Future[Received]]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.is_committing = False
        self._made_in = os.getpid()

    def submit(self, parcel: P) -> Future[Received]:
        if os.getpid() != self._made_in:
            # Before the lock: the thread that held it, or that would answer, is the parent's.
            raise DatabaseClosed("this Inbox was made in another process, before a fork; make one in this process")
        answer: Future[Received] = Future()
        answer.set_running_or_notify_cancel()  # whoever stops waiting for it can't take it out of its group
        with self._changed:
            if self._closed:
                raise DatabaseClosed("the Inbox is closed")
            self._pending.append((parcel, answer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="brant-inbox-commit", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return answer

    def close(self) -> None:
        """Take nothing more; what was taken is stored first."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._commit(group)
            except BaseException as error:
                _logger.exception("the inbox could not store what it had received")
                for _, answer in group:
                    if not answer.done():
                        answer.set_result(unavailable(f"{type(error).__name__} while storing"))

    def _next_group(self) -> list[tuple[P, Future[Received]]]:
        with self._changed:
            self.is_committing = False
            if not self._pending and not self._closed:
                self._changed.wait(_IDLE_S)
            group, self._pending = self._pending[:_MOST], self._pending[_MOST:]
            self.is_committing = bool(group)
            self._changed.notify_all()
            if not group:
                # Under the lock: whoever submits next sees that a new thread is needed.
                self._thread = None
            return group

    def _commit(self, group: list[tuple[P, Future[Received]]]) -> None:
        try:
            with self._db.transaction() as tx:
                answers = [self._stored(tx, parcel, alone=len(group) == 1) for parcel, _ in group]
                failpoint("inbox.before_commit")
            failpoint("inbox.after_commit")
        except StorageFull as error:
            if len(group) == 1:
                answers = [unavailable(str(error))]
            else:
                # One of them may be too large for the room that is left, and the others not.
                for one in group:
                    self._commit([one])
                return
        except BrantError as error:
            _logger.warning("the inbox answers 503: %s", error)
            answers = [unavailable(type(error).__name__)] * len(group)
        for (_, future), answer in zip(group, answers, strict=True):
            future.set_result(answer)

    def _stored(self, tx: Transaction, parcel: P, *, alone: bool) -> Received:
        if alone:
            return self._store(tx, parcel)
        run(tx, "begin_one")
        try:
            answer = self._store(tx, parcel)
        except StorageFull:
            raise
        except Exception as error:
            # Where the whole transaction is gone this raises too, and so for all.
            run(tx, "undo_one")
            _logger.exception("the inbox could not store a request")
            answer = unavailable(f"{type(error).__name__} while storing")
        run(tx, "end_one")
        return answer


def unavailable(reason: str) -> Received:
    """Not stored: the sender shall try again."""
    return Received(503, reason=reason, retry_after_s=_RETRY_AFTER_S)
