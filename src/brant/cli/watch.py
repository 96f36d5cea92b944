"""watch: messages as they come."""

from __future__ import annotations

import signal
import sys

import brant
from brant.cli.command import DONE, Command
from brant.cli.output import show, warn_of_newlines
from brant.cli.parsing import add_format, add_queue, queue_of
from brant.cli.times import timestamp
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from brant.channel import UpdateEvents
    from brant.cli.command import Context

# A commit wakes the watcher; this is for leases that run out meanwhile, and as a safety net.
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
    if options.move and options.after:
        raise InvalidValue("--move takes every message and can't be combined with --after")
    after = None if options.after is None else timestamp(options.after)
    with context.open() as db:
        queue = queue_of(db, options.queue)
        take = _take(db, queue, options, after)
        if not (context.quiet or options.quiet):
            mode = "peek" if options.peek else f"move to {options.move}" if options.move else "consume"
            print(f"Watching queue '{queue.name}' ({mode} mode)...", file=sys.stderr, flush=True)
        _until_stopped(db.update_events(), queue, take)
    return DONE


def _take(db: brant.Database, queue: brant.Queue, options: Namespace, after: int | None) -> Callable[[], bool]:
    """A function that handles the next message, if there is one, and tells whether there was."""

    def printed(message: brant.Message | None) -> bool:
        if message is None:
            return False
        warn_of_newlines(message, as_json=options.json, with_id=options.timestamps)
        show(message, as_json=options.json, with_id=options.timestamps)
        return True

    if options.peek:
        return _Peeks(queue, after, printed)
    destination = None
    if options.move:
        destination = queue_of(db, options.move)
        if destination.name == queue.name:
            raise InvalidValue("Cannot move messages to the same queue")

    def take_next() -> bool:
        if not queue.has_pending(after):
            return False
        # Printed before the commit: what can't be printed stays in the queue.
        with db.transaction() as tx:
            taken = queue.read(after=after, tx=tx) if destination is None else queue.move(destination, tx=tx)
            return printed(taken)

    return take_next


class _Peeks:
    """Each message once, in the order of their ids."""

    def __init__(self, queue: brant.Queue, after: int | None, printed: Callable[[brant.Message | None], bool]) -> None:
        self._queue = queue
        self._last = after
        self._printed = printed

    def __call__(self) -> bool:
        fresh = sorted(self._queue.peek_many(1000, after=self._last), key=lambda message: message.id)
        for message in fresh:
            self._printed(message)
            self._last = message.id
        return bool(fresh)


def _until_stopped(events: UpdateEvents, queue: brant.Queue, take: Callable[[], bool]) -> None:
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        events.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    while not stopped:
        if not take():
            events.wait(_wait_s(queue))


def _wait_s(queue: brant.Queue) -> float:
    import time

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
