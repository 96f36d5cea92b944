"""Printing without being stuck with a slow reader; taking messages by printing them.

What is printed is removed, what can't be printed stays in the queue.
"""

from __future__ import annotations

import select
import sys
import time

from brant.arguments import storable
from brant.cli.output import complain, stdout_descriptor, write_some

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
# After a stop, a line that is half out is finished as long as its reader takes more of it this often.
_GRACE_S = 1.0


class Drain:
    """Prints messages of a queue, in the order in which it gives them, and removes those that are printed.

    They are printed inside the transaction that removes them, in batches that grow while they are quick. When the
    output takes no more the transaction ends with what is printed so far: nobody waits for who reads it slowly.
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
        return batch

    def _print(self, messages: Iterator[brant.Message], batch: _Batch) -> None:
        for message in messages:
            rest = self._outlet.offer(self._format(message))
            if rest is None:
                batch.stalled = True
                return
            batch.printed += 1
            if rest:
                # Half of it is out: it counts as taken, and the other half follows after the transaction.
                batch.rest, batch.stalled = rest, True
                next(messages, None)
                return


class _Batch:
    """What became of the messages of one transaction."""

    def __init__(self) -> None:
        self.printed = 0
        self.stalled = False
        self.rest = memoryview(b"")


class Outlet:
    """A descriptor that is written to without waiting for who reads it.

    A pipe that is ready takes so many bytes and no more for sure; files, terminals and the rest are always ready.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = 0

    def offer(self, data: bytes) -> memoryview | None:
        """Write what is taken at once and give the rest; None when nothing is taken. What fits is never cut."""
        if not self._has_room(len(data)):
            return None
        rest = self._write(memoryview(data))
        while rest and self._has_room(len(rest)):
            rest = self._write(rest)
        return rest

    def waited(self, stop: StopSignals) -> bool:
        """Wait until there is room; False when a stop was asked for."""
        while not stop.requested():
            if self._has_room(wait_s=_STOP_CHECK_S):
                return True
        return False

    def put(self, line: bytes, stop: StopSignals) -> bool:
        """Write the line, however long that takes; False when a stop was asked for before all of it was out."""
        return self.waited(stop) and self.finish(self._write(memoryview(line)), stop)

    def finish(self, rest: memoryview, stop: StopSignals) -> bool:
        """Write the rest of a line. After a stop only as long as somebody reads it; False when it was cut off."""
        while rest and (self.waited(stop) or self._has_room(wait_s=_GRACE_S)):
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

    def _is_ready(self, wait_s: float) -> bool:
        if sys.platform == "win32":  # select() knows sockets only there
            return True
        return bool(select.select([], [self._descriptor], [], wait_s)[1])


class StoppableLines:
    """Prints plain lines or JSON objects as `Lines` does, until a stop is asked for."""

    def __init__(self, stop: StopSignals, *, as_json: bool) -> None:
        self._stop = stop
        self._as_json = as_json
        self._outlet = Outlet(stdout_descriptor())
        self._warned = False

    def put(self, plain: str, fields: dict[str, object]) -> bool:
        """False when a stop was asked for before all of it was out."""
        if not self._as_json and "\n" in plain and not self._warned:
            self._warned = True
            complain("brant: warning: a line contains newline characters; use --json to tell lines apart")
        line = _json_of(fields) if self._as_json else plain
        return self._outlet.put(storable(line).encode() + b"\n", self._stop)


def _json_of(fields: dict[str, object]) -> str:
    import json

    return json.dumps(fields, ensure_ascii=False)


_READY_TAKES = 1 << 16 if sys.platform == "win32" else select.PIPE_BUF
