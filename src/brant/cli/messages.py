"""write, read, peek, move, delete, broadcast."""

from __future__ import annotations

import sys

import brant
from brant.cli.command import DONE, NOTHING, Command
from brant.cli.output import show, warn_of_newlines
from brant.cli.parsing import add_format, add_queue, add_range, queue_of
from brant.cli.times import message_id, timestamp
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from brant.cli.command import Context

_CHUNK = 64 * 1024
_LINES_A_TRANSACTION = 1000


def _write_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--lines", action="store_true", help="each line of standard input is a message of its own")
    add_queue(parser)
    parser.add_argument("message", metavar="MESSAGE", nargs="?", help="the text; left out or -: standard input")


def _write(context: Context, options: Namespace) -> int:
    if options.lines:
        if options.message not in (None, "-"):
            raise InvalidValue("--lines reads standard input; leave the message out")
        with context.open(writes=True) as db:
            _write_lines(queue_of(db, options.queue), sys.stdin.buffer)
        return DONE
    message = _message(options.message, context)
    with context.open(writes=True) as db:
        queue_of(db, options.queue).write(message)
    return DONE


def _write_lines(queue: brant.Queue, lines: Iterable[bytes]) -> None:
    batch: list[str] = []
    for line in lines:
        batch.append(_decoded(line.removesuffix(b"\n")))
        if len(batch) == _LINES_A_TRANSACTION:
            queue.write_many(batch)
            batch.clear()
    queue.write_many(batch)


def _message(given: str | None, context: Context) -> str:
    if given is not None and given != "-":
        return given
    if given is None and sys.stdin.isatty():
        raise InvalidValue("no message: type it behind the queue's name, or pipe it in")
    return _decoded(_read_within(sys.stdin.buffer, context.settings.max_message_size))


def _read_within(stream: BinaryIO, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise InvalidValue(f"Input exceeds maximum size of {limit} bytes")
    return b"".join(chunks)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue(f"the input is not valid UTF-8: {error}") from None


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
    selection = _Selection(options)
    with context.open() as db:
        queue = queue_of(db, options.queue)
        if selection.all:
            return _print_all(_taken(queue, selection, context), options)
        # Printed before the commit: what can't be printed stays in the queue.
        with db.transaction() as tx:
            message = queue.read(after=selection.after, before=selection.before, message_id=selection.message_id, tx=tx)
            return _print_one(message, options, selection)


def _taken(queue: brant.Queue, selection: _Selection, context: Context) -> Iterator[brant.Message]:
    if selection.after is None and selection.before is None:
        # Leased in batches and removed once printed: what breaks on the way comes back.
        return queue.read_generator(at_least_once=True, batch_size=context.settings.generator_batch_size)
    return queue.read_generator(after=selection.after, before=selection.before)


def _peek(context: Context, options: Namespace) -> int:
    selection = _Selection(options)
    with context.open() as db:
        queue = queue_of(db, options.queue)
        if selection.all:
            return _print_all(queue.peek_generator(after=selection.after, before=selection.before), options)
        message = queue.peek(after=selection.after, before=selection.before, message_id=selection.message_id)
        return _print_one(message, options, selection)


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
        with db.transaction() as tx:
            if selection.all:
                moved = source.move_many(destination, after=selection.after, before=selection.before, tx=tx)
                return _print_all(iter(moved), options)
            message = source.move(
                destination,
                after=selection.after,
                before=selection.before,
                message_id=selection.message_id,
                tx=tx,
            )
            return _print_all(iter([message] if message is not None else []), options)


def _print_one(message: brant.Message | None, options: Namespace, selection: _Selection) -> int:
    if message is None:
        return NOTHING
    if not selection.is_plain:
        warn_of_newlines(message, as_json=options.json, with_id=options.timestamps)
    show(message, as_json=options.json, with_id=options.timestamps)
    return DONE


def _print_all(messages: Iterator[brant.Message], options: Namespace) -> int:
    code = NOTHING
    for message in messages:
        code = DONE
        warn_of_newlines(message, as_json=options.json, with_id=options.timestamps)
        show(message, as_json=options.json, with_id=options.timestamps)
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
