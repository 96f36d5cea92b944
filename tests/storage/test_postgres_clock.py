"""Whose time it is on a server."""

from __future__ import annotations

import time

import psycopg
import pytest

import brant
from brant.storage.postgres.clock import ServerClock
from brant.testing import FakeClock


def server_now(address: str) -> float:
    with psycopg.connect(address) as connection:
        found = connection.execute("SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)").fetchone()
    assert found is not None
    return float(found[0])


def test_the_time_is_the_servers_whatever_this_machines_clock_says(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time()
    monkeypatch.setattr(time, "time", lambda: right + 86_400)
    with brant.open(address) as db:
        assert abs(db.clock.now() - server_now(address)) < 60
        monkeypatch.setattr(time, "time", lambda: right - 86_400)
        job_id = db.queue("q").enqueue(1)
        assert abs(job_id / 1_000_000 - server_now(address)) < 60


def test_an_injected_clock_is_used_as_it_is(address: str) -> None:
    clock = FakeClock()
    with brant.open(address, clock=clock) as db:
        assert db.clock is clock
        assert db.queue("q").enqueue(1) == int(clock.now() * 1_000_000)


def test_a_measurement_that_agrees_changes_nothing_and_one_that_disagrees_counts() -> None:
    clock = ServerClock()
    clock.measured(100.0, 100.2, 1000.1)
    first = clock._offset
    assert first == pytest.approx(900.0)
    clock.measured(200.0, 200.2, 1100.25)  # within the error of both
    assert clock._offset == first
    clock.measured(300.0, 300.002, 1200.05)  # much more exact
    assert clock._offset == pytest.approx(900.049)
    clock.measured(400.0, 400.2, 1400.0)  # the server's clock was set
    assert clock._offset == pytest.approx(999.9)


def test_it_is_measured_anew_after_a_while(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with brant.open(address) as db:
        db.queue("q").enqueue(1)
        clock, now = db.clock, time.monotonic()
        assert isinstance(clock, ServerClock)
        clock._offset = 0.0  # as if this machine had slept, and its monotonic time with it
        monkeypatch.setattr(time, "monotonic", lambda: now + 31)
        db.queue("q").enqueue(2)
        assert abs(clock.now() - server_now(address)) < 60
