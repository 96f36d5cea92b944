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


@pytest.mark.parametrize("option", ["-d", "-f"])
@pytest.mark.usefixtures("source")
def test_options_that_name_a_database_are_refused(brant_command: Run, tmp_path: Path, option: str) -> None:
    refused = brant_command(option, ".", "migrate", "app.db", "copy.db")
    told = "brant: error: migrate uses the two databases that it is given: leave -d and -f out\n"
    assert (refused.returncode, refused.stderr) == (1, told)
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("words", [("app.db", ":memory:"), (":memory:", "copy.db")])
def test_a_database_in_memory_is_refused(
    brant_command: Run, source: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    refused = brant_command("migrate", *words)
    told = "brant: error: :memory: is gone when the command ends; name a file or an address\n"
    assert (refused.returncode, refused.stderr) == (1, told)
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.usefixtures("source")
def test_a_file_may_be_named_so_all_the_same(brant_command: Run, tmp_path: Path) -> None:
    assert brant_command("migrate", "app.db", "./:memory:").returncode == 0
    assert (tmp_path / ":memory:").is_file()
