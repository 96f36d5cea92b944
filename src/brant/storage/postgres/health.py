"""What is wrong with a database on a server, or may become so."""

from __future__ import annotations

import time

from brant.errors import BrantError
from brant.storage.health import Health, neglected
from brant.storage.postgres.wake import Wake
from brant.storage.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from brant.storage.postgres.backend import PostgresStorage

_OLD_TRANSACTION_S = 300
_HELD_UP_S = 60
_MANY_DEAD_ROWS = 100_000
_NEARLY_ALL = 0.9


def examine(storage: PostgresStorage, wake: Wake, *, thorough: bool) -> Health:
    """A quick look; a thorough one looks for what nobody works on, too."""
    try:
        before = time.monotonic()
        with storage.reading() as session:
            session.value("server_time", {})
            round_trip_s = time.monotonic() - before
            problems = [*_usual_problems(session), *(neglected(session) if thorough else [])]
            live_rows, dead_rows = next(iter(session.rows("dead_rows", {})), (0, 0))
            facts = {
                "path": storage.target,
                "postgres_version": session.value("server_version", {}),
                "schema": storage.address.schema,
                "database_bytes": int(session.value("schema_bytes", {"schema": storage.address.schema})),
                "dead_rows": dead_rows,
                "round_trip_ms": round(round_trip_s * 1000, 2),
                "watcher": wake.mode,
            }
    except BrantError as error:
        return Health((str(error),), facts={"path": storage.target})
    if wake.failure:
        problems.append(f"wake-ups are degraded: {wake.failure}")
    return Health(tuple(problems), _warnings(live_rows, dead_rows), facts)


def _usual_problems(session: Session) -> list[str]:
    problems = [
        f"the schedule {name!r} is parked; update or re-add it" for (name,) in session.rows("parked_schedules", {})
    ]
    problems += [
        f"the connection of {user or 'somebody'} ({program or 'no application name'}, pid {pid}) has had a transaction "
        f"open for {age:.0f} s ({state}): dead rows can't be removed, and streams may wait for it; end it"
        for pid, program, user, state, age in session.rows("old_transactions", {"seconds": _OLD_TRANSACTION_S})
    ]
    problems += [
        f"readers of the stream {topic!r} wait for a transaction of {user or 'somebody'} "
        f"({program or 'no application name'}, pid {pid}) that published to it and is open for {age:.0f} s: end it"
        for topic, pid, program, user, age in session.rows("streams_held_up", {"seconds": _HELD_UP_S})
    ]
    problems += [
        f"a prepared transaction ({gid!r} of {user}) has been left open for {age:.0f} s: dead rows can't be removed; "
        "commit it or roll it back"
        for gid, user, age in session.rows("old_prepared_transactions", {"seconds": _OLD_TRANSACTION_S})
    ]
    ((used, most),) = session.rows("connections", {})
    if used > most * _NEARLY_ALL:
        problems.append(f"{used} of the server's {most} connections are in use; close some, or raise max_connections")
    return problems


def _warnings(live_rows: int, dead_rows: int) -> tuple[str, ...]:
    if dead_rows > max(_MANY_DEAD_ROWS, 10 * live_rows):
        return (f"the table of live jobs holds {dead_rows} dead rows: autovacuum is behind or held up; see to it",)
    return ()
