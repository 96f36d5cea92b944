"""Handlers run by the installed command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import brant
from tests.waiting import PATIENCE_S

APP = """
import brant

db = brant.open("app.db")
inbox = brant.Inbox(db)
hooks = inbox.endpoint("hooks", verify="none")


@hooks.handle()
def handle(event, tx):
    tx.execute("INSERT INTO ledger VALUES (?)", [event.id])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An application with three events that wait."""
    (tmp_path / "app.py").write_text(APP)
    with brant.open(tmp_path / "app.db") as db, brant.Inbox(db) as inbox:
        with db.transaction() as tx:
            tx.execute("CREATE TABLE ledger (event INTEGER)")
        endpoint = inbox.endpoint("hooks", verify="none")
        assert [endpoint.receive(body).status_code for body in (b"1", b"2", b"3")] == [204] * 3
    return tmp_path


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    brant_itself = Path(sys.executable).parent / "brant"
    return subprocess.run(
        [brant_itself, "worker", "app:db", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def counts(folder: Path) -> dict[str, dict[str, int]]:
    with brant.open(folder / "app.db") as db, brant.Inbox(db) as inbox:
        return inbox.counts()


def test_the_worker_command_runs_the_handlers(folder: Path) -> None:
    ended = command(folder, "--drain")
    assert ended.returncode == 0, ended.stderr
    assert counts(folder) == {"hooks": {"handled": 3}}
    with brant.open(folder / "app.db") as db:
        assert len(db.query("SELECT * FROM ledger")) == 3


def test_the_worker_command_lists_them(folder: Path) -> None:
    assert "queue=knocker.events\n" in command(folder, "--list").stdout


def test_handlers_can_not_be_isolated_and_no_event_suffers(folder: Path) -> None:
    ended = command(folder, "--drain", "--isolate")
    assert ended.returncode != 0
    assert "leave --isolate out" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert counts(folder) == {"hooks": {"received": 3}}
