"""lock, limit."""

from __future__ import annotations

import os
import signal

from brant.cli.command import DONE, NOTHING, Command
from brant.cli.numbers import count, duration, positive_duration
from brant.cli.output import complain
from brant.errors import BrantError, InvalidValue, LockHeld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from queue import SimpleQueue
    from subprocess import Popen
    from threading import Thread

    import brant
    from brant.cli.command import Context
    from brant.lock import Lock

# How long a command whose lock was lost may take to end by itself.
_GRACE_S = 3.0
_SIGNAL_CHECK_S = 0.2
# As shells say it: the exit code of a command that a signal ended is 128 and the signal's number.
_BY_SIGNAL = 128


def _lock_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the lock")
    parser.add_argument(
        "--ttl", metavar="S", type=positive_duration, default=60, help="free again S seconds after a crash (60)"
    )
    parser.add_argument("--wait", metavar="S", type=duration, default=0, help="wait so long for the lock (0)")
    # "A...", which argparse calls PARSER: this word and all that follow, whatever they look like.
    parser.add_argument("command", metavar="COMMAND", nargs="A...", help="what to run, with its arguments, behind --")


def _lock(context: Context, options: Namespace) -> int:
    # Depending on its version, argparse leaves the -- in.
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not words:
        raise InvalidValue("no command: type it behind --")
    with context.open(writes=True) as db:
        try:
            return _run_or_wait(context, db, options, _GuardedCommand(words))
        except LockHeld:
            raise LockHeld(f"the lock {options.name!r} is held by another; try again later, or give --wait") from None
        except KeyboardInterrupt:  # while waiting for the lock; not a success, which main() would make of it
            complain("\nbrant: interrupted")
            return _BY_SIGNAL + signal.SIGINT


def _run_or_wait(context: Context, db: brant.Database, options: Namespace, guarded: _GuardedCommand) -> int:
    try:
        return _run_under_lock(db.lock(options.name, options.ttl), guarded)
    except LockHeld:
        if not options.wait:
            raise
    context.tell(f"Waiting for the lock {options.name!r}...")
    return _run_under_lock(db.lock(options.name, options.ttl, wait=options.wait), guarded)


def _run_under_lock(lock: Lock, guarded: _GuardedCommand) -> int:
    lock.on_lost = guarded.lock_lost
    with lock:
        code = guarded.run()
    if code is None:
        raise BrantError(f"the lock {lock.name!r} ran out or was taken over; the command was terminated")
    return code


class _GuardedCommand:
    """A command that runs while a lock is held.

    What happens meanwhile (it ends, a signal comes, the lock is lost) goes through one queue to one thread.
    """

    def __init__(self, words: list[str]) -> None:
        from queue import SimpleQueue

        self._words = words
        self._happenings: SimpleQueue[tuple[str, int]] = SimpleQueue()

    def lock_lost(self) -> None:
        self._happenings.put(("lost", 0))

    def run(self) -> int | None:
        """The command's exit code; None when the lock was lost, and the command terminated."""
        self._note_signals()
        process = _start(self._words)
        waiter = self._wait_for(process)
        while True:
            what, number = self._next()
            if what == "ended":
                return number if number >= 0 else _BY_SIGNAL - number
            if what == "lost":
                _terminate(process, waiter)
                return None
            if number != signal.SIGINT or not _in_foreground():
                process.send_signal(number)

    def _next(self) -> tuple[str, int]:
        from queue import Empty

        while True:
            # A signal that comes just before this thread falls asleep does not wake it: Python notes it then, and calls
            # its handler when the thread is awake again.
            try:
                return self._happenings.get(timeout=_SIGNAL_CHECK_S)
            except Empty:
                pass

    def _note_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Under nohup the command is meant to survive, and so is its lock.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda number, _: self._happenings.put(("signal", number)))

    def _wait_for(self, process: Popen[bytes]) -> Thread:
        from threading import Thread

        waiter = Thread(target=lambda: self._happenings.put(("ended", process.wait())), daemon=True)
        waiter.start()
        return waiter


def _start(words: list[str]) -> Popen[bytes]:
    from subprocess import Popen

    try:
        return Popen(words)  # noqa: S603
    except OSError as error:
        raise InvalidValue(f"can't run {words[0]!r}: {error.strerror}") from None


def _terminate(process: Popen[bytes], waiter: Thread) -> None:
    process.terminate()
    waiter.join(_GRACE_S)
    if waiter.is_alive():
        process.kill()
        waiter.join()


def _in_foreground() -> bool:
    """Whether Ctrl-C reaches the command without us: a second one makes many programs drop their clean-up."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _limit_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the limit")
    parser.add_argument("--limit", metavar="N", type=count, required=True, help="so many are allowed")
    parser.add_argument("--per", metavar="S", type=count, required=True, help="in each window of so many seconds")


def _limit(context: Context, options: Namespace) -> int:
    with context.open(writes=True) as db:
        if db.try_rate_limit(options.name, options.limit, options.per):
            return DONE
    context.tell(f"The limit {options.name!r} is reached: {options.limit} in {options.per} s")
    return NOTHING


COMMANDS = {
    "lock": Command(
        "run a command while holding a lock",
        _lock_arguments,
        _lock,
        description="Run a command while holding a lock, which is renewed as long as it runs. SIGINT, SIGTERM and "
        "SIGHUP are passed on to it. The exit code is the command's, 128 + N if signal N ended it. It is 1 when "
        "another holds the lock, when the command can't be run, and when the lock is lost, which ends the command.",
    ),
    "limit": Command(
        "tell by the exit code whether one more is allowed",
        _limit_arguments,
        _limit,
        description="Count one more in the current window. Exit code 0 when it is allowed, 2 when it is not.",
    ),
}
