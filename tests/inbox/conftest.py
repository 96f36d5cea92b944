"""An inbox for each test, with the registry of tasks to itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
import brant.tasks
from tests.servers import Server


@pytest.fixture
def path(request: pytest.FixtureRequest, database_kind: str) -> Iterator[Path]:
    """As everywhere else; on a server, in a database that another test of the inbox has used."""
    if database_kind == "sqlite":
        yield request.getfixturevalue("tmp_path") / "app.db"
        return
    server: Server = request.getfixturevalue("postgres_server")
    with server.database(with_inbox=True) as address:
        yield address  # type: ignore[misc]


@pytest.fixture(autouse=True)
def _no_tasks_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brant.tasks, "_process_wide", brant.tasks.Registry())


@pytest.fixture
def inbox(timed: brant.Database) -> Iterator[brant.Inbox]:
    """In the time of `clock`."""
    with brant.Inbox(timed) as made:
        yield made
