"""Verbs of a dump: every table as it is, out of one database and into another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brant.arguments import storable
from brant.storage.base import Row, Statements

# The tables, without their prefix, and their columns, both in the order of a dump.
TABLES: dict[str, tuple[str, ...]] = {
    "queues": ("name", "paused", "events"),
    "aliases": ("alias", "target"),
    "live": (
        "id",
        "queue",
        "payload",
        "state",
        "priority",
        "run_at",
        "worker_id",
        "claim_expires_at",
        "attempts",
        "max_attempts",
        "created_at",
        "expires_at",
    ),
    "dead": (
        "id",
        "queue",
        "payload",
        "priority",
        "run_at",
        "attempts",
        "max_attempts",
        "last_error",
        "created_at",
        "died_at",
    ),
    "attempts": ("job_id", "attempt", "worker_id", "error", "failed_at"),
    "unique": ("queue", "key", "job_id", "expires_at"),
    "limits": ("queue", "key", "max_running", "max_starts", "per_s", "wake_at", "forget_at"),
    "limited": ("job_id", "queue", "key", "running", "priority", "run_at"),
    "starts": ("queue", "key", "number", "started_at"),
    "batches": (
        "id",
        "note",
        "then_queue",
        "then_payload",
        "then_path",
        "then_priority",
        "then_max_attempts",
        "then_expires_s",
        "then_job_id",
        "total",
        "succeeded",
        "dead",
        "cancelled",
        "sealed",
        "settled",
        "created_at",
        "settled_at",
        "keep_s",
    ),
    "batch_jobs": ("job_id", "batch_id", "state"),
    "results": ("job_id", "value", "created_at", "expires_at"),
    "stream": ("offset", "topic", "key", "payload", "created_at"),
    "stream_consumers": ("name", "topic", "offset"),
    "notifications": ("id", "channel", "payload", "created_at"),
    "scheduler_tasks": (
        "name",
        "queue",
        "cron_expr",
        "payload",
        "priority",
        "expires_s",
        "next_fire_at",
        "enabled",
        "max_attempts",
    ),
    "schedules": ("name", "tz", "missed", "last_fire_at", "error"),
    "locks": ("name", "owner", "expires_at"),
    "rate_limits": ("name", "window_start", "count"),
}
# Those that never give an id out twice, not even that of a row that is gone.
NUMBERED_TABLES = ("live", "notifications", "stream")

_TEXT_COLUMNS = frozenset(
    {
        "alias",
        "channel",
        "cron_expr",
        "error",
        "key",
        "last_error",
        "missed",
        "name",
        "note",
        "owner",
        "payload",
        "queue",
        "state",
        "target",
        "then_path",
        "then_payload",
        "then_queue",
        "topic",
        "tz",
        "value",
        "worker_id",
    }
)


class TransferVerbs(Statements):
    def has_old_layout(self) -> bool:
        """Whether there are jobs in tables of earlier systems, which could not be taken over."""
        return bool(self.rows("old_layout", {}))

    def row_counts(self) -> dict[str, int]:
        """How many rows each table holds."""
        return dict(self.rows("row_counts", {}))

    def table_rows(self, table: str) -> Iterator[Row]:
        """All rows in the order of their key, each read when it is asked for; columns as in `TABLES`."""
        return self.each(f"dump_{table}", {})

    def load_row(self, table: str, row: Mapping[str, object]) -> None:
        """Add a row as it was. Text with surrogate escapes stands for the bytes that were found in place of UTF-8."""
        params = dict(row)
        for column in _TEXT_COLUMNS.intersection(row):
            value = row[column]
            is_broken = isinstance(value, str) and storable(value) != value
            params[f"{column}_is_broken"] = is_broken
            if is_broken:
                params[column] = str(value).encode("utf-8", "surrogateescape")
        self.changed(f"load_{table}", params)

    def last_ids(self) -> dict[str, int]:
        """The highest id that each of the `NUMBERED_TABLES` has ever given out."""
        return dict(self.rows("last_ids", {}))

    def raise_last_id(self, table: str, last_id: int) -> None:
        """Have a table give out higher ids only, from now on."""
        params = {"table": table, "last_id": last_id}
        self.changed("forget_lower_last_id", params)
        self.changed("add_last_id", params)
