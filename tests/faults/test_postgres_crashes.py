"""A Postgres that crashes and ends connections under load: nothing is lost, all goes on by itself."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psycopg
import pytest

from tests.faults.postgres_crew import Crew, crew, rates, seconds_until_back
from tests.servers import Server

pytestmark = [
    pytest.mark.skipif("BRANT_TEST_POSTGRES" in os.environ, reason="restarts its server"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.guarantee("G2"),
    pytest.mark.guarantee("G3"),
]
RESTARTS = int(os.environ.get("BRANT_POSTGRES_RESTARTS", "1"))
KILL_S = float(os.environ.get("BRANT_POSTGRES_KILL_S", "3"))
KILL_EVERY_S = 0.5
IS_MEASURED = "BRANT_POSTGRES_RESTARTS" in os.environ
MEASURED_S = 15.0
ENOUGH = 100
KILL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'brant'
ORDER BY random() LIMIT 2
"""


def work_on(crew: Crew) -> None:
    """For so long that the usual rate can be told, or in the short form, until something is done."""
    if IS_MEASURED:
        threading.Event().wait(MEASURED_S)
    crew.wait_for_effects(ENOUGH)


def end(crew: Crew) -> None:
    crew.stop_producing()
    crew.wait_until_drained()
    crew.stop_workers()
    crew.assert_nothing_is_lost_or_done_twice()


def report(crew: Crew, what: str, accidents: list[float]) -> None:
    times = crew.times()
    usual, seconds = seconds_until_back(times, accidents)
    told = ", ".join("not" if each < 0 else f"{each:.1f} s" for each in seconds)
    print(f"{what}: {len(times)} effects, {usual:.0f} a second before; back to 95 % of that after: {told}")
    print(f"effects in each second: {rates(times, times[0], times[-1])}")
    print(f"accidents after seconds: {[round(at - times[0]) for at in accidents]}")


def test_workers_and_producers_go_on_by_themselves_after_crashes_of_the_server(
    postgres_server: Server, tmp_path: Path
) -> None:
    assert postgres_server.restart is not None
    accidents = []
    with postgres_server.database() as address, crew(address, tmp_path, workers=2, producers=2) as members:
        members.wait_for_effects(ENOUGH)
        for _ in range(RESTARTS):
            work_on(members)
            accidents.append(time.monotonic())
            postgres_server.restart()
        work_on(members)
        end(members)
        report(members, "restarts", accidents)


def test_connections_that_are_killed_all_the_time_cost_no_work(postgres_server: Server, tmp_path: Path) -> None:
    killed = 0
    with postgres_server.database() as address, crew(address, tmp_path, workers=2, producers=2) as members:
        members.wait_for_effects(ENOUGH)
        work_on(members)
        first, pause = time.monotonic(), threading.Event()
        with psycopg.connect(address, autocommit=True) as connection:
            while time.monotonic() < first + KILL_S:
                killed += len(connection.execute(KILL).fetchall())
                pause.wait(KILL_EVERY_S)
        last = time.monotonic()
        members.wait_for_effects(ENOUGH)
        work_on(members)
        end(members)
        report(members, f"{killed} killed connections in {last - first:.0f} s", [first, last])
    assert killed >= KILL_S / KILL_EVERY_S / 2
