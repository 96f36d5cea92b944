"""What can be read: the tables of the format `brant`, their columns and how a reader gets on in them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache

from brant.statements import load_statements

JOB_EVENTS_TOPIC = "_brant:jobs"

_FOLDER = os.path.join(os.path.dirname(__file__), "sql")


@dataclass(frozen=True)
class Column:
    name: str
    type: str  # BIGINT, STRING, TIMESTAMP or BINARY


@dataclass(frozen=True)
class Table:
    """A table: append-only ones are read in ranges of their cursor, the others whole, in one statement a file."""

    name: str
    columns: tuple[Column, ...]
    named_by: str | None = None
    """The column whose values `subscribe` names."""
    cursor: str | None = None
    """The growing column of an append-only table."""
    stored_in: str = ""
    """The append-only table that these rows lie in."""
    topic: str | None = None
    """The only topic that these rows have."""
    heads: tuple[str, ...] = ()
    """The columns that a statement of its own reads, several times as fast, where no others are wanted."""
    large: str | None = None
    """A column that is never NULL and whose values can be of any size."""
    optional: bool = False
    """Whether a database may be without it, now or for ever: the inbox's are made when it is first used."""

    @property
    def append_only(self) -> bool:
        return self.cursor is not None

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


def _columns(ddl: str) -> tuple[Column, ...]:
    return tuple(Column(*part.split()) for part in ddl.split(", "))


_ALL = (
    Table(
        "stream",
        _columns("offset BIGINT, topic STRING, key STRING, payload STRING, created_at TIMESTAMP"),
        named_by="topic",
        cursor="offset",
        stored_in="stream",
        heads=("offset", "topic"),
        large="payload",
    ),
    Table(
        "jobs",
        _columns(
            "offset BIGINT, event STRING, queue STRING, job_id BIGINT, attempt BIGINT, at TIMESTAMP, worker STRING, "
            "error STRING, task STRING"
        ),
        named_by="queue",
        cursor="offset",
        stored_in="stream",
        topic=JOB_EVENTS_TOPIC,
    ),
    Table(
        "notifications",
        _columns("id BIGINT, channel STRING, payload STRING, created_at TIMESTAMP"),
        named_by="channel",
        cursor="id",
        stored_in="notifications",
        large="payload",
    ),
    Table(
        "queue",
        _columns(
            "id BIGINT, queue STRING, payload STRING, state STRING, priority BIGINT, run_at TIMESTAMP, "
            "worker_id STRING, claim_expires_at TIMESTAMP, attempts BIGINT, max_attempts BIGINT, "
            "created_at TIMESTAMP, expires_at TIMESTAMP"
        ),
        named_by="queue",
    ),
    Table(
        "dead",
        _columns(
            "id BIGINT, queue STRING, payload STRING, priority BIGINT, run_at TIMESTAMP, attempts BIGINT, "
            "max_attempts BIGINT, last_error STRING, created_at TIMESTAMP, died_at TIMESTAMP"
        ),
        named_by="queue",
    ),
    Table("results", _columns("job_id BIGINT, value STRING, created_at TIMESTAMP, expires_at TIMESTAMP")),
    Table(
        "deliveries",
        _columns(
            "id BIGINT, endpoint STRING, provider STRING, event_id BIGINT, received_at TIMESTAMP, "
            "provider_event_id STRING, provider_delivery_id STRING, event_type STRING, method STRING, headers STRING, "
            "body BINARY, query STRING, signature_valid BIGINT, signature_error STRING, dedupe_key STRING, "
            "duplicate BIGINT"
        ),
        named_by="endpoint",
        cursor="id",
        stored_in="deliveries",
        large="body",
        optional=True,
    ),
    Table(
        "events",
        _columns(
            "id BIGINT, endpoint STRING, received_at TIMESTAMP, provider_event_id STRING, provider_delivery_id STRING, "
            "event_type STRING, method STRING, headers STRING, body BINARY, query STRING, dedupe_key STRING, "
            "status STRING, attempt_count BIGINT, handled_at TIMESTAMP, last_error STRING"
        ),
        named_by="endpoint",
        optional=True,
    ),
    Table(
        "attempts",
        _columns(
            "id BIGINT, event_id BIGINT, endpoint STRING, provider STRING, event_type STRING, received_at TIMESTAMP, "
            "attempted_at TIMESTAMP, outcome STRING, error STRING, duration_ms BIGINT"
        ),
        named_by="endpoint",
        cursor="id",
        stored_in="attempts",
        optional=True,
    ),
    Table(
        "rejects",
        _columns(
            "endpoint STRING, provider STRING, hour TIMESTAMP, status BIGINT, reason STRING, count BIGINT, "
            "last_at TIMESTAMP"
        ),
        named_by="endpoint",
        optional=True,
    ),
    Table("consumers", _columns("name STRING, topic STRING, offset BIGINT"), named_by="topic"),
)
TABLES = {table.name: table for table in _ALL}


def statement(name: str, backend: str = "sqlite") -> str:
    return load_statements(os.path.join(_FOLDER, backend))[name]


@cache
def parameters(name: str, backend: str = "sqlite") -> tuple[str, ...]:
    """The names of a statement's parameters in the order in which the database numbers them."""
    return tuple(dict.fromkeys(re.findall(r":(\w+)", statement(name, backend))))
