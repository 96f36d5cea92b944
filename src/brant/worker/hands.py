"""Threads for plain functions: as many as are needed at once, each of them used again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Report = Callable[[], None]
Work = Callable[[], Report]
_IDLE_NAME = "brant-hand"


class Hands:
    """Runs each work in a thread, and then what it returns.

    Whoever has ended one takes the next; a thread that begins one calls another, if something is left to do. So what
    takes no time costs no change of threads, and what takes its time has a thread of its own. `has_more` says whether
    there is something else to do than what was added, and `on_free` does it.

    Daemons: a function that heeds nothing must not keep the process from ending. A thread that runs something has the
    name of that, so that whoever lists the threads sees what still runs.
    """

    def __init__(self, most: int, has_more: Callable[[], object], on_free: Callable[[], None]) -> None:
        self._most = most
        self._has_more = has_more
        self._on_free = on_free
        self._waiting: deque[tuple[str, Work]] = deque()
        self._idle: deque[_Hand] = deque()
        self._members: set[int] = set()
        self._hired = 0
        self._hiring = threading.Lock()
        self._is_called = False
        self._ended = False

    def add(self, name: str, work: Work) -> None:
        """To be run by the thread that gets to it: a member that asks for this does so by itself, others call one."""
        self._waiting.append((name, work))

    def call(self) -> None:
        """Have a thread look for what there is to do, unless one is on its way."""
        if self._is_called:
            return
        self._is_called = True
        try:
            hand = self._idle.pop()
        except IndexError:
            self._hire()
        else:
            hand.wake()

    def call_if_needed(self) -> None:
        if self._waiting:
            self.call()

    def is_member(self) -> bool:
        """Whether this is one of the threads."""
        return threading.get_ident() in self._members

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def end(self) -> None:
        """Idle threads end now, the others when they are done."""
        self._ended = True
        while self._idle:
            self._idle.pop().wake()

    def _hire(self) -> None:
        with self._hiring:
            if self._hired < self._most:
                try:
                    _Hand(self).start()
                    self._hired += 1
                    return
                except RuntimeError:  # there can be no more threads
                    if not self._hired:
                        self._is_called = False
                        raise
        # One of those that there are has just run something, and looks before it is idle.
        self._is_called = False

    def _take(self) -> tuple[str, Work] | None:
        try:
            task = self._waiting.popleft()
        except IndexError:
            return None
        if self._waiting or self._has_more():
            self.call()
        return task


class _Hand:
    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        # A lock as a semaphore of one: released by whoever wakes this, who has taken it from the idle ones before.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._thread = threading.Thread(target=self._run, name=_IDLE_NAME, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._bell.release()

    def _run(self) -> None:
        hands, me = self._hands, threading.get_ident()
        hands._members.add(me)
        while True:
            # Noted first, then looked: whoever did not call because this was on its way has added something before.
            hands._is_called = False
            while (task := hands._take()) is not None:
                self._work(*task)
                del task  # an idle thread keeps no job alive
            # Free before it does anything else: what follows from that is given to this thread, and to no new one.
            hands._idle.append(self)
            hands._on_free()
            if hands._waiting and self._is_up_again():
                continue
            # Added first, then checked: end() does the reverse, so one of the two sees the other.
            if hands._ended:
                hands._members.discard(me)
                return
            self._bell.acquire()

    def _work(self, name: str, work: Work) -> None:
        self._thread.name = name
        report = work()
        self._thread.name = _IDLE_NAME
        report()

    def _is_up_again(self) -> bool:
        """False when somebody has called this thread meanwhile: then the bell rings."""
        try:
            self._hands._idle.remove(self)
        except ValueError:
            return False
        return True
