"""What an answer means for the job: done, again later, or never."""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import parsedate_to_datetime

from brant.arguments import whole
from brant.inbox.outgoing.wire import Answered
from brant.outcomes import Dead

__all__ = ["Refused", "is_worth_a_retry", "retry_after_s", "statuses"]

# 409, 423 and 425 tell of a state that passes; 408, 421 and 429 of a request that came at the wrong time or place.
_PASSING = frozenset({408, 409, 421, 423, 425, 429})
# The server says that it will never do this.
_NEVER = frozenset({501, 505})
_LONGEST_S = 86_400.0


class Refused(Dead):
    """The receiver has answered, and will not answer otherwise: `status`, and the `beginning` of what it wrote."""

    def __init__(self, reason: str, status: int, beginning: bytes) -> None:
        super().__init__(reason)
        self.status = status
        self.beginning = beginning


def is_worth_a_retry(status: int, also: frozenset[int]) -> bool:
    return status in also or status in _PASSING or (status >= 500 and status not in _NEVER)


def statuses(given: Iterable[int]) -> frozenset[int]:
    return frozenset(whole(status, "a status of retry_statuses", minimum=300, maximum=599) for status in given)


def retry_after_s(answered: Answered, now: float) -> float | None:
    """Seconds to wait as the receiver asks, a day at most; None if it asks for nothing, or for what is no time."""
    text = (answered.retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), _LONGEST_S)
    until = _moment(text)
    if until is None:
        return None
    # By the receiver's own clock where it tells the time: only the difference counts.
    told = _moment(answered.date or "")
    return min(max(0.0, until - (now if told is None else told)), _LONGEST_S)


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
