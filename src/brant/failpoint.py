"""Points at which a test can have this process fail: `BRANT_FAILPOINT=claim.after:kill`.

The variable holds `point:action`, several of them with commas; `@n` behind an action waits for the n-th time that the
point is reached. It is read once, at import.
"""

from __future__ import annotations

import os
import signal
from itertools import count

from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = ("claim", "handler", "ack", "retry", "dead")
_PIPELINE_POINTS = (
    "sink.before_commit",
    "sink.after_commit",
    "archive.before_write",
    "archive.after_write",
    "archive-deliveries.before_write",
    "archive-deliveries.after_write",
    "archive-attempts.before_write",
    "archive-attempts.after_write",
    "refine.before_write",
    "refine.after_write",
    "lake.before_moves",
    "lake.between_moves",
    "lake.after_moves",
    "compact.before_swap",
    "compact.between_swaps",
    "compact.after_swaps",
    "compact.after_log",
)
_INBOX_POINTS = ("inbox.before_commit", "inbox.after_commit")
POINTS = (*(f"{step}.{side}" for step in _STEPS for side in ("before", "after")), *_PIPELINE_POINTS, *_INBOX_POINTS)
_EXIT_CODE = 70


class _Fault:
    """What happens at a point: each time, or the n-th time only."""

    def __init__(self, action: Callable[[str], None], only_at: int | None) -> None:
        self._action = action
        self._only_at = only_at
        self._times = count(1)  # atomic: threads may get here at once

    def reach(self, point: str) -> None:
        if self._only_at in (None, next(self._times)):
            self._action(point)


def failpoint(point: str) -> None:
    """Fail here if that was asked for."""
    if _faults and (fault := _faults.get(point)) is not None:
        fault.reach(point)


def _kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_all(point: str) -> None:
    """As `kill`, with all processes of this session that the same setting holds for: none is left to clean up."""
    others = _under_the_setting() - {os.getpid()}
    while others:
        for process in others:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        others = _under_the_setting() - {os.getpid()}  # those that were born meanwhile
    _kill(point)


def _under_the_setting() -> set[int]:
    """Nobody where the system doesn't tell; a process that has ended has no environment any more."""
    setting = f"BRANT_FAILPOINT={os.environ['BRANT_FAILPOINT']}".encode()
    found = set()
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        try:
            if name.isdigit() and os.getsid(int(name)) == os.getsid(0):
                with open(f"/proc/{name}/environ", "rb") as environment:
                    if setting in environment.read().split(b"\0"):
                        found.add(int(name))
        except OSError:
            continue
    return found


def _stop(_: str) -> None:
    # To this very thread: sent to the process, it may be for a thread that is not awake yet, and this one goes on.
    signal.raise_signal(signal.SIGSTOP)


def _exit(_: str) -> None:
    os._exit(_EXIT_CODE)


def _raise(point: str) -> None:
    raise RuntimeError(f"the failpoint {point}")


_ACTIONS = {"kill": _kill, "stop": _stop, "exit": _exit, "raise": _raise, "kill-all": _kill_all}


def _parsed(setting: str) -> dict[str, _Fault]:
    return dict(_parsed_fault(words) for words in setting.split(",")) if setting else {}


def _parsed_fault(words: str) -> tuple[str, _Fault]:
    point, _, rest = words.strip().partition(":")
    action, at, number = rest.partition("@")
    if point not in POINTS:
        raise InvalidValue(f"BRANT_FAILPOINT={words}: there is no point {point!r}; there are {', '.join(POINTS)}")
    if action not in _ACTIONS:
        raise InvalidValue(f"BRANT_FAILPOINT={words}: there is no action {action!r}; there are {', '.join(_ACTIONS)}")
    if at and not (number.isascii() and number.isdigit() and int(number) > 0):
        raise InvalidValue(f"BRANT_FAILPOINT={words}: the number behind @ must be 1 or more")
    return point, _Fault(_ACTIONS[action], int(number) if at else None)


_faults = _parsed(os.environ.get("BRANT_FAILPOINT", ""))
