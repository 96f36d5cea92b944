"""Linux's notes of writes to a file, set on its path: no descriptor on the file is opened."""

from __future__ import annotations

import os

IN_MODIFY = 0x2


class Inotify:
    """The few calls that are needed. A watch is set on a path and opens no descriptor on the file."""

    def __init__(self) -> None:
        import ctypes
        import select

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno
        self.fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._events = select.poll()
        self._events.register(self.fd, select.POLLIN)

    def watch(self, path: str) -> int:
        return self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), IN_MODIFY))

    def unwatch(self, watch: int) -> None:
        self._libc.inotify_rm_watch(self.fd, watch)

    def interrupt(self, path: str) -> None:
        """End a wait() in another thread: the kernel confirms the end of any watch with an event."""
        self.unwatch(self._libc.inotify_add_watch(self.fd, os.fsencode(path), IN_MODIFY))

    def wait(self, seconds: float) -> set[int]:
        """The watches whose files were written to, once there are any or the time is over."""
        events = os.read(self.fd, 1 << 16) if self._events.poll(seconds * 1000) else b""
        # An event is four integers, the watch first; a name would follow in those of a directory only.
        return set(memoryview(events).cast("i")[::4])

    def _checked(self, result: int) -> int:
        if result < 0:
            raise OSError(self._errno(), os.strerror(self._errno()))
        return result
