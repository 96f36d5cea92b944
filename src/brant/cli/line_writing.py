"""write --lines: each line of standard input becomes a message, as it comes."""

from __future__ import annotations

import signal
from contextlib import contextmanager

from brant.cli.command import DONE
from brant.cli.output import complain
from brant.cli.parsing import queue_of
from brant.cli.standard_input import decoded, standard_input
from brant.cli.stopping import Terminated
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    import brant
    from brant.cli.command import Context

_CHUNK = 64 * 1024


def write_lines(context: Context, queue_name: str) -> int:
    batches = line_batches(standard_input("a message"), context.settings.max_message_size)
    with context.open(writes=True) as db:
        return _Writer(queue_of(db, queue_name)).write(batches)


def line_batches(stream: BufferedReader, limit: int) -> Iterator[list[str]]:
    """The lines that have come by now, again and again: a slow writer's are not held back until there are many."""
    read, unfinished = 0, b""
    while chunk := stream.read1(_CHUNK):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        yield [_line(line, number, limit) for number, line in enumerate(lines, read + 1)]
        read += len(lines)
        _require_within(limit, unfinished, read + 1)
    if unfinished:
        yield [_line(unfinished, read + 1, limit)]


def _line(line: bytes, number: int, limit: int) -> str:
    _require_within(limit, line, number)
    return decoded(line, f"line {number}")


def _require_within(limit: int, line: bytes, number: int) -> None:
    if len(line) > limit:
        raise InvalidValue(f"line {number} exceeds the maximum size of {limit} bytes")


class _Writer:
    """Writes batches and counts their lines; whatever ends it early, it tells how many are written.

    A signal that comes while a batch is written waits for its end: otherwise a batch could be committed, not counted.
    """

    def __init__(self, queue: brant.Queue) -> None:
        self._queue = queue
        self._written = 0
        self._is_writing = False
        self._signal: int | None = None

    def write(self, batches: Iterator[list[str]]) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # as in the background of a script
                signal.signal(number, self._note)
        try:
            for batch in batches:
                with self._signals_waiting():
                    self._queue.write_many(batch)
                    self._written += len(batch)
        except InvalidValue as error:
            raise InvalidValue(f"{error}; {self._outcome}") from None
        except KeyboardInterrupt:
            complain(f"\nbrant: interrupted; {self._outcome}")
        except Terminated:
            complain(f"brant: terminated; {self._outcome}")
            raise
        return DONE

    @property
    def _outcome(self) -> str:
        return f"the first {self._written} lines are written"

    @contextmanager
    def _signals_waiting(self) -> Iterator[None]:
        self._is_writing = True
        yield
        self._is_writing = False
        if self._signal is not None:
            self._raise(self._signal)

    def _note(self, number: int, _: object) -> None:
        self._signal = number
        if not self._is_writing:
            self._raise(number)

    def _raise(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one is not to be waited for
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated
