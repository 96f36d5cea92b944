"""Threads for plain functions: as many as are needed at once, each of them used again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

Report = Callable[[], None]
Work = Callable[[], Report]
_IDLE_NAME = "brant-hand"


class Hands:
    """Runs each work in a thread, and what it returns when the thread is free for the next.

    Daemons: a function that heeds nothing must not keep the process from ending. A thread that runs something has the
    name of that, so that whoever lists the threads sees what still runs.
    """

    def __init__(self) -> None:
        self._idle: deque[_Hand] = deque()
        self._ended = False

    def run(self, name: str, work: Work) -> None:
        try:
            hand = self._idle.pop()
        except IndexError:
            hand = _Hand(self._is_free)
        hand.take(name, work)

    def end(self) -> None:
        """Idle threads end now, the others when they are done."""
        self._ended = True
        while self._idle:
            self._idle.pop().dismiss()

    def _is_free(self, hand: _Hand) -> bool:
        """Whether it shall wait for more."""
        self._idle.append(hand)
        # Added first, then checked: end() does the reverse, so one of the two sees the other.
        return not self._ended


class _Hand:
    def __init__(self, is_free: Callable[[_Hand], bool]) -> None:
        self._is_free = is_free
        self._tasks: SimpleQueue[tuple[str, Work] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=_IDLE_NAME, daemon=True)
        self._thread.start()

    def take(self, name: str, work: Work) -> None:
        self._tasks.put((name, work))

    def dismiss(self) -> None:
        self._tasks.put(None)

    def _run(self) -> None:
        goes_on = True
        while goes_on and (task := self._tasks.get()) is not None:
            self._thread.name, work = task
            report = work()
            self._thread.name = _IDLE_NAME
            # Free before the end is told: what follows from that is given to this thread, and to no new one.
            goes_on = self._is_free(self)
            report()
            del task, work, report  # an idle thread keeps no job alive
