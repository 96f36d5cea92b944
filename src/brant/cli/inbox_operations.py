"""What changes an inbox: replay, requeue, ignore, replay-delivery, prune, pause, resume, each with a record of it."""

from __future__ import annotations

from brant.cli.command import DONE, FAILED, NOTHING
from brant.cli.inbox_views import filters_of, opened
from brant.cli.output import put, put_json
from brant.cli.terminal import confirm
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    import brant
    from brant.cli.command import Context
    from brant.inbox import BulkResult, Pruned

_DONE = {"erase": "erased", "replay": "replayed", "requeue": "requeued", "ignore": "ignored"}
_ONLY_FOR_MANY = ("endpoint", "type", "since", "until", "limit")


def _act(context: Context, options: Namespace) -> int:
    if (options.id is None) == (options.status is None):
        raise InvalidValue(f"{options.action} one event by its id, or all of one status with --status")
    if options.id is None:
        return _act_on_many(context, options)
    for name in _ONLY_FOR_MANY:
        if getattr(options, name) is not None:
            raise InvalidValue(f"--{name} chooses among many events: leave it out, or give --status and no id")
    if options.dry_run:
        raise InvalidValue("--dry-run counts many events: give --status and no id")
    with opened(context) as inbox:
        act = {"replay": inbox.replay, "requeue": inbox.requeue, "ignore": inbox.ignore}[options.action]
        return _one(context, options, act, "event")


def _replay_delivery(context: Context, options: Namespace) -> int:
    with opened(context) as inbox:
        return _one(context, options, inbox.replay_delivery, "delivery")


def _one(context: Context, options: Namespace, act: Callable[[int], None], what: str) -> int:
    try:
        act(options.id)
    except KeyError as error:
        context.tell(f"brant: {error.args[0]}")
        return NOTHING
    done = _DONE.get(options.action, "replayed")
    if options.json:
        put_json({"action": options.action, what: options.id, "events": 1})
    else:
        context.tell(f"The {what} {options.id} was {done}")
    return DONE


def _act_on_many(context: Context, options: Namespace) -> int:
    with opened(context) as inbox:
        acts = {"replay": inbox.replay_all, "requeue": inbox.requeue_all, "ignore": inbox.ignore_all}
        act, wanted = acts[options.action], {**filters_of(options), "limit": options.limit, "status": options.status}
        result = act(dry_run=True, **wanted)
        if result.events and not options.dry_run:
            if not options.yes and not confirm(f"{options.action.capitalize()} {_events(result.events)}?"):
                context.tell("Nothing was done")
                return FAILED
            result = act(**wanted)
    return _tell_of_many(context, options, result)


def _tell_of_many(context: Context, options: Namespace, result: BulkResult) -> int:
    if options.json:
        put_json({name: getattr(result, name) for name in result.__slots__} | {"dry_run": options.dry_run})
    elif options.dry_run:
        put(f"{_events(result.events)} would be {_DONE[options.action]}")
    else:
        context.tell(f"{_events(result.events)} {'was' if result.events == 1 else 'were'} {_DONE[options.action]}")
    return DONE if result.events else NOTHING


def _erase(context: Context, options: Namespace) -> int:
    with opened(context) as inbox:
        if not options.yes and not confirm(f"Erase the content of event {options.id} for good?"):
            context.tell("Nothing was erased")
            return FAILED
        return _one(context, options, inbox.erase, "event")


def _open_or_close(context: Context, options: Namespace) -> int:
    with opened(context) as inbox:
        try:
            (inbox.pause if options.action == "pause" else inbox.resume)(options.endpoint)
        except KeyError as error:
            context.tell(f"brant: {error.args[0]}")
            return NOTHING
    if options.json:
        put_json({"action": options.action, "endpoint": options.endpoint})
    else:
        context.tell(f"The endpoint {options.endpoint} was {options.action}d")
    return DONE


def _prune(context: Context, options: Namespace) -> int:
    from brant.inbox import RetentionPolicy

    if not options.status and not options.orphans:
        raise InvalidValue("say what to prune: events with --status, deliveries without an event with --orphans")
    if options.content and not options.status:
        raise InvalidValue("--content erases the content of events: name their status with --status")
    ages = dict.fromkeys(options.status, options.older_than)
    policy = RetentionPolicy(
        endpoint=options.endpoint,
        keep_s={} if options.content else ages,
        content_s=ages if options.content else {},
        orphans_s=options.older_than if options.orphans else None,
        rejects_s=None,
    )
    with opened(context) as inbox:
        try:
            return _pruned(context, options, inbox, policy)
        except KeyError as error:
            context.tell(f"brant: {error.args[0]}")
            return NOTHING


def _pruned(context: Context, options: Namespace, inbox: brant.Inbox, policy: brant.inbox.RetentionPolicy) -> int:
    pruned = inbox.retain(policy, dry_run=True)
    found = _told(pruned)
    if found and not options.dry_run:
        if not options.yes and not confirm(f"Delete {found} for good?"):
            context.tell("Nothing was deleted")
            return FAILED
        pruned = inbox.retain(policy)
    if options.json:
        put_json({name: getattr(pruned, name) for name in pruned.__slots__} | {"dry_run": options.dry_run})
    elif not found:
        context.tell("Nothing is that old")
    elif options.dry_run:
        put(f"To delete: {found}")
    else:
        context.tell(f"Deleted: {_told(pruned)}")
    return DONE if found else NOTHING


def _told(pruned: Pruned) -> str:
    counts = (
        (pruned.events_pruned, "event", "events"),
        (pruned.contents_erased, "event's content", "events' content"),
        (pruned.deliveries_pruned, "delivery", "deliveries"),
        (pruned.attempts_pruned, "attempt", "attempts"),
    )
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


def _events(number: int) -> str:
    return f"{number} event" if number == 1 else f"{number} events"


ACTIONS = {
    "replay": _act,
    "requeue": _act,
    "ignore": _act,
    "replay-delivery": _replay_delivery,
    "erase": _erase,
    "prune": _prune,
    "pause": _open_or_close,
    "resume": _open_or_close,
}
