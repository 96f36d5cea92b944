"""What happens in a worker, told to whoever wants to know: logs, metrics, traces."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from brant.arguments import storable

Observer = Callable[["WorkerEvent"], None]
# The kinds that end an attempt; each attempt has one of them.
OUTCOMES = frozenset({"success", "retry", "snooze", "cancel", "dead", "release", "lost"})
_LEVELS = {"dead": logging.WARNING, "lost": logging.WARNING, "trouble": logging.WARNING, "retry": logging.INFO}
_logger = logging.getLogger("brant.worker")


@dataclass(frozen=True)
class WorkerEvent:
    """One thing that happened: start, success, retry, snooze, cancel, dead, release, renew, lost, trouble, stop.

    `facts` of a start has the `call`: what the job's payload says of task and arguments, and whatever came with it.
    """

    kind: str
    queue: str
    job_id: int | None = None
    task: str | None = None
    attempt: int | None = None
    duration_s: float | None = None
    error: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Observers:
    """Tells each observer, and the log; one that fails is logged and stops nobody.

    An observer may have `wanted_kinds`, a frozenset: it needs no other events. What nobody needs is not made.
    """

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._wanted: frozenset[str] | None = frozenset()
        for observer in observers:
            kinds = getattr(observer, "wanted_kinds", None)
            self._wanted = self._wanted | kinds if self._wanted is not None and isinstance(kinds, frozenset) else None

    def want(self, kind: str) -> bool:
        """Whether anybody is there to be told of events of that kind."""
        return self._wanted is None or kind in self._wanted or _logger.isEnabledFor(_LEVELS.get(kind, logging.DEBUG))

    def tell(self, event: WorkerEvent) -> None:
        level = _LEVELS.get(event.kind, logging.DEBUG)
        if _logger.isEnabledFor(level):
            self._log(level, event)
        for observer in self._observers:
            try:
                observer(event)
            except Exception:
                _logger.exception("an observer of the worker failed")

    def _log(self, level: int, event: WorkerEvent) -> None:
        reason = storable((event.error or "").strip().partition("\n")[0])
        _logger.log(
            level,
            "%s queue=%s job=%s task=%s attempt=%s %s",
            event.kind,
            event.queue,
            event.job_id,
            event.task,
            event.attempt,
            reason,
            extra={"brant": event},
        )
