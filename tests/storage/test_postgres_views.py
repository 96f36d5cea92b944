"""The views for people on Postgres: times are times, flags are true or false."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from brant.storage.limits import LimitRow
from tests.storage.side_by_side import Clients, clients

__all__ = ["clients"]

NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
OF_NO_USE_TO_PEOPLE = {"_brant_meta", "_brant_left_keys", "_brant_batch_changes", "_brant_limited", "_brant_starts"}


def rows(clients: Clients, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(clients.address, row_factory=dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


def fill(clients: Clients) -> None:
    with clients.new().transaction() as session:
        session.enqueue("q", '"live"', delay=60)
        session.enqueue("q", '"dead"', unique_key="k", unique_for=60)
        session.enqueue_many("q", ["1", "2"], limit=LimitRow("k", 1, 5, 60))
        failed, *_ = session.claim("q", "w", -1, 60)
        session.fail(failed[0].id, "w", "broken")
        session.claim("q", "w", -1, 60)
        session.publish("t", "key", "1")
        session.save_offset("c", "t", 0)
        session.notify("c", "1")
        session.add_alias("a", "q")
        session.acquire_lock("l", "me", 60)
        session.try_rate_limit("r", 5, 60)
        session.save_result(7, "1", 60)
        session.register_schedule("s", "q", "@every 60s", "1", expires_s=90)
        session.create_batch(1, '"note"', 60)
        session.join_batch(1, [session.enqueue("q", "member")])


def test_every_table_has_a_view(clients: Clients) -> None:
    found = rows(
        clients,
        "SELECT DISTINCT source.relname FROM pg_rewrite JOIN pg_class AS view ON view.oid = ev_class"
        " JOIN pg_depend ON objid = pg_rewrite.oid JOIN pg_class AS source ON source.oid = refobjid"
        " WHERE view.relnamespace = 'brant'::regnamespace AND view.relname !~ '^_' AND source.relkind = 'r'",
    )
    tables = rows(clients, "SELECT tablename FROM pg_tables WHERE schemaname = 'brant' AND tablename !~ '^knocker'")
    without = {row["tablename"] for row in tables} - {row["relname"] for row in found}
    assert without <= OF_NO_USE_TO_PEOPLE


def test_no_view_shows_a_time_as_a_number(clients: Clients) -> None:
    assert not rows(
        clients,
        "SELECT table_name, column_name FROM information_schema.columns JOIN pg_views"
        " ON schemaname = table_schema AND viewname = table_name"
        " WHERE table_schema = 'brant' AND viewname !~ '^_' AND data_type = 'double precision'",
    )


def test_all_views_can_be_read(clients: Clients) -> None:
    fill(clients)
    views = rows(clients, "SELECT viewname FROM pg_views WHERE schemaname = 'brant'")
    empty = [view["viewname"] for view in views if not rows(clients, f"SELECT * FROM brant.{view['viewname']}")]
    assert empty == []


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("SELECT run_at FROM jobs WHERE payload = '\"live\"'", {"run_at": NOW + timedelta(seconds=60)}),
        ("SELECT last_error, died_at FROM dead_jobs", {"last_error": "broken", "died_at": NOW}),
        ("SELECT topic, key, created_at FROM events", {"topic": "t", "key": "key", "created_at": NOW}),
        ("SELECT name, events_left FROM consumers", {"name": "c", "events_left": 1}),
        ("SELECT owner, expires_at FROM locks", {"owner": "me", "expires_at": NOW + timedelta(seconds=60)}),
        ("SELECT expires_at FROM results", {"expires_at": NOW + timedelta(seconds=60)}),
        (
            "SELECT enabled, next_fire_at, expires_after FROM schedules",
            {
                "enabled": True,
                "next_fire_at": NOW + timedelta(seconds=60),
                "expires_after": timedelta(seconds=90),
            },
        ),
        (
            "SELECT key, running, held_back, per FROM limits",
            {"key": "k", "running": 1, "held_back": 1, "per": timedelta(seconds=60)},
        ),
        ("SELECT total, pending, sealed FROM batches", {"total": 1, "pending": 1, "sealed": False}),
        ("SELECT name, paused FROM queues", {"name": "q", "paused": False}),
    ],
)
def test_a_view_shows(clients: Clients, query: str, shown: dict[str, object]) -> None:
    fill(clients)
    assert rows(clients, query.replace(" FROM ", " FROM brant.")) == [shown]
