"""The SQL functions: Honker's names, so that ``SELECT honker_enqueue(...)`` works on a plain connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

from brant.clock import Clock
from brant.cron import CronSchedule
from brant.errors import InvalidValue
from brant.storage.base import JobRow
from brant.storage.sqlite.connection import SqliteSession
from brant.storage.sqlite.schema import bootstrap, prepare
from brant.storage.sqlite.watch_functions import WatchHandles


def attach(connection: sqlite3.Connection, clock: Clock) -> None:
    """Make the tables where they are missing and register the functions, leaving the caller's transaction as it was."""
    session = SqliteSession(connection, clock, guarded=True)
    prepare(session)
    register_functions(session)


class _Function(NamedTuple):
    name: str
    arguments: str  # a letter each: t text, i integer; capital: may be NULL
    run: Callable[..., Any]


def register_functions(session: SqliteSession) -> None:
    handles = WatchHandles(session.connection)
    for function in (*_functions(), *(_Function(*parts) for parts in handles.functions())):
        session.connection.create_function(
            function.name, len(function.arguments), _callable(session, function), deterministic=function.name in _PURE
        )


def _callable(session: SqliteSession, function: _Function) -> Callable[..., Any]:
    def call(*arguments: object) -> Any:
        session.function_error = None
        try:
            _check(function, arguments)
            if function.name in _WRITE_NOTHING:
                return function.run(session, *arguments)
            # In autocommit each inner statement would commit on its own.
            with session.savepoint():
                return function.run(session, *arguments)
        except Exception as error:
            session.function_error = error
            raise

    return call


_TYPES = {"t": (str, "text"), "i": (int, "an integer")}
_PURE = {"honker_cron_next_after"}
_WRITE_NOTHING = _PURE | {
    "honker_get_job",
    "honker_queue_next_claim_at",
    "honker_scheduler_soonest",
    "honker_scheduler_list",
    "honker_result_get",
    "honker_stream_read_since",
    "honker_stream_get_offset",
    "honker_update_watcher_open",
    "honker_update_watcher_wait",
    "honker_update_watcher_close",
}


def _check(function: _Function, arguments: tuple[object, ...]) -> None:
    for position, (kind, value) in enumerate(zip(function.arguments, arguments, strict=True), start=1):
        expected, description = _TYPES[kind.lower()]
        if not isinstance(value, expected) and not (value is None and kind.isupper()):
            raise InvalidValue(f"{function.name}: argument {position} must be {description}, not {value!r}")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _functions() -> list[_Function]:
    return [
        _Function("honker_bootstrap", "", _bootstrap),
        _Function("notify", "tt", lambda s, channel, payload: s.notify(channel, payload)),
        _Function("honker_enqueue", "ttIIiiI", _enqueue),
        _Function("honker_claim_batch", "ttii", _claim_batch),
        _Function("honker_ack", "it", lambda s, job, worker: int(s.ack(job, worker))),
        _Function("honker_ack_batch", "tt", lambda s, ids, worker: s.ack_many(_ids(ids), worker)),
        _Function("honker_retry", "itit", lambda s, *claim: int(s.retry(*claim))),
        _Function("honker_fail", "itt", lambda s, *claim: int(s.fail(*claim))),
        _Function("honker_heartbeat", "iti", lambda s, *claim: int(s.extend(*claim) is not None)),
        _Function("honker_cancel", "i", lambda s, job: int(s.cancel(job))),
        _Function("honker_get_job", "i", _get_job),
        _Function("honker_queue_next_claim_at", "t", lambda s, queue: s.next_claim_at(queue)),
        _Function("honker_sweep_expired", "t", lambda s, queue: s.sweep_expired(queue)),
        _Function("honker_lock_acquire", "tti", lambda s, *lock: int(s.acquire_lock(*lock))),
        _Function("honker_lock_renew", "tti", _renew_lock),
        _Function("honker_lock_release", "tt", lambda s, *lock: int(s.release_lock(*lock))),
        _Function("honker_rate_limit_try", "tii", _try_rate_limit),
        _Function("honker_rate_limit_sweep", "i", lambda s, older_than: s.sweep_rate_limits(older_than)),
        _Function("honker_scheduler_register", "ttttiI", _register_schedule),
        _Function("honker_scheduler_register", "ttttiIi", _register_schedule),
        _Function("honker_scheduler_unregister", "t", lambda s, name: int(s.remove_schedule(name))),
        _Function("honker_scheduler_tick", "i", lambda s, now: _json([fire._asdict() for fire in s.tick(now)])),
        _Function("honker_scheduler_soonest", "", lambda s: s.next_schedule_at()),
        _Function("honker_scheduler_pause", "t", lambda s, name: int(s.pause_schedule(name))),
        _Function("honker_scheduler_resume", "t", lambda s, name: int(s.resume_schedule(name))),
        _Function("honker_scheduler_list", "", _list_schedules),
        _Function("honker_scheduler_update", "tTTIIi", _update_schedule),
        _Function("honker_scheduler_update", "tTTIIiIi", _update_schedule),
        _Function("honker_result_save", "iti", _save_result),
        _Function("honker_result_get", "i", lambda s, job: s.get_result(job)[1]),
        _Function("honker_result_sweep", "", lambda s: s.sweep_results()),
        _Function("honker_stream_publish", "tTt", lambda s, *event: s.publish(*event)),
        _Function("honker_stream_read_since", "tii", _read_stream),
        _Function("honker_stream_save_offset", "tti", lambda s, *saved: int(s.save_offset(*saved))),
        _Function("honker_stream_get_offset", "tt", lambda s, *consumer: s.get_offset(*consumer)),
        _Function("honker_cron_next_after", "ti", lambda _, expr, after: CronSchedule(expr).next_fire(after)),
    ]


def _bootstrap(session: SqliteSession) -> int:
    bootstrap(session)
    return 1


def _enqueue(
    session: SqliteSession,
    queue: str,
    payload: str,
    run_at: int | None,
    delay: int | None,
    priority: int,
    max_attempts: int,
    expires: int | None,
) -> int:
    return session.enqueue(
        queue, payload, run_at=run_at, delay=delay, priority=priority, max_attempts=max_attempts, expires=expires
    )


def _claim_batch(session: SqliteSession, queue: str, worker: str, limit: int, lease: int) -> str:
    shown = ("attempts", "claim_expires_at", "id", "payload", "queue", "worker_id")
    claimed = session.claim(queue, worker, limit, lease)
    return _json([{name: getattr(job, name) for name in shown} for job, _ in claimed])


def _ids(text: str) -> list[int]:
    try:
        ids = json.loads(text)
    except ValueError as error:
        raise InvalidValue(f"expected a JSON array of ids, not {text!r}") from error
    if not isinstance(ids, list) or not all(type(job_id) is int for job_id in ids):
        raise InvalidValue(f"expected a JSON array of ids, not {text!r}")
    return ids


def _get_job(session: SqliteSession, job_id: int) -> str:
    job: JobRow | None = session.get_job(job_id)
    return "" if job is None else _json(job._asdict())


def _renew_lock(session: SqliteSession, name: str, owner: str, ttl: int) -> int:
    if ttl <= 0:
        raise InvalidValue(f"ttl must be positive, not {ttl}")
    return int(session.renew_lock(name, owner, ttl))


def _try_rate_limit(session: SqliteSession, name: str, limit: int, per: int) -> int:
    if limit <= 0 or per <= 0:
        raise InvalidValue(f"limit and per must be positive, not {limit} and {per}")
    return int(session.try_rate_limit(name, limit, per))


def _register_schedule(
    session: SqliteSession,
    name: str,
    queue: str,
    expr: str,
    payload: str,
    priority: int,
    expires_s: int | None,
    max_attempts: int = 3,
) -> int:
    # Zone and policy are Brant's own; a caller who does not know of them must not reset them.
    known = session.get_schedule(name)
    kept = {"tz": known.tz, "missed": known.missed} if known else {}
    session.register_schedule(
        name,
        queue,
        expr,
        payload,
        priority=priority,
        expires_s=expires_s,
        max_attempts=max_attempts,
        **kept,  # type: ignore[arg-type]
    )
    return 1


def _list_schedules(session: SqliteSession) -> str:
    return _json(
        [
            {
                "name": schedule.name,
                "queue": schedule.queue,
                "cron_expr": schedule.cron_expr,
                "payload": schedule.payload,
                "priority": schedule.priority,
                "expires_s": schedule.expires_s,
                "next_fire_at": schedule.next_fire_at,
                "enabled": bool(schedule.enabled),
                "max_attempts": schedule.max_attempts,
            }
            for schedule in session.list_schedules()
        ]
    )


def _update_schedule(
    session: SqliteSession,
    name: str,
    expr: str | None,
    payload: str | None,
    priority: int | None,
    expires_s: int | None,
    touch_expires: int,
    max_attempts: int | None = None,
    touch_max_attempts: int = 0,
) -> int:
    return int(
        session.update_schedule(
            name,
            expr=expr,
            payload=payload,
            priority=priority,
            expires_s=expires_s,
            touch_expires=bool(touch_expires),
            max_attempts=max_attempts,
            touch_max_attempts=bool(touch_max_attempts),
        )
    )


def _save_result(session: SqliteSession, job_id: int, value: str, ttl: int) -> int:
    session.save_result(job_id, value, ttl)
    return 1


def _read_stream(session: SqliteSession, topic: str, after: int, limit: int) -> str:
    columns = ("offset", "topic", "key", "payload", "created_at")
    return _json([dict(zip(columns, row, strict=True)) for row in session.read_stream(topic, after, limit)])
