"""--status, --vacuum, --cleanup: what is done to the database as a whole, without a command."""

from __future__ import annotations

import time

from brant.cli.command import DONE
from brant.cli.output import put, put_json
from brant.errors import BrantError
from brant.opening import remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.cli.command import Context
    from brant.cli.main import GlobalOptions


def run(context: Context, options: GlobalOptions) -> int:
    if options.action == "--cleanup":
        return _cleanup(context)
    if options.action == "--vacuum":
        return _vacuum(context, compact=options.compact)
    return _status(context, as_json=options.json)


def _status(context: Context, *, as_json: bool) -> int:
    with context.open(writes=True) as db:
        counts = db.list_queues()
        status = {
            "total_messages": sum(stats.total for stats in counts),
            "last_timestamp": db.last_id(),
            "db_size": db.health().facts["database_bytes"],
        }
    if as_json:
        put_json(status)
    else:
        for name, value in status.items():
            put(f"{name}: {value}")
    return DONE


def _vacuum(context: Context, *, compact: bool) -> int:
    target = context.target()
    if not target.exists():
        context.tell(f"Database not found: {target}")
        return DONE
    with context.open() as db:
        start = time.monotonic()
        swept = db.vacuum()
        if swept:
            context.tell(f"Vacuumed {swept} expired messages and results in {time.monotonic() - start:.1f}s")
        else:
            context.tell("No claimed messages to vacuum")
        if compact:
            start = time.monotonic()
            db.vacuum(compact=True)
            context.tell(f"Database compacted in {time.monotonic() - start:.1f}s")
    return DONE


def _cleanup(context: Context) -> int:
    target = context.target()
    try:
        is_gone = remove(target.path)
    except BrantError:
        if target.exists():
            raise
        context.tell(f"Database not found, nothing to clean up: {target}")
        return DONE
    context.tell(
        f"Database cleaned up: {target}"
        if is_gone
        else f"Brant's tables dropped; {target} holds other tables and is kept"
    )
    return DONE
