"""A lock by name, held in the database: one holder among all processes."""

from __future__ import annotations

import threading
import uuid
from types import TracebackType

from brant.arguments import label, seconds
from brant.errors import BrantError, LockHeld, TransactionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from brant.database import Database


class Lock:
    """Held for the length of a `with` block; `LockHeld` when somebody else has it.

    Renewed in the background at a third of `ttl`, so the block may take longer. After a crash it is free again when
    `ttl` is over. If it is lost all the same (the process was stopped for longer than `ttl`), `lost` tells, and the
    thread that renews it calls `on_lost`; without that it logs a warning.
    """

    def __init__(self, db: Database, name: str, ttl: float = 60, owner: str | None = None, wait: float = 0) -> None:
        self.db = db
        self.name = label(name, "lock name")
        self.ttl = seconds(ttl, "ttl", above=0)
        self.owner = uuid.uuid4().hex if owner is None else label(owner, "owner")
        self.acquired = False
        self.lost = False
        self.on_lost: Callable[[], object] | None = None
        self._wait = seconds(wait, "wait", minimum=0)
        # In the database all users of this object are one owner, so it is up to the object to keep them apart.
        self._in_use = threading.Lock()
        self._released = threading.Event()
        self._renewer: threading.Thread | None = None

    def __enter__(self) -> Self:
        if not self._in_use.acquire(timeout=min(self._wait, threading.TIMEOUT_MAX)):
            raise self._held()
        try:
            if not self._acquire_within(self._wait):
                raise self._held()
        except BaseException:
            self._in_use.release()
            raise
        self.acquired = True
        self.lost = False
        self._released.clear()
        self._renewer = threading.Thread(target=self._keep_renewing, name=f"brant-lock-{self.name}", daemon=True)
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.acquired = False
        self._released.set()
        if self._renewer is not None:
            self._renewer.join()
        try:
            with self.db._storage.transaction() as session:
                session.release_lock(self.name, self.owner)
        finally:
            self._in_use.release()

    def renew(self, ttl: float | None = None) -> bool:
        """Hold it for `ttl` seconds from now; False when it is not held (any more)."""
        if not self.acquired or self.lost:
            return False
        with self.db._storage.transaction() as session:
            held = session.renew_lock(self.name, self.owner, self.ttl if ttl is None else seconds(ttl, "ttl", above=0))
        self.lost = not held
        return held

    def _acquire_within(self, wait: float) -> bool:
        storage = self.db._storage
        if storage.in_transaction():
            raise TransactionError("db.lock() inside a transaction: its holder could not release it; take it before")
        deadline = storage.clock.monotonic() + wait
        subscription = storage.subscribe() if wait else None
        try:
            while True:
                with storage.reading() as session:
                    holder = session.lock_holder(self.name)
                if holder is None or holder[0] == self.owner or holder[1] <= storage.clock.now():
                    with storage.transaction() as session:
                        if session.acquire_lock(self.name, self.owner, self.ttl):
                            return True
                        holder = session.lock_holder(self.name)
                left = deadline - storage.clock.monotonic()
                if subscription is None or left <= 0:
                    return False
                until_free = max(0.01, holder[1] - storage.clock.now()) if holder else 0.01
                subscription.wait(min(left, until_free))
        finally:
            if subscription is not None:
                subscription.close()

    def _held(self) -> LockHeld:
        return LockHeld(f"the lock {self.name!r} is held by another; try again later, or pass wait= seconds")

    def _keep_renewing(self) -> None:
        # A renewal that can't reach the database is tried again: the lock is lost only when the database says so.
        while not self._released.wait(self.ttl / 3) and not self.lost:
            try:
                self.renew()
            except BrantError as error:
                _log_renewal_failure(self.name, error)
        if not self.lost or self._released.is_set():
            return
        if self.on_lost is not None:
            self.on_lost()
        else:
            _log_renewal_failure(self.name, LockHeld("it ran out or was taken over"))


def _log_renewal_failure(name: str, error: BrantError) -> None:
    import logging

    logging.getLogger("brant.lock").warning("the lock %r could not be renewed: %s", name, error)
