"""write, read, peek, move, delete, broadcast."""

from __future__ import annotations

import brant
from brant.cli.command import DONE, NOTHING, Command
from brant.cli.output import message_format, write
from brant.cli.parsing import add_format, add_queue, add_range, queue_of
from brant.cli.times import message_id, timestamp
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from brant.cli.command import Context


def _write_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--lines", action="store_true", help="each line of standard input is a message of its own")
    add_queue(parser)
    text = "the text; left out or -: standard input"
    parser.add_argument("message", metavar="MESSAGE", nargs="?", help=text)


def _write(context: Context, options: Namespace) -> int:
    if options.lines:
        if options.message not in (None, "-"):
            raise InvalidValue("--lines reads standard input; leave the message out")
        from brant.cli.line_writing import write_lines

        return write_lines(context, options.queue)
    message = _message(options.message, context)
    with context.open(writes=True) as db:
        queue_of(db, options.queue).write(message)
    return DONE


def _message(given: str | None, context: Context) -> str:
    if given is not None and given != "-":
        return given
    from brant.cli.standard_input import all_input, decoded, is_typed_at_a_terminal

    if given is None and is_typed_at_a_terminal():
        raise InvalidValue("no message: type it behind the queue's name, or pipe it in")
    limit = context.settings.max_message_size
    data = all_input("a message", limit)
    if len(data) > limit:
        raise InvalidValue(f"Input exceeds maximum size of {limit} bytes")
    return decoded(data, "the input")


def _read_arguments(parser: ArgumentParser) -> None:
    add_queue(parser)
    parser.add_argument("--all", action="store_true", help="all messages that are there")
    parser.add_argument("-m", "--message-id", metavar="ID", help="this message only")
    add_range(parser)
    add_format(parser)


class _Selection:
    """Which messages: checked before the database is opened."""

    def __init__(self, options: Namespace) -> None:
        if options.message_id is not None and (options.all or options.after or options.before):
            raise InvalidValue("-m names one message and can't be combined with --all, --after or --before")
        self.all: bool = options.all
        self.message_id = None if options.message_id is None else message_id(options.message_id)
        self.after = None if options.after is None else timestamp(options.after)
        self.before = None if options.before is None else timestamp(options.before)

    @property
    def is_plain(self) -> bool:
        return not self.all and self.after is None and self.before is None


def _read(context: Context, options: Namespace) -> int:
    from brant.cli.draining import Drain
    from brant.cli.stopping import StopSignals

    selection = _Selection(options)
    with context.open() as db:
        queue = queue_of(db, options.queue)
        stop = StopSignals()
        most = context.settings.generator_batch_size
        line_of = message_format(options, warns=not selection.is_plain)
        drain = Drain(queue, line_of, stop, most=most, after=selection.after, before=selection.before)
        found = drain.all() if selection.all else drain.one(selection.message_id)
    stop.raise_if_requested()
    return DONE if found else NOTHING


def _peek(context: Context, options: Namespace) -> int:
    selection = _Selection(options)
    with context.open() as db:
        queue = queue_of(db, options.queue)
        if selection.all:
            return _print(queue.peek_generator(after=selection.after, before=selection.before), options)
        message = queue.peek(after=selection.after, before=selection.before, message_id=selection.message_id)
    return _print([] if message is None else [message], options, warns=not selection.is_plain)


def _move_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="SOURCE", help="queue to take from, or @alias")
    parser.add_argument("destination", metavar="DESTINATION", help="queue to move to, or @alias")
    parser.add_argument("--all", action="store_true", help="all messages that are there")
    parser.add_argument("-m", "--message-id", metavar="ID", help="this message only")
    add_range(parser)
    add_format(parser)


def _move(context: Context, options: Namespace) -> int:
    with context.open() as db:
        source, destination = queue_of(db, options.queue), queue_of(db, options.destination)
        if source.name == destination.name:
            raise InvalidValue("Source and destination queues cannot be the same")
        selection = _Selection(options)
        if selection.all:
            moved = source.move_many(destination, after=selection.after, before=selection.before)
        else:
            message = source.move(
                destination, after=selection.after, before=selection.before, message_id=selection.message_id
            )
            moved = [] if message is None else [message]
    # Printed after the commit: whatever becomes of the output, the messages are safe in their new queue.
    return _print(moved, options)


def _print(messages: Iterable[brant.Message], options: Namespace, *, warns: bool = True) -> int:
    line_of = message_format(options, warns=warns)
    code = NOTHING
    for message in messages:
        write(line_of(message))
        code = DONE
    return code


def _delete_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", nargs="?", help="name of the queue, or @alias")
    parser.add_argument("--all", action="store_true", help="every queue")
    parser.add_argument("-m", "--message-id", metavar="ID", help="this message only")


def _delete(context: Context, options: Namespace) -> int:
    if (options.queue is None) != options.all:
        raise InvalidValue("name a queue, or give --all")
    if options.all and options.message_id is not None:
        raise InvalidValue("-m needs the queue of the message")
    wanted = None if options.message_id is None else message_id(options.message_id)
    with context.open() as db:
        if wanted is not None:
            return DONE if queue_of(db, options.queue).delete(message_id=wanted) else NOTHING
        names = db.queue_names() if options.all else [queue_of(db, options.queue).name]
        queues = [db.queue(name) for name in names]
        with db.transaction() as tx:
            for queue in queues:
                queue.delete(tx=tx)
    return DONE


def _broadcast_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--pattern", metavar="GLOB", help="only queues whose name matches")
    parser.add_argument("message", metavar="MESSAGE", help="the text; -: standard input")


def _broadcast(context: Context, options: Namespace) -> int:
    message = _message(options.message, context)
    with context.open(writes=True) as db:
        return DONE if db.broadcast(message, pattern=options.pattern) else NOTHING


COMMANDS = {
    "write": Command(
        "add a message to a queue",
        _write_arguments,
        _write,
        description="Add a message. Options stand before the queue's name; text that begins with a dash is data.",
    ),
    "read": Command(
        "take the oldest message and print it",
        _read_arguments,
        _read,
        description="Take the oldest due message, remove it and print it. Rows with a priority come first, and "
        "delayed ones when they are due. Exit code 2 when there is none.",
    ),
    "peek": Command("print the oldest message and leave it", _read_arguments, _peek),
    "move": Command("move messages to another queue, keeping their ids", _move_arguments, _move),
    "delete": Command("delete a queue's messages, or one of them", _delete_arguments, _delete),
    "broadcast": Command("add a message to every known queue", _broadcast_arguments, _broadcast),
}
