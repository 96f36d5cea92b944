"""How a thread or a task waits until something may have changed.

A storage backend rings; a waiter wakes up and reads for itself. Nothing here takes a lock that a ring could
wait for, so a slow or forgotten waiter never slows down a writer.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial


class Subscription:
    """One waiter's doorbell. Rings coalesce: any number of rings before a wait are one.

    A thread or a task may wait, one at a time. Dropping the object ends the subscription, as close() does.
    """

    __slots__ = ("__weakref__", "_bell", "_closed", "_failure", "_nudge", "_subscribers")

    def __init__(self, subscribers: Subscribers) -> None:
        self._subscribers = subscribers
        # A lock as a semaphore of one: held while silent, released by a ring, taken by the wait that answers it.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._nudge: Callable[[], object] | None = None
        self._failure: BaseException | None = None
        self._closed = False

    def wait(self, timeout: float | None) -> bool:
        """Block until the next ring; False when `timeout` seconds passed first, or when closed."""
        limit = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        return self._answer(self._bell.acquire(timeout=limit))

    async def wait_async(self, timeout: float | None) -> bool:
        """The same for a task. A wait that is cancelled leaves the ring for the next one."""
        import asyncio  # whoever gets here has it already; a command line that never does must not pay for it

        nudged = asyncio.Event()
        self._nudge = partial(asyncio.get_running_loop().call_soon_threadsafe, nudged.set)
        try:
            # The nudge is in place before the bell is tried: a ring either is in the bell by now, or will nudge.
            rung = self._bell.acquire(blocking=False)
            if not rung:
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout):
                        await nudged.wait()
                rung = self._bell.acquire(blocking=False)
        finally:
            self._nudge = None
        return self._answer(rung)

    def ring(self) -> None:
        """Wake the waiter, or the next one to come. Any thread may call this; it never blocks."""
        try:
            self._bell.release()
        except RuntimeError:
            return  # rung already, and not yet answered
        if nudge := self._nudge:
            with suppress(RuntimeError):  # the loop was closed, and its task is gone with it
                nudge()

    def fail(self, error: BaseException) -> None:
        """Wake the waiter with `error`, which every later wait raises too."""
        self._failure = error
        self.ring()

    def close(self) -> None:
        """End the subscription: whoever waits wakes up with False."""
        self._closed = True
        self._subscribers.leave(self)
        self.ring()

    def _answer(self, rung: bool) -> bool:
        if self._failure is None and not self._closed:
            return rung
        self.ring()  # an ended doorbell stays rung, so that no later wait blocks
        if self._failure is not None:
            raise _copy(self._failure) from self._failure.__cause__
        return False


class Subscribers:
    """All the doorbells of one database: weakly held, so dropping a Subscription ends it.

    Without a lock, since a set's own methods are atomic and a garbage collection may call discard() at any moment.
    """

    def __init__(self) -> None:
        self._doorbells: set[weakref.ref[Subscription]] = set()
        self._failure: BaseException | None = None

    def subscribe(self) -> Subscription:
        """A new doorbell; raises the failure if there was one."""
        subscription = Subscription(self)
        self._doorbells.add(weakref.ref(subscription, self._doorbells.discard))
        # Added first, then checked: fail_all() does the reverse, so one of the two sees the other.
        if self._failure is not None:
            self.leave(subscription)
            raise _copy(self._failure) from self._failure.__cause__
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Ring this one no more."""
        self._doorbells.discard(weakref.ref(subscription))

    def ring_all(self) -> None:
        """Ring every doorbell."""
        for doorbell in self._doorbells.copy():
            if subscription := doorbell():
                subscription.ring()

    def fail_all(self, error: BaseException) -> None:
        """Fail every doorbell, and whoever subscribes later."""
        self._failure = error
        for doorbell in self._doorbells.copy():
            if subscription := doorbell():
                self.leave(subscription)
                subscription.fail(error)

    def __len__(self) -> int:
        return len(self._doorbells)


def _copy(failure: BaseException) -> BaseException:
    """Several waiters raise it at once, and one object would collect all their tracebacks."""
    import copy

    return copy.copy(failure)
