"""Keeping leases: a thread renews them, so that a task which blocks the event loop does not lose its job."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from brant.clock import Clock
from brant.job import Job

_RENEWALS_PER_LEASE = 3
_RETRY_PAUSE_S = 0.2


class Lease:
    """The lease of one job, as far as this worker can be sure of it."""

    def __init__(
        self, job: Job, claimed_at: float, on_renewal: Callable[[], None], on_loss: Callable[[str], None]
    ) -> None:
        self.job = job
        self.on_renewal = on_renewal
        self.on_loss = on_loss
        self.length_s = job.queue.visibility_timeout_s
        self.held_until = self.renew_at = 0.0
        self.renewed(claimed_at)

    def renewed(self, asked_at: float) -> None:
        """Counted from before the database did it: its own count can only end later."""
        self.held_until = asked_at + self.length_s
        self.renew_at = asked_at + self.length_s / _RENEWALS_PER_LEASE


class LeaseKeeper:
    """Renews every lease at a third of its length, in one thread that starts with the first of them."""

    def __init__(self, clock: Clock, on_trouble: Callable[[Job, str], None]) -> None:
        self._monotonic = clock.monotonic
        self._forget_clock = clock.on_change(self._look_again)
        self._on_trouble = on_trouble
        self._leases: set[Lease] = set()
        self._lock = threading.Lock()  # taken by itself, it costs a fraction of what the condition does
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._sleeps_until = 0.0
        self._ended = False

    def keep(self, lease: Lease) -> None:
        with self._lock:
            self._leases.add(lease)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="brant-leases", daemon=True)
                self._thread.start()
            # Not for each job: most have a longer lease left than those before them.
            if lease.renew_at < self._sleeps_until:
                self._changed.notify_all()

    def drop(self, lease: Lease) -> None:
        with self._lock:
            self._leases.discard(lease)

    def end(self) -> None:
        """Renew nothing more; does not wait for a renewal that is under way."""
        self._forget_clock()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while (lease := self._next_to_renew()) is not None:
            self._renew(lease)

    def _next_to_renew(self) -> Lease | None:
        with self._changed:
            while not self._ended:
                lease = min(self._leases, key=lambda lease: lease.renew_at, default=None)
                left = None if lease is None else lease.renew_at - self._monotonic()
                if left is not None and left <= 0:
                    return lease
                self._sleeps_until = math.inf if lease is None else lease.renew_at
                self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
            return None

    def _renew(self, lease: Lease) -> None:
        asked_at = self._monotonic()
        try:
            held = lease.job.heartbeat()
        except Exception as error:
            # Unknown is not lost: tried again until the lease must have run out.
            self._on_trouble(lease.job, f"the lease could not be renewed: {error}")
            lease.renew_at = self._monotonic() + min(_RETRY_PAUSE_S, lease.length_s / _RENEWALS_PER_LEASE)
            held = lease.renew_at < lease.held_until
        else:
            if held:
                lease.renewed(asked_at)
                lease.on_renewal()
        if not held:
            self.drop(lease)
            lease.on_loss("the lease ran out, or the job was taken over or cancelled")
