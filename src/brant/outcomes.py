"""What a task may answer instead of a value, or raise: what shall become of its job."""

from __future__ import annotations

from brant.errors import Retryable

__all__ = ["Cancel", "Dead", "Outcome", "Retry", "Snooze"]


class Outcome(Exception):
    """The base; each can be returned or raised."""


class Retry(Outcome):
    """Again after that many seconds, or after the task's own delay; dead when no attempt is left."""

    def __init__(self, after_s: float | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after_s = after_s
        self.reason = reason


class Snooze(Outcome):
    """Again after that many seconds; no attempt is used."""

    def __init__(self, for_s: float) -> None:
        super().__init__(f"snoozed for {for_s} s")
        self.for_s = for_s


class Cancel(Outcome):
    """Done without a result: the job is removed."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Dead(Outcome):
    """Never again: a dead letter with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def outcome_of(error: BaseException) -> Outcome | None:
    """The outcome that an exception asks for, if it asks for one."""
    if isinstance(error, Retryable):
        return Retry(error.delay_s, str(error))
    return error if isinstance(error, Outcome) else None
