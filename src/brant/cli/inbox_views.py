"""inbox endpoints, events, deliveries, attempts, show, stats, audits: looking, without changing anything."""

from __future__ import annotations

from contextlib import contextmanager

import brant
from brant.cli.command import DONE, NOTHING
from brant.cli.output import put_json, write
from brant.cli.terminal import table, when
from brant.errors import InvalidValue, StorageError
from brant.inbox import PruneAudit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from brant.cli.command import Context
    from brant.inbox import Attempt, Audit, Delivery, Event

_STATUSES = ("received", "processing", "handled", "failed", "dead", "ignored")
_EVENT_HEADERS = ("ID", "ENDPOINT", "TYPE", "STATUS", "RECEIVED", "ATTEMPTS", "BYTES", "LAST ERROR")
_DELIVERY_HEADERS = ("ID", "ENDPOINT", "EVENT", "RECEIVED", "VERIFIED", "BYTES", "WHY NOT")
_ATTEMPT_HEADERS = ("ID", "EVENT", "WHEN", "OUTCOME", "MS", "ERROR")
_AUDIT_HEADERS = ("ID", "WHEN", "DID", "EVENTS", "WHAT WAS ASKED FOR")
_REJECT_HEADERS = ("ENDPOINT", "HOUR", "STATUS", "COUNT", "LAST", "REASON")

_KINDS = {"event_ids": "event", "deliveries": "delivery", "attempts": "attempt"}


@contextmanager
def opened(context: Context) -> Iterator[brant.Inbox]:
    """The inbox in the file; needs no application, and makes no inbox where there is none."""

    from brant.inbox.tables import has_inbox

    target = context.target()
    if not target.exists():
        raise StorageError(f"there is no database at {target}; name the one with the inbox with -f")
    with context.open_target(target) as db:
        if not has_inbox(db):
            raise StorageError(f"there is no inbox in {target}; name the database that your application opens")
        with brant.Inbox(db) as inbox:
            yield inbox


def second_of(text: str | None) -> int | None:
    """The Unix second of a time that was typed."""
    if text is None:
        return None
    from brant.cli.times import timestamp

    return timestamp(text) // 1_000_000


def filters_of(options: Namespace) -> dict[str, Any]:
    """What list_events and the acts on many events have in common."""
    return {
        "endpoint": options.endpoint,
        "event_type": options.type,
        "since": second_of(options.since),
        "until": second_of(options.until),
    }


def _endpoints(context: Context, options: Namespace) -> int:
    with opened(context) as inbox:
        found = inbox.list_endpoints()
    if options.json:
        for each in found:
            put_json(_fields(each))
    elif found:
        rows = [
            (each.name, each.path, each.provider or "", "open" if each.enabled else "paused", when(each.created_at))
            for each in found
        ]
        table(rows, ("NAME", "PATH", "PROVIDER", "STATE", "MADE"))
    return DONE if found else NOTHING


def _events(context: Context, options: Namespace) -> int:
    given: dict[str, Any] = {"status": options.status, **filters_of(options)}
    with opened(context) as inbox:

        def page(**position: Any) -> list[Event]:
            return inbox.list_events(**given, **position)

        found, has_more = _page(page, options, with_body=options.body)
    return _listed(context, options, found, has_more, _event_fields, _event_row, _EVENT_HEADERS)


def _deliveries(context: Context, options: Namespace) -> int:
    given: dict[str, Any] = {
        "event_id": options.event,
        "endpoint": options.endpoint,
        "signature_valid": True if options.verified else False if options.unverified else None,
        "orphaned": True if options.orphaned else None,
        "since": second_of(options.since),
    }
    with opened(context) as inbox:

        def page(**position: Any) -> list[Delivery]:
            return inbox.list_deliveries(**given, **position)

        found, has_more = _page(page, options, with_body=options.body)
    return _listed(context, options, found, has_more, _delivery_fields, _delivery_row, _DELIVERY_HEADERS)


def _attempts(context: Context, options: Namespace) -> int:
    given: dict[str, Any] = {
        "event_id": options.event,
        "outcome": options.outcome,
        "since": second_of(options.since),
    }
    with opened(context) as inbox:

        def page(**position: Any) -> list[Attempt]:
            return inbox.list_attempts(**given, **position)

        found, has_more = _page(page, options)
    return _listed(context, options, found, has_more, _fields, _attempt_row, _ATTEMPT_HEADERS)


def _page(read: Callable[..., list[Any]], options: Namespace, **wish: bool) -> tuple[list[Any], bool]:
    """The rows, and whether there are older ones."""
    found = read(before=options.before, limit=options.limit, **wish)
    return found, len(found) == options.limit and bool(read(before=found[-1].id, limit=1))


def _listed(
    context: Context,
    options: Namespace,
    found: list[Any],
    has_more: bool,
    fields: Callable[[Any], dict[str, object]],
    row: Callable[[Any], tuple[str, ...]],
    headers: Sequence[str],
) -> int:
    if options.json:
        for each in found:
            put_json(fields(each))
    elif found:
        shows_body = getattr(options, "body", False)
        rows = [(*row(each), _text(each.body)) if shows_body else row(each) for each in found]
        table(rows, (*headers, "BODY") if shows_body else headers)
    if has_more:
        context.tell(f"brant: there are older ones; --before {found[-1].id} shows the next")
    return DONE if found else NOTHING


def _show(context: Context, options: Namespace) -> int:
    if (options.id is None) == (options.delivery is None):
        raise InvalidValue("name an event by its id, or a delivery with --delivery")
    with opened(context) as inbox:
        try:
            found, history = _looked_up(inbox, options)
        except KeyError as error:
            context.tell(f"brant: {error.args[0]}")
            return NOTHING
    if options.raw:
        write(found.body or b"")
    elif options.json:
        told = {name: [fields(each) for each in rows] for name, (rows, fields, _, _) in history.items()}
        put_json(
            (_event_fields if options.delivery is None else _delivery_fields)(found)
            | {"headers": [list(pair) for pair in found.headers], "query": found.query}
            | told
        )
    else:
        _show_table(found, history)
    return DONE


def _looked_up(inbox: brant.Inbox, options: Namespace) -> tuple[Any, dict[str, Any]]:
    """An event with its deliveries and attempts, or a delivery with its events; the latest of each."""
    if options.delivery is not None:
        found = inbox.get_delivery(options.delivery)
        ids = inbox.events_of_delivery(options.delivery)
        return found, {"event_ids": (ids, lambda event_id: event_id, lambda event_id: (str(event_id),), ("ID",))}
    return inbox.get_event(options.id), {
        "deliveries": (inbox.list_deliveries(event_id=options.id), _delivery_fields, _delivery_row, _DELIVERY_HEADERS),
        "attempts": (inbox.list_attempts(event_id=options.id), _fields, _attempt_row, _ATTEMPT_HEADERS),
    }


def _show_table(found: Event | Delivery, history: dict[str, Any]) -> None:
    fields = _event_fields(found) if hasattr(found, "status") else _delivery_fields(found)  # type: ignore[arg-type]
    fields.pop("body", None)
    fields.pop("body_base64", None)
    facts = [(name, "" if value is None else str(value)) for name, value in fields.items()]
    facts += [("header", f"{name}: {value}") for name, value in found.headers]
    facts += [("query", f"{name}={value}") for name, value in found.query.items()]
    table([*facts, ("body", _text(found.body))], ("FACT", "VALUE"))
    for name, (rows, _, row, headers) in history.items():
        if rows:
            table([(_KINDS[name], *row(each)) for each in rows], ("FACT", *headers))


def _stats(context: Context, options: Namespace) -> int:
    with opened(context) as inbox:
        if options.rejects:
            return _rejects(inbox, options)
        names = [each.name for each in inbox.list_endpoints() if options.endpoint in (None, each.name)]
        counts = inbox.counts()
        found = [
            {"endpoint": name}
            | {status: counts.get(name, {}).get(status, 0) for status in _STATUSES}
            | {"lag_s": inbox.lag(name)}
            for name in names
        ]
    if options.json:
        for each in found:
            put_json(each)
    elif found:
        rows = [tuple("" if value is None else _number(value) for value in each.values()) for each in found]
        table(rows, ("ENDPOINT", *(status.upper() for status in _STATUSES), "LAG S"))
    return DONE if found else NOTHING


def _rejects(inbox: brant.Inbox, options: Namespace) -> int:
    found = inbox.list_rejects(endpoint=options.endpoint, since=second_of(options.since) or 0, limit=options.limit)
    if options.json:
        for each in found:
            put_json(_fields(each))
    elif found:
        rows = [
            (each.endpoint or "", when(each.hour), str(each.status), str(each.count), when(each.last_at), each.reason)
            for each in found
        ]
        table(rows, _REJECT_HEADERS)
    return DONE if found else NOTHING


def _audits(context: Context, options: Namespace) -> int:
    if options.pruned and options.before is not None:
        raise InvalidValue("--before pages through what operators did: leave it out with --pruned, or raise --limit")
    with opened(context) as inbox:
        found: list[Any] = (
            list(inbox.list_prune_audits(limit=options.limit))
            if options.pruned
            else list(inbox.list_audits(before=options.before, limit=options.limit))
        )
    return _listed(context, options, found, False, _fields, _audit_row, _AUDIT_HEADERS)


def _audit_row(audit: Audit | PruneAudit) -> tuple[str, ...]:
    import json

    did, events = (audit.kind, audit.events_pruned) if isinstance(audit, PruneAudit) else (audit.action, audit.events)
    return (
        str(audit.id),
        when(audit.executed_at),
        did,
        "" if events is None else str(events),
        json.dumps(audit.summary, ensure_ascii=False),
    )


def _number(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def _fields(record: Any) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__slots__}


def _event_fields(event: Event) -> dict[str, object]:
    return _with_body(event, "replayed_delivery")


def _delivery_fields(delivery: Delivery) -> dict[str, object]:
    return _with_body(delivery)


def _with_body(record: Event | Delivery, *left_out: str) -> dict[str, object]:
    """The fields without headers and query, which are long; a body that is no text is in base64."""
    fields = {
        name: value for name, value in _fields(record).items() if name not in ("headers", "query", "body", *left_out)
    }
    if record.body is None:
        return fields
    try:
        return {**fields, "body": record.body.decode()}
    except UnicodeDecodeError:
        import base64

        return {**fields, "body_base64": base64.b64encode(record.body).decode()}


def _text(body: bytes | None) -> str:
    return "" if body is None else body.decode("utf-8", "backslashreplace")


def _event_row(event: Event) -> tuple[str, ...]:
    return (
        str(event.id),
        event.endpoint,
        event.event_type or "",
        event.status,
        when(event.received_at),
        str(event.attempt_count),
        str(event.body_bytes),
        event.last_error or "",
    )


def _delivery_row(delivery: Delivery) -> tuple[str, ...]:
    verified = {True: "yes", False: "no", None: "by nobody"}[delivery.signature_valid]
    event = "" if delivery.event_id is None else str(delivery.event_id)
    received, size = when(delivery.received_at), str(delivery.body_bytes)
    return str(delivery.id), delivery.endpoint, event, received, verified, size, delivery.signature_error or ""


def _attempt_row(attempt: Attempt) -> tuple[str, ...]:
    event, ms = str(attempt.event_id), str(attempt.duration_ms)
    return str(attempt.id), event, when(attempt.attempted_at), attempt.outcome, ms, attempt.error or ""


ACTIONS = {
    "endpoints": _endpoints,
    "events": _events,
    "deliveries": _deliveries,
    "attempts": _attempts,
    "show": _show,
    "stats": _stats,
    "audits": _audits,
}
