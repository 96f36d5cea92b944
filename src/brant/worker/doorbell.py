"""What the thread of a bench waits for: those who ring, and commits for as long as they matter."""

from __future__ import annotations

import time

from brant.storage.base import Storage
from brant.storage.subscription import Subscribers, Subscription

# When commits that bring nothing follow each other so fast, and so many of them: how long they are taken together.
_SOON_S = 0.02
_SEVERAL = 8
_REST_S = 0.005


class Doorbell:
    """Rung from any thread; the rest is for the one that waits.

    To notice commits is not free, for whoever commits: so it listens to them only when it is asked to.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._own = Subscription(Subscribers())
        self._commits: Subscription | None = storage.subscribe()
        self._is_closed = False
        self._heard_at = 0.0
        self._in_vain = 0

    def ring(self) -> None:
        # In this order: a ring that came before listening began is heard there, and one that comes later here.
        self._own.ring()
        if (commits := self._commits) is not None:
            commits.ring()

    def listen(self) -> bool:
        """Notice commits from now on; False when it did not before, and there may have been some."""
        if self._commits is not None or self._is_closed:
            return True
        self._commits = self._storage.subscribe()
        return False

    def ignore_commits(self) -> None:
        commits, self._commits = self._commits, None
        if commits is not None:
            commits.close()

    def wait(self, timeout: float) -> bool:
        """For a ring, or for a commit where it listens; False when the time is over."""
        if self._commits is None:
            return self._own.wait(timeout)
        # Both are rung by a ring: it must not be heard twice.
        rung = self._own.wait(0) or self._commits.wait(timeout)
        self._own.wait(0)
        return rung

    def wait_again(self, timeout: float, *, found_nothing: bool) -> bool:
        """As `wait`, for who has looked since it heard the last time.

        A commit may have to do with any queue. Beside a busy one, whoever has nothing to do would look at each of them.
        """
        is_again_in_vain = found_nothing and time.monotonic() < self._heard_at + _SOON_S
        self._in_vain = self._in_vain + 1 if is_again_in_vain else 0
        rung = (self._in_vain > _SEVERAL and self._own.wait(_REST_S)) or self.wait(timeout)
        self._heard_at = time.monotonic()
        return rung

    def close(self) -> None:
        """Never listen to commits again."""
        self._is_closed = True
        self.ignore_commits()
