"""The wish that a worker stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Stop:
    """Asked for in any thread, and by signal handlers; `heeded` and `now` are for those who wait on the event loop."""

    def __init__(self) -> None:
        self.asked = False
        self.heeded = asyncio.Event()
        self.now = asyncio.Event()
        self._now_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def ask(self, *, now: bool = False) -> None:
        # Noted first: either the loop is there and told, or it finds the note when it comes.
        self.asked = True
        self._now_asked |= now
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended, and its loop is closed
                self._loop.call_soon_threadsafe(self._heed)

    def tell(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have this loop heed it; called on the loop."""
        self._loop = loop
        self._heed()

    def _heed(self) -> None:
        if self.asked:
            self.heeded.set()
        if self._now_asked:
            self.now.set()
