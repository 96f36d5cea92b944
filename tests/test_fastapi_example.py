"""The FastAPI example, served over HTTP by a real server, and stopped by a real signal."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.waiting import PATIENCE_S, in_thread

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_SERVES = re.compile(r"running on (http://[\d.:]+)")


class Server:
    def __init__(self, process: subprocess.Popen[str], client: httpx.Client) -> None:
        self.process = process
        self.client = client

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """The application on a port that is free; its database is shop.db in the folder."""
    command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--app-dir", str(EXAMPLES), "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, "SHOP_DB": "shop.db"}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            with httpx.Client(base_url=in_thread(address, process).result(PATIENCE_S), timeout=PATIENCE_S) as client:
                yield Server(process, client)
        finally:
            process.kill()


def address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if found := _SERVES.search(line):
            return found[1]
    raise AssertionError(f"the server has ended: {said}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


def count(folder: Path, table: str) -> int:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        (number,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(number)


def test_an_order_gets_its_receipt_from_the_worker_inside(server: Server) -> None:
    placed = server.client.post("/orders", json={"customer": "alice", "amount": 12})
    assert (placed.status_code, placed.json()["order"]) == (202, 1)
    shown = server.client.get(f"/receipts/{placed.json()['receipt']}")
    assert (shown.status_code, shown.json()) == (200, "alice paid 12")


def test_an_endpoint_that_fails_after_its_writes_leaves_neither_order_nor_job(server: Server, tmp_path: Path) -> None:
    declined = server.client.post("/orders", json={"customer": "mallory", "amount": 5_000})
    assert (declined.status_code, declined.json()) == (402, {"detail": "the card was declined"})
    assert (count(tmp_path, "orders"), count(tmp_path, "_honker_live")) == (0, 0)


def test_an_order_that_the_database_refuses_is_an_answer(server: Server, tmp_path: Path) -> None:
    refused = server.client.post("/orders", json={"customer": "bob", "amount": 0})
    assert refused.status_code == 422
    assert "CHECK" in refused.json()["detail"]
    assert count(tmp_path, "_honker_live") == 0


def test_the_application_stops_with_its_worker_and_starts_again(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        placed = first.client.post("/orders", json={"customer": "alice", "amount": 1}).json()
        assert first.stop() in (0, -signal.SIGTERM)  # servers end by the signal that they got
    with serving(tmp_path) as second:
        assert second.client.get(f"/receipts/{placed['receipt']}").json() == "alice paid 1"
