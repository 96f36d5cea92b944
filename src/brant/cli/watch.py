"""watch: messages as they come."""

from __future__ import annotations

import time
from functools import partial

import brant
from brant.cli.command import DONE, Command
from brant.cli.draining import Drain, Outlet
from brant.cli.output import complain, message_format, stdout_descriptor
from brant.cli.parsing import add_format, add_queue, queue_of
from brant.cli.stopping import StopSignals
from brant.cli.times import timestamp
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from brant.cli.command import Context

    LineOf = Callable[[brant.Message], bytes]

# A commit wakes the watcher; this is for what comes back without one, as when a lease runs out.
_LONGEST_WAIT_S = 5.0


def _arguments(parser: ArgumentParser) -> None:
    add_queue(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--peek", action="store_true", help="print each message once and leave it")
    mode.add_argument("--move", metavar="DEST", help="move each message to this queue")
    parser.add_argument("--after", metavar="T", help="only messages with a larger id, or written later")
    parser.add_argument("-q", "--quiet", action="store_true", help="no banner")
    add_format(parser)


def _watch(context: Context, options: Namespace) -> int:
    if options.move is not None and options.after is not None:
        raise InvalidValue("--move takes every message and can't be combined with --after")
    after = None if options.after is None else timestamp(options.after)
    with context.open() as db:
        queue = queue_of(db, options.queue)
        # Before the first look, so that a commit between the two is not missed.
        commits = db.update_events()
        stop = StopSignals(commits.close)
        take, mode = _taking(db, queue, options, stop, after, context.settings.generator_batch_size)
        if not (context.quiet or options.quiet):
            complain(f"Watching queue '{queue.name}' ({mode} mode)...")
        while not stop.requested():
            if not take():
                commits.wait(_wait_s(queue))
    return DONE


def _taking(
    db: brant.Database, queue: brant.Queue, options: Namespace, stop: StopSignals, after: int | None, most: int
) -> tuple[Callable[[], bool], str]:
    """A function that prints what is there and tells whether there was something, and the name of the mode."""
    line_of = message_format(options)
    if options.peek:
        return Peeks(queue, line_of, Outlet(stdout_descriptor()), stop, after).new_ones, "peek"
    if options.move is not None:
        destination = queue_of(db, options.move)
        if destination.name == queue.name:
            raise InvalidValue("Cannot move messages to the same queue")
        outlet = Outlet(stdout_descriptor())
        return partial(_move_one, queue, destination, line_of, outlet, stop), f"move to {destination.name}"
    drain = Drain(queue, line_of, stop, most=most, after=after)
    # A look that needs no write lock comes first: most commits are not for this queue.
    return lambda: queue.has_pending(after) and drain.all(), "consume"


def _move_one(queue: brant.Queue, destination: brant.Queue, line_of: LineOf, outlet: Outlet, stop: StopSignals) -> bool:
    # Nothing is moved while nobody reads: a stop that comes then leaves it where it is.
    if not queue.has_pending() or not outlet.waited(stop):
        return False
    message = queue.move(destination)
    if message is not None:
        outlet.put(line_of(message), stop)
    return message is not None


class Peeks:
    """Prints each message once.

    A new message has a higher id than all before it; now and then all are looked through, for those that become due,
    are given back or are moved here with the id that they have.
    """

    def __init__(
        self, queue: brant.Queue, line_of: LineOf, outlet: Outlet, stop: StopSignals, after: int | None
    ) -> None:
        self._queue = queue
        self._line_of = line_of
        self._outlet = outlet
        self._stop = stop
        self._after = self._highest = after
        self._shown: set[int] = set()
        self._next_full_look = 0.0

    def new_ones(self) -> bool:
        now = time.monotonic()
        is_full = now >= self._next_full_look
        present: set[int] = set()
        count = 0
        for message in self._queue.peek_generator(after=self._after if is_full else self._highest):
            if self._stop.requested():
                return True
            present.add(message.id)
            if message.id not in self._shown:
                if not self._outlet.put(self._line_of(message), self._stop):
                    return True
                self._shown.add(message.id)
                count += 1
        self._highest = max(present, default=self._highest)
        if is_full:
            self._shown = present
        next_look = now + _wait_s(self._queue)
        self._next_full_look = next_look if is_full else min(next_look, self._next_full_look)
        return count > 0


def _wait_s(queue: brant.Queue) -> float:
    next_run = queue.stats().next_run_at
    return _LONGEST_WAIT_S if next_run is None else min(max(0.0, next_run - time.time()), _LONGEST_WAIT_S)


COMMANDS = {
    "watch": Command(
        "print messages as they come",
        _arguments,
        _watch,
        description="Take and print messages as they come, until interrupted.",
    )
}
