"""list, stats, exists, alias, batches, pause, resume."""

from __future__ import annotations

import brant
from brant.arguments import is_shell_name
from brant.cli.command import DONE, NOTHING, Command
from brant.cli.numbers import count
from brant.cli.output import complain, put, put_json
from brant.cli.parsing import add_queue, queue_of
from brant.errors import InvalidValue, QueueNameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from brant.cli.command import Context
    from brant.inspection import QueueStats

_WILDCARDS = "*?["


def _list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--stats", action="store_true", help="show empty queues and claimed messages too")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--prefix", metavar="P", default="", help="only queues whose name begins so")
    which.add_argument("-p", "--pattern", metavar="GLOB", help="only queues whose name matches")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _list(context: Context, options: Namespace) -> int:
    _check_prefix(options.prefix or _literal_start(options.pattern or ""))
    with context.open() as db:
        found = db.list_queues(prefix=options.prefix, pattern=options.pattern)
        everything = db.list_queues() if options.stats and not options.json else []
    for stats in found:
        if options.stats or stats.pending:
            put_json(_as_json(stats)) if options.json else put(_as_line(stats, with_claimed=options.stats))
    claimed = sum(stats.claimed for stats in everything)
    if claimed:
        put(f"\nTotal claimed messages: {claimed}/{sum(stats.total for stats in everything)}")
    return DONE


def _literal_start(pattern: str) -> str:
    ends = [pattern.index(wildcard) for wildcard in _WILDCARDS if wildcard in pattern]
    return pattern[: min(ends)] if ends else pattern


def _check_prefix(prefix: str) -> None:
    if prefix and not is_shell_name(prefix):
        raise InvalidValue(f"Invalid queue prefix {prefix!r}: no queue's name begins so")


def _as_line(stats: QueueStats, *, with_claimed: bool) -> str:
    if with_claimed and stats.claimed:
        return f"{stats.queue}: {stats.pending} ({stats.total} total, {stats.claimed} claimed)"
    return f"{stats.queue}: {stats.pending}"


def _as_json(stats: QueueStats) -> dict[str, object]:
    return {
        "queue": stats.queue,
        "pending": stats.pending,
        "claimed": stats.claimed,
        "total": stats.total,
        "exists": stats.exists,
    }


def _stats_arguments(parser: ArgumentParser) -> None:
    add_queue(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object")


def _stats(context: Context, options: Namespace) -> int:
    with context.open() as db:
        stats = queue_of(db, options.queue).stats()
    put_json(_as_json(stats)) if options.json else put(_as_line(stats, with_claimed=True))
    return DONE


def _exists(context: Context, options: Namespace) -> int:
    with context.open() as db:
        queue = queue_of(db, options.queue)
        exists = queue.exists()
    if options.json:
        put_json({"queue": queue.name, "exists": exists})
    return DONE if exists else NOTHING


def _alias_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|remove|list")
    add = actions.add_parser("add", help="let @NAME stand for a queue")
    add.add_argument("name", metavar="NAME")
    add.add_argument("target", metavar="QUEUE")
    add.add_argument("-q", "--quiet", action="store_true", help="do not warn when a queue of that name has messages")
    remove = actions.add_parser("remove", help="forget an alias; messages are untouched")
    remove.add_argument("name", metavar="NAME")
    shown = actions.add_parser("list", help="show the aliases")
    shown.add_argument("--target", metavar="QUEUE", help="only those of this queue")


def _alias(context: Context, options: Namespace) -> int:
    with context.open(writes=options.action == "add") as db:
        if options.action == "add":
            db.add_alias(options.name, options.target)
            if db.queue(options.name).exists() and not (options.quiet or context.quiet):
                complain(f"brant: warning: there is also a queue named {options.name!r}, with messages")
        elif options.action == "remove":
            if not db.remove_alias(options.name):
                raise QueueNameError(f"alias {options.name!r} does not exist")
        else:
            return _list_aliases(db, options.target)
    return DONE


def _list_aliases(db: brant.Database, target: str | None) -> int:
    aliases = db.list_aliases(target)
    for alias, queue in aliases.items():
        put(f"{alias} -> {queue}")
    return NOTHING if target is not None and not aliases else DONE


def _batches_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=count, default=100, help="at most N (100)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _batches(context: Context, options: Namespace) -> int:
    with context.open() as db:
        found = db.batches(options.limit)
    for batch in found:
        numbers = batch.counts._asdict()
        if options.json:
            put_json({**batch._asdict(), "counts": numbers})
            continue
        state = "settled" if batch.is_settled else "sealed" if batch.is_sealed else "open"
        told = ", ".join(f"{number} {name}" for name, number in numbers.items() if number or name == "total")
        put(f"{batch.id}: {state}, {told}")
    return DONE if found else NOTHING


def _pause(context: Context, options: Namespace) -> int:
    with context.open(writes=True) as db:
        queue = queue_of(db, options.queue)
        queue.pause()
    context.tell(f"Paused {queue.name}: it hands out nothing until 'brant resume {queue.name}'")
    return DONE


def _resume(context: Context, options: Namespace) -> int:
    with context.open() as db:
        queue = queue_of(db, options.queue)
        resumed = queue.resume()
    context.tell(f"Resumed {queue.name}" if resumed else f"{queue.name} was not paused")
    return DONE


COMMANDS = {
    "list": Command("show the queues and how many messages they hold", _list_arguments, _list),
    "stats": Command("show how many messages a queue holds", _stats_arguments, _stats),
    "exists": Command("tell by the exit code whether a queue has messages", _stats_arguments, _exists),
    "alias": Command("manage short names: @NAME stands for a queue", _alias_arguments, _alias),
    "batches": Command(
        "show the latest batches of jobs and how they stand",
        _batches_arguments,
        _batches,
        description="Show the latest batches, the newest first: the id, whether it is open, sealed or settled, and how "
        "many of its jobs ended how. Exit code 2 when there is none.",
    ),
    "pause": Command("have a queue hand out nothing", add_queue, _pause),
    "resume": Command("have a paused queue go on", add_queue, _resume),
}
