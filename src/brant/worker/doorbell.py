"""What the thread of a bench waits for: those who ring, and commits for as long as they matter."""

from __future__ import annotations

from brant.storage.base import Storage
from brant.storage.subscription import Subscribers, Subscription


class Doorbell:
    """Rung from any thread; the rest is for the one that waits.

    To notice commits is not free, for whoever commits: so it listens to them only when it is asked to.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._own = Subscription(Subscribers())
        self._commits: Subscription | None = storage.subscribe()
        self._is_closed = False

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

    def close(self) -> None:
        """Never listen to commits again."""
        self._is_closed = True
        self.ignore_commits()
