"""stream, notify, listen."""

from __future__ import annotations

from brant.arguments import decode_or_text
from brant.cli.command import DONE, FAILED, NOTHING, Command
from brant.cli.numbers import count, duration, whole_number
from brant.cli.output import put, put_json
from brant.cli.payloads import TEXT_HINT, Lines, add_payload, json_of, payload_of, text_of
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    import brant
    from brant.cli.command import Context

_PAGE = 1000


def _stream_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(_ACTIONS))
    for name, (summary, add_arguments, _) in _ACTIONS.items():
        add_arguments(actions.add_parser(name, help=summary, description=summary))


def _stream(context: Context, options: Namespace) -> int:
    _, _, run = _ACTIONS[options.action]
    return run(context, options)


def _add_topic(parser: ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="name of the stream")


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _publish_arguments(parser: ArgumentParser) -> None:
    _add_topic(parser)
    add_payload(parser)
    parser.add_argument("--key", metavar="K", help="what the event is about; stored with it")
    parser.add_argument("--lines", action="store_true", help="each line of standard input is an event of its own")


def _publish(context: Context, options: Namespace) -> int:
    if not options.lines:
        payload = payload_of(options, context)
        with context.open(writes=True) as db:
            put(str(db.stream(options.topic).publish(payload, options.key)))
        return DONE
    if options.payload not in (None, "-"):
        raise InvalidValue("--lines reads standard input; leave the payload out")
    with context.open(writes=True) as db:
        published = _publish_lines(context, options, db.stream(options.topic))
    context.tell(f"Published {published} events to {options.topic!r}")
    return DONE


def _publish_lines(context: Context, options: Namespace, stream: brant.Stream) -> int:
    from brant.cli.line_writing import line_batches
    from brant.cli.standard_input import standard_input

    published = 0
    batches = line_batches(standard_input("a payload"), context.settings.max_message_size)
    try:
        for lines in batches:
            numbered = enumerate(lines, published + 1)
            payloads = lines if options.text else [json_of(line, f"line {n}", TEXT_HINT) for n, line in numbered]
            stream.publish_many(payloads, [options.key] * len(lines))
            published += len(lines)
    except InvalidValue as error:
        raise InvalidValue(f"{error}; published so far: the first {published} lines") from None
    return published


def _read_arguments(parser: ArgumentParser) -> None:
    _add_topic(parser)
    parser.add_argument("--after", metavar="N", type=whole_number, default=0, help="only events behind this offset")
    parser.add_argument("--limit", metavar="N", type=count, help="at most so many (default: all)")
    _add_json(parser)


def _read(context: Context, options: Namespace) -> int:
    lines = Lines(as_json=options.json)
    printed = 0
    with context.open() as db:
        for event in _events(db.stream(options.topic), options.after, options.limit):
            lines.put(*_shown(event))
            printed += 1
    return DONE if printed else NOTHING


def _events(stream: brant.Stream, after: int, limit: int | None) -> Iterator[brant.Event]:
    """The events up to the present end of the stream, however many are published meanwhile."""
    end = stream.head()
    while after < end and limit != 0:
        page = [event for event in stream.read(after, min(limit or _PAGE, _PAGE)) if event.offset <= end]
        yield from page
        if not page:  # pruned meanwhile
            return
        after = page[-1].offset
        limit = None if limit is None else limit - len(page)


def _shown(event: brant.Event) -> tuple[str, dict[str, object]]:
    """What is printed of an event: as a plain line, and as the fields of a JSON object."""
    # Not event.payload: one event of another program that is not JSON must not stop all that follow it.
    payload = decode_or_text(event.payload_text)
    fields = {
        "offset": event.offset,
        "topic": event.topic,
        "key": event.key,
        "payload": payload,
        "created_at": event.created_at,
    }
    return f"{event.offset}\t{event.key or ''}\t{text_of(payload)}", fields


def _tail_arguments(parser: ArgumentParser) -> None:
    _add_topic(parser)
    parser.add_argument("--consumer", metavar="NAME", help="go on where this consumer stopped, and save how far it got")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="N",
        type=whole_number,
        help="begin behind this offset (default: where the consumer stopped, or the first event)",
    )
    _add_json(parser)


def _tail(context: Context, options: Namespace) -> int:
    from brant.cli.following import tail

    return tail(context, options, _shown)


def _consumers_arguments(parser: ArgumentParser) -> None:
    _add_topic(parser)
    _add_json(parser)


def _consumers(context: Context, options: Namespace) -> int:
    with context.open() as db:
        consumers = db.stream(options.topic).consumers()
    if options.json:
        for consumer in consumers:
            put_json({"name": consumer.name, "offset": consumer.offset, "lag": consumer.lag})
    elif consumers:
        from brant.cli.terminal import table

        table([(each.name, str(each.offset), str(each.lag)) for each in consumers], ("CONSUMER", "OFFSET", "LAG"))
    return DONE


def _prune_arguments(parser: ArgumentParser) -> None:
    _add_topic(parser)
    parser.add_argument("--up-to", metavar="N", type=whole_number, help="only events up to this offset")
    parser.add_argument("--older-than", metavar="S", type=duration, help="only events older than so many seconds")
    parser.add_argument("--keep", metavar="N", type=whole_number, help="keep the newest N events")
    parser.add_argument("--past-consumers", action="store_true", help="also events that a consumer has not read yet")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _prune(context: Context, options: Namespace) -> int:
    if options.up_to is None and options.older_than is None and options.keep is None:
        raise InvalidValue("say which events: give --up-to, --older-than or --keep")
    if not options.yes and not _confirmed(options):
        context.tell("Nothing was deleted")
        return FAILED
    with context.open() as db:
        deleted = db.stream(options.topic).prune(
            up_to=options.up_to,
            older_than_s=options.older_than,
            keep=options.keep,
            past_consumers=options.past_consumers,
        )
    context.tell(f"Deleted {deleted} events of {options.topic!r}")
    return DONE


def _confirmed(options: Namespace) -> bool:
    from brant.cli.terminal import confirm

    unread = ", even those that a consumer has not read yet" if options.past_consumers else ""
    return confirm(f"Delete old events of {options.topic!r}{unread}?")


def _list_arguments(parser: ArgumentParser) -> None:
    """It takes none."""


def _list(context: Context, options: Namespace) -> int:  # noqa: ARG001
    with context.open() as db:
        for name in db.list_streams():
            put(name)
    return DONE


_ACTIONS: dict[str, tuple[str, Callable[[ArgumentParser], None], Callable[[Context, Namespace], int]]] = {
    "publish": ("append an event and print its offset", _publish_arguments, _publish),
    "read": ("print the events that are there; exit code 2 for none", _read_arguments, _read),
    "tail": ("print the events that are there and those to come, until interrupted", _tail_arguments, _tail),
    "consumers": (
        "show the named consumers, their offsets and how many events lie behind",
        _consumers_arguments,
        _consumers,
    ),
    "prune": (
        "delete events that meet every given bound and that all named consumers have passed",
        _prune_arguments,
        _prune,
    ),
    "list": ("show the streams that hold events", _list_arguments, _list),
}


def _notify_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("channel", metavar="CHANNEL", help="name of the channel")
    add_payload(parser)


def _notify(context: Context, options: Namespace) -> int:
    payload = payload_of(options, context)
    with context.open(writes=True) as db:
        put(str(db.notify(options.channel, payload)))
    return DONE


def _listen_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("channel", metavar="CHANNEL", help="name of the channel")
    _add_json(parser)
    parser.add_argument("--count", metavar="N", type=count, help="end after so many notifications")
    parser.add_argument("--timeout", metavar="S", type=duration, help="end when none came for so many seconds")


def _listen(context: Context, options: Namespace) -> int:
    from brant.cli.following import listen

    return listen(context, options)


COMMANDS = {
    "stream": Command(
        "publish, read and follow durable events",
        _stream_arguments,
        _stream,
        description="Events that stay, read by any number of consumers at their own pace.",
    ),
    "notify": Command(
        "send a notification to whoever listens, and print its id",
        _notify_arguments,
        _notify,
        description="Send a notification to whoever listens on the channel at this moment, and print its id.",
    ),
    "listen": Command(
        "print notifications as they come",
        _listen_arguments,
        _listen,
        description="Print the notifications of a channel from now on, until interrupted. Exit code 0 after --count or "
        "when stopped by a signal, 2 when none came for --timeout seconds.",
    ),
}
