"""Printing without being stuck with a slow reader; taking messages by printing them.

What is printed is removed, what can't be printed stays in the queue.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time

from brant.cli.output import stdout_descriptor, write_some
from brant.cli.payloads import Lines
from brant.errors import DatabaseBusy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import brant
    from brant.cli.stopping import StopSignals

# How long a reader of the output may take while others wait for the write lock, and how often a stop is looked for.
_PATIENCE_S = 0.02
# Batches grow while they take less than this: there may be few large messages in one, or many small ones.
_QUICK_S = 0.02
_STOP_CHECK_S = 0.1
_DRAINED_CHECK_S = 0.0005  # nothing tells when a pipe is empty
# After a stop, a line that is half out is finished as long as its reader takes more of it this often.
_GRACE_S = 1.0
# How long a message that is half out is kept from others when this process is killed.
_LEASE_S = 30.0


class Drain:
    """Prints messages of a queue, in the order in which it gives them, and removes those that are printed.

    They are printed inside the transaction that removes them, in batches that grow while they are quick. When the
    output takes no more the transaction ends with what is printed so far: nobody waits for who reads it slowly.
    A message that may not fit into the output at once is leased while it is printed, and removed when all of it is out.
    """

    def __init__(
        self,
        queue: brant.Queue,
        line_of: Callable[[brant.Message], bytes],
        stop: StopSignals,
        *,
        most: int,
        after: int | None = None,
        before: int | None = None,
    ) -> None:
        self._queue = queue
        self._format = line_of
        self._stop = stop
        self._most = most
        self._range = {"after": after, "before": before}
        self._outlet = Outlet(stdout_descriptor())
        self._size = 1

    def one(self, message_id: int | None = None) -> bool:
        """The first message, or that one; False when there is none."""
        while self._outlet.waited(self._stop):
            batch = self._printed(1, message_id)
            if batch.printed or not batch.stalled:
                return batch.printed > 0
        return False

    def all(self) -> bool:
        """All that are there, until a stop is asked for; False when there is none."""
        found = False
        while self._outlet.waited(self._stop):
            start = time.monotonic()
            batch = self._printed(self._size)
            found |= batch.printed > 0
            if not batch.stalled and batch.printed < self._size:
                break
            is_quick = not batch.stalled and time.monotonic() - start < _QUICK_S
            self._size = min(self._size * 2, self._most) if is_quick else max(1, batch.printed // 2)
        return found

    def _printed(self, limit: int, message_id: int | None = None) -> _Batch:
        batch = _Batch()
        with self._queue.consuming(limit, message_id=message_id, **self._range) as messages:
            self._print(messages, batch)
        self._outlet.finish(batch.rest, self._stop)
        if batch.large is not None:
            self._print_large(*batch.large, batch)
        return batch

    def _print(self, messages: Iterator[brant.Message], batch: _Batch, *, may_cut: bool = False) -> None:
        for message in messages:
            line = self._format(message)
            if not may_cut and not self._outlet.takes_whole(len(line)):
                batch.large, batch.stalled = (message.id, line), True
                return
            rest = self._outlet.offer(line)
            if rest is None:
                batch.stalled = True
                return
            batch.printed += 1
            if rest:
                # Half of it is out: it counts as taken, and the other half follows after the transaction.
                batch.rest, batch.stalled = rest, True
                next(messages, None)
                return

    def _print_large(self, message_id: int, line: bytes, batch: _Batch) -> None:
        job = self._leased(message_id)
        if job is None:
            with self._queue.consuming(1, message_id=message_id) as messages:
                self._print(messages, batch, may_cut=True)
            self._outlet.finish(batch.rest, self._stop)
        elif _put_under_lease(job, self._outlet, line, self._stop):
            batch.printed += 1

    def _leased(self, message_id: int) -> brant.Job | None:
        """The message, if it is one that a worker would be given now: no other can be leased, nor one that is gone."""
        try:
            with self._queue.db.transaction() as tx:
                job = self._queue.claim_one(self._queue.db.unique_worker_id(), _LEASE_S, tx=tx)
                if job is None or job.id != message_id:
                    raise _NotTheFirst
                return job
        except _NotTheFirst:
            return None


class _NotTheFirst(Exception):
    """Undoes the lease of another message."""


class _Batch:
    """What became of the messages of one transaction."""

    def __init__(self) -> None:
        self.printed = 0
        self.stalled = False
        self.rest = memoryview(b"")
        self.large: tuple[int, bytes] | None = None
        """The message that the output may not take as a whole, by its id, and its line."""


def _put_under_lease(job: brant.Job, outlet: Outlet, line: bytes, stop: StopSignals) -> bool:
    """Print it and remove it; give it back and tell False when it was cut off."""
    renew_at = time.monotonic() + _LEASE_S / 3

    def renew_if_due() -> None:
        nonlocal renew_at
        if time.monotonic() < renew_at:
            return
        renew_at = time.monotonic() + _LEASE_S / 3
        try:
            job.heartbeat(_LEASE_S)
        except DatabaseBusy:
            pass  # there is time for another try before the lease is over

    try:
        is_whole = outlet.put(line, stop, renew_if_due)
    except BaseException:
        job.release()
        raise
    if is_whole:
        job.ack()
    else:
        job.release()
    return is_whole


def _nothing() -> None:
    """Nothing is to be done while the output is waited for."""


class Outlet:
    """A descriptor that is written to without waiting for who reads it.

    A pipe that is ready takes so many bytes and no more for sure; files, terminals and the rest are always ready.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = 0
        self._is_bounded = _is_bounded(descriptor)

    def takes_whole(self, size: int) -> bool:
        """Whether `offer` will not have to cut a line of that size; waits a moment for a pipe to be drained."""
        if size <= _READY_TAKES or not self._is_bounded:
            return True
        return size <= _pipe_capacity(self._descriptor) and self._is_drained()

    def offer(self, data: bytes) -> memoryview | None:
        """Write what is taken at once and give the rest; None when nothing is taken. What fits is never cut."""
        if not self._has_room(len(data)):
            return None
        rest = self._write(memoryview(data))
        while rest and self._has_room(len(rest)):
            rest = self._write(rest)
        return rest

    def waited(self, stop: StopSignals, meanwhile: Callable[[], None] = _nothing, size: int = 1) -> bool:
        """Wait until there is room for so much, or for what is taken at once; False when a stop was asked for."""
        while not stop.requested():
            meanwhile()
            if self._has_room(size, _STOP_CHECK_S):
                return True
        return False

    def put(self, line: bytes, stop: StopSignals, meanwhile: Callable[[], None] = _nothing) -> bool:
        """Write the line, however long that takes; False when a stop was asked for before all of it was out.

        What fits is never cut.
        """
        if not self.waited(stop, meanwhile, len(line)):
            return False
        return self.finish(self._write(memoryview(line)), stop, meanwhile)

    def finish(self, rest: memoryview, stop: StopSignals, meanwhile: Callable[[], None] = _nothing) -> bool:
        """Write the rest of a line. After a stop only as long as somebody reads it; False when it was cut off."""
        while rest and (self.waited(stop, meanwhile) or self._has_room(wait_s=_GRACE_S)):
            rest = self._write(rest)
        return not rest

    def _has_room(self, size: int = 1, wait_s: float = _PATIENCE_S) -> bool:
        needed = min(size, _READY_TAKES)
        if self._room < needed:
            self._room = _READY_TAKES if self._is_ready(wait_s) else 0
        return self._room >= needed

    def _write(self, data: memoryview) -> memoryview:
        written = write_some(self._descriptor, data[: self._room])
        self._room -= written
        return data[written:]

    def _is_drained(self) -> bool:
        give_up_at = time.monotonic() + _PATIENCE_S
        while _unread(self._descriptor):
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(_DRAINED_CHECK_S)
        return True

    def _is_ready(self, wait_s: float) -> bool:
        if sys.platform == "win32":  # select() knows sockets only there
            return True
        return bool(select.select([], [self._descriptor], [], wait_s)[1])


def _is_bounded(descriptor: int) -> bool:
    """Whether somebody at the other end has to read what is written."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def _pipe_capacity(descriptor: int) -> int:
    """What fits into it when it is empty; 0 where nobody tells."""
    if sys.platform != "linux":
        return 0
    import fcntl

    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    except OSError:  # a socket, a terminal
        return 0


def _unread(descriptor: int) -> int:
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


class StoppableLines:
    """Prints plain lines or JSON objects as `Lines` does, until a stop is asked for."""

    def __init__(self, stop: StopSignals, *, as_json: bool) -> None:
        self._stop = stop
        self._lines = Lines(as_json=as_json)
        self._outlet = Outlet(stdout_descriptor())

    def put(self, plain: str, fields: dict[str, object]) -> bool:
        """False when a stop was asked for before all of it was out."""
        return self._outlet.put(self._lines.line(plain, fields), self._stop)


_READY_TAKES = 1 << 16 if sys.platform == "win32" else select.PIPE_BUF
