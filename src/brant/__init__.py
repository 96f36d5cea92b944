"""Messaging inside the database that an application already has.

Work queues, durable streams, pub/sub, schedules, locks, rate limits and results, in the same file and the same
transactions as the business data.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would take a tenth of the time of a whole `brant write`
if TYPE_CHECKING:
    from typing import Any

    from brant.channel import Listener, Notification
    from brant.cron import CronSchedule, crontab, every, every_s
    from brant.database import Database
    from brant.errors import (
        BrantError,
        ClaimLost,
        InvalidValue,
        LeadershipLost,
        LockHeld,
        Retryable,
        StorageError,
        TaskFailed,
    )
    from brant.inbox import Inbox
    from brant.job import Job, Message
    from brant.opening import attach, open
    from brant.queue import Queue
    from brant.schedule import Scheduler
    from brant.stream import Event, Stream
    from brant.transaction import Transaction

__version__ = "0.1.0"

_HOMES = {
    "channel": ("Listener", "Notification"),
    "cron": ("CronSchedule", "crontab", "every", "every_s"),
    "database": ("Database",),
    "errors": (
        "BrantError",
        "ClaimLost",
        "InvalidValue",
        "LeadershipLost",
        "LockHeld",
        "Retryable",
        "StorageError",
        "TaskFailed",
    ),
    "inbox": ("Inbox",),
    "job": ("Job", "Message"),
    "opening": ("attach", "open"),
    "queue": ("Queue",),
    "schedule": ("Scheduler",),
    "stream": ("Event", "Stream"),
    "transaction": ("Transaction",),
}

__all__ = [
    "open",
    "attach",
    "Database",
    "Transaction",
    "Queue",
    "Job",
    "Message",
    "Stream",
    "Event",
    "Listener",
    "Notification",
    "Scheduler",
    "CronSchedule",
    "crontab",
    "every",
    "every_s",
    "Inbox",
    "BrantError",
    "InvalidValue",
    "StorageError",
    "ClaimLost",
    "LockHeld",
    "LeadershipLost",
    "TaskFailed",
    "Retryable",
]


def __getattr__(name: str) -> Any:
    # Imported when used: a command that only writes a message must not pay for the scheduler's asyncio.
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"brant.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'brant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
