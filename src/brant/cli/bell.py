"""One thing to wait for: a signal, the end of a child process, a commit."""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress

from brant.errors import BrantError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from brant.channel import UpdateEvents


class Bell:
    """Rings through a pipe, which signals can write to at any moment without taking a lock."""

    def __init__(self, commits: UpdateEvents) -> None:
        self.stop_requests = 0
        self._commits = commits
        self._failure: BrantError | None = None
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._count)
        # Not ignored, as it is by default, so that it rings.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        threading.Thread(target=self._ring_for_commits, name="brant-bell", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The pipe stays: the thread may be writing to it just now.
        self._commits.close()

    def wait(self, seconds: float) -> None:
        """Until something happens or the time is over. Raises when the database can't be watched any more."""
        select.select([self._reader], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._reader, select.PIPE_BUF)
        if self._failure is not None:
            raise self._failure

    def _count(self, *_: object) -> None:
        self.stop_requests += 1

    def _ring_for_commits(self) -> None:
        try:
            while self._commits.wait():
                self._ring()
        except BrantError as error:
            self._failure = error
            self._ring()

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # full: it rings already
            os.write(self._writer, b"\0")
