"""One commit for quick handlers that are due at the same time: each of them succeeds or fails alone."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from brant.inbox.tables import run

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction

Work = Callable[["Transaction"], None]
_MOST = 64
_LONGEST_S = 0.010  # of a shared transaction, but for the last handler in it
_QUICK_S = 0.001
_NEWEST = 0.3  # the weight of the last run
_UNFIT_S = 1e9


class Spoilt(Exception):
    """The shared transaction failed as a whole: nothing of anybody was written, and each may try alone."""


class Paces:
    """How long each handler takes, by its last runs: those that are not known, or were slow, share nothing."""

    def __init__(self) -> None:
        self._of: dict[int, float] = {}

    def is_quick(self, handler: object) -> bool:
        return self._of.get(id(handler), _QUICK_S) < _QUICK_S

    def took(self, handler: object, seconds: float) -> None:
        known = self._of.get(id(handler))
        self._of[id(handler)] = seconds if known is None else known + _NEWEST * (seconds - known)

    def is_unfit(self, handler: object) -> None:
        """To share; for a long while, until so much has been forgotten."""
        self._of[id(handler)] = _UNFIT_S


class _Member:
    def __init__(self, work: Work) -> None:
        self.work = work
        self.variables = contextvars.copy_context()
        self.error: BaseException | None = None
        self.called = threading.Event()
        self.must_lead = False


class Sharing:
    """Whoever comes first leads: it opens the transaction, and runs in it what all the others bring until it commits.

    A savepoint for each. To hold the write lock once for many costs little more than to hold it for one of them.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._waiting: deque[_Member] = deque()
        self._has_leader = False

    def run(self, work: Work) -> None:
        """Returns when what `work` wrote is committed. Raises what it raised, which is undone; or Spoilt."""
        member = _Member(work)
        with self._lock:
            self._waiting.append(member)
            leads, self._has_leader = not self._has_leader, True
        if not leads:
            member.called.wait()
        if leads or member.must_lead:
            self._lead()
        if member.error is not None:
            raise member.error

    def _lead(self) -> None:
        # Its own work is the oldest that waits.
        group = [self._waiting.popleft()]
        try:
            with self._db.transaction() as tx:
                self._run_all(tx, group)
        except BaseException as error:
            for member in group:
                member.error = Spoilt(type(error).__name__)
                member.error.__cause__ = error
        finally:
            self._hand_over(group)

    def _run_all(self, tx: Transaction, group: list[_Member]) -> None:
        begun, done = time.monotonic(), 0
        while done < len(group):
            _run_one(tx, group[done])
            done += 1
            if done < _MOST and time.monotonic() - begun < _LONGEST_S and (member := self._next()) is not None:
                group.append(member)

    def _next(self) -> _Member | None:
        if not self._waiting:
            time.sleep(0)  # those that come at the same time, and need the GIL for it: the more, the fewer commits
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _hand_over(self, group: list[_Member]) -> None:
        with self._lock:
            successor = self._waiting[0] if self._waiting else None
            self._has_leader = successor is not None
        if successor is not None:
            successor.must_lead = True
            successor.called.set()
        for member in group:
            member.called.set()


def _run_one(tx: Transaction, member: _Member) -> None:
    run(tx, "begin_one")
    try:
        member.variables.run(member.work, tx)
    except BaseException as error:
        member.error = error
        # Where the whole transaction is gone this raises, and so for all.
        run(tx, "undo_one")
    run(tx, "end_one")
