"""Circuit breakers: a host that fails again and again is left alone for a while, then tried with one request."""

from __future__ import annotations

import threading
from dataclasses import dataclass

__all__ = ["Breakers"]

_LONGEST_REST_S = 600.0


@dataclass(slots=True)
class _Host:
    failures: int = 0
    rests: int = 0
    away_until: float | None = None
    probe_until: float | None = None


class Breakers:
    """One for each host that has failed lately. Times are monotonic and are passed in.

    After `failures` in a row a host rests for `rest_s`, then one request may try; if it fails, the rest is doubled.
    None for `failures`: only what a host asks for itself is kept.
    """

    def __init__(self, failures: int | None, rest_s: float) -> None:
        self._failures = failures
        self._rest_s = rest_s
        self._hosts: dict[str, _Host] = {}
        self._lock = threading.Lock()

    def wait(self, host: str, now: float, trial_s: float) -> float | None:
        """None if a request may go; else how many seconds to stay away.

        Whoever may go while the host is on trial is its trial, for `trial_s` at most: then its outcome is not waited
        for any longer.
        """
        with self._lock:
            state = self._hosts.get(host)
            if state is None or state.away_until is None:
                return None
            if now < state.away_until:
                return state.away_until - now
            if state.probe_until is not None and now < state.probe_until:
                return state.probe_until - now
            state.probe_until = now + trial_s
            return None

    def succeeded(self, host: str) -> None:
        with self._lock:
            self._hosts.pop(host, None)

    def failed(self, host: str, now: float) -> None:
        with self._lock:
            state = self._hosts.setdefault(host, _Host())
            was_trial, state.probe_until = state.probe_until is not None, None
            if not was_trial and state.away_until is not None and now < state.away_until:
                return  # it had begun before the others failed, and tells nothing new
            state.failures += 1
            if self._failures is not None and (was_trial or state.failures >= self._failures):
                rest_s = min(self._rest_s * 2.0 ** min(state.rests, 32), _LONGEST_REST_S)
                state.rests += 1
                state.away_until = max(state.away_until or 0.0, now + rest_s)

    def asked_to_wait(self, host: str, until: float) -> None:
        """The host itself has said for how long."""
        with self._lock:
            state = self._hosts.setdefault(host, _Host())
            state.probe_until = None
            state.away_until = max(state.away_until or 0.0, until)
