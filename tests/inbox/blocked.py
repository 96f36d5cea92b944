"""Transactions of a server that wait for each other."""

from __future__ import annotations

import psycopg


def wait_until_blocked(path: str) -> None:
    """Until some transaction waits for another one."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(path, autocommit=True) as looking:
        assert any(looking.execute(asked).fetchone() for _ in range(50_000))
