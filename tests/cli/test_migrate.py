"""migrate: a whole database into another, by one command."""

from __future__ import annotations

from pathlib import Path

import pytest

import brant
from tests.cli.conftest import Run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    with brant.open(path) as db:
        db.queue("q").enqueue_many([1, 2, 3])
        db.stream("s").publish("event")
    return path


def test_everything_is_copied_and_counted(brant_command: Run, source: Path, tmp_path: Path) -> None:
    done = brant_command("migrate", "app.db", "copy.db")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Copied and counted 5 rows (queues: 1, live: 3, stream: 1)" in done.stderr
    with brant.open(source) as db, brant.open(tmp_path / "copy.db") as copy:
        assert list(copy.dump()) == list(db.dump())


def test_a_second_call_is_refused_since_the_copy_holds_rows(brant_command: Run, source: Path) -> None:
    brant_command("migrate", "app.db", "copy.db")
    again = brant_command("migrate", "app.db", "copy.db")
    assert again.returncode == 1
    assert "already holds rows" in again.stderr


def test_a_source_that_is_not_there_is_not_made(brant_command: Run, tmp_path: Path) -> None:
    refused = brant_command("migrate", "missing.db", "copy.db")
    assert refused.returncode == 1
    assert "missing.db" in refused.stderr
    assert not (tmp_path / "missing.db").exists()
    assert not (tmp_path / "copy.db").exists()


def test_a_database_is_not_copied_onto_itself(brant_command: Run, source: Path) -> None:
    refused = brant_command("migrate", "app.db", "./app.db")
    assert refused.returncode == 1
    assert "the same database" in refused.stderr
