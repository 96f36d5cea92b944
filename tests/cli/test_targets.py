"""Which database: arguments, the project, the environment."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment

SCOPE = {"BRANT_PROJECT_SCOPE": "1"}


def target(brant_command: Run, *words: str, **options: Any) -> Path:
    """The database that the command would use."""
    found = brant_command(*words, "config", "--json", **options)
    assert found.returncode == 0, found.stderr
    return Path(json.loads(found.stdout)["database"]["value"])


def assert_refused(brant_command: Run, why: str, *words: str, **options: Any) -> None:
    refused = brant_command(*(words or ("list",)), **options)
    assert (refused.returncode, refused.stdout) == (1, "")
    (line,) = refused.stderr.splitlines()
    assert line.startswith("brant: error: ")
    assert why in line


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A directory far below the one that is the project's."""
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    return folder


# Arguments


def test_arguments_name_it(brant_command: Run, tmp_path: Path, deep: Path) -> None:
    elsewhere = deep / "x.db"
    assert target(brant_command) == tmp_path / ".brant.db"
    assert target(brant_command, "-d", "a") == tmp_path / "a" / ".brant.db"
    assert target(brant_command, "-f", "x.db") == tmp_path / "x.db"
    assert target(brant_command, "-d", "a", "-f", "x.db") == tmp_path / "a" / "x.db"
    assert target(brant_command, "-f", str(elsewhere)) == elsewhere
    assert target(brant_command, "-d", str(deep), "-f", str(elsewhere)) == elsewhere
    assert_refused(brant_command, "conflicts with directory", "-d", "a", "-f", str(elsewhere), "list")


def test_one_directory_above_the_file_is_made(brant_command: Run, tmp_path: Path) -> None:
    assert brant_command("-f", "new/x.db", "write", "q", "x").returncode == 0
    assert brant_command("-f", "new/x.db", "read", "q").stdout == "x\n"
    assert_refused(brant_command, "newer does not exist; make it first", "-f", "newer/deep/x.db", "write", "q", "x")
    assert not (tmp_path / "newer").exists()


def test_a_directory_must_be_one(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_refused(brant_command, "missing does not exist; make it first", "-d", "missing", "list")
    assert_refused(brant_command, "file is no directory", "-d", "file", "list")


@pytest.mark.parametrize("words", [("list",), ("read", "q"), ("exists", "q"), ("--status",), ("peek", "q", "--all")])
def test_a_database_that_is_not_there_is_made(brant_command: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert brant_command(*words).returncode in (0, 2)
    assert (tmp_path / ".brant.db").is_file()


# The environment


def test_the_environment_names_it(brant_command: Run, tmp_path: Path, deep: Path) -> None:
    location = {"BRANT_DEFAULT_DB_LOCATION": str(deep)}
    assert target(brant_command, BRANT_DEFAULT_DB_NAME="x.db") == tmp_path / "x.db"
    assert target(brant_command, BRANT_DEFAULT_DB_NAME="data/x.db") == tmp_path / "data" / "x.db"
    assert target(brant_command, **location) == deep / ".brant.db"
    assert target(brant_command, "-d", "a", **location) == tmp_path / "a" / ".brant.db"
    assert target(brant_command, "-f", "x.db", **location) == tmp_path / "x.db"


def test_variables_of_simplebroker_count_where_brants_are_not_set(brant_command: Run, tmp_path: Path) -> None:
    both = {"BROKER_DEFAULT_DB_NAME": "theirs.db", "BRANT_DEFAULT_DB_NAME": "ours.db"}
    assert target(brant_command, BROKER_DEFAULT_DB_NAME="theirs.db") == tmp_path / "theirs.db"
    assert target(brant_command, **both) == tmp_path / "ours.db"


def test_the_directory_of_a_default_name_is_made(brant_command: Run, tmp_path: Path) -> None:
    assert brant_command("write", "q", "x", BRANT_DEFAULT_DB_NAME="data/x.db").returncode == 0
    assert (tmp_path / "data" / "x.db").is_file()


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        (
            "BRANT_BUSY_TIMEOUT",
            "abc",
            "BRANT_BUSY_TIMEOUT must be a whole number of at least 0 and at most 2147483647, not 'abc'",
        ),
        ("BROKER_BUSY_TIMEOUT", "-1", "BROKER_BUSY_TIMEOUT must be a whole number of at least 0 and"),
        ("BRANT_BUSY_TIMEOUT", "9" * 30, "BRANT_BUSY_TIMEOUT must be"),
        ("BRANT_MAX_MESSAGE_SIZE", "0", "BRANT_MAX_MESSAGE_SIZE must be a whole number of at least 1 and"),
        ("BRANT_MAX_MESSAGE_SIZE", "9" * 5000, "BRANT_MAX_MESSAGE_SIZE must be"),
        ("BRANT_GENERATOR_BATCH_SIZE", "1.5", "BRANT_GENERATOR_BATCH_SIZE must be a whole number"),
        ("BRANT_SYNC_MODE", "sometimes", "BRANT_SYNC_MODE must be one of OFF, NORMAL, FULL, EXTRA, not 'SOMETIMES'"),
        ("BRANT_PROJECT_SCOPE", "maybe", "BRANT_PROJECT_SCOPE must be 1 or 0, not 'maybe'"),
        ("BRANT_DEFAULT_DB_NAME", "/tmp/x.db", "BRANT_DEFAULT_DB_NAME must be a file name"),
        ("BRANT_DEFAULT_DB_NAME", "a/b/x.db", "BRANT_DEFAULT_DB_NAME must be a file name"),
        ("BRANT_DEFAULT_DB_NAME", "../x.db", "BRANT_DEFAULT_DB_NAME must be a file name"),
        ("BRANT_DEFAULT_DB_NAME", "", "BRANT_DEFAULT_DB_NAME must be a file name"),
        ("BRANT_DEFAULT_DB_NAME", "a\nb", "BRANT_DEFAULT_DB_NAME 'a\\nb' holds control characters"),
        ("BROKER_DEFAULT_DB_LOCATION", "relative", "BROKER_DEFAULT_DB_LOCATION must be an absolute path"),
        ("BROKER_BACKEND", "mysql", "BROKER_BACKEND: the backend 'mysql' is not supported; use 'sqlite'"),
    ],
)
def test_a_value_that_can_not_be_used_is_one_line(
    brant_command: Run, tmp_path: Path, variable: str, value: str, why: str
) -> None:
    assert_refused(brant_command, why, "write", "q", "x", **{variable: value})
    assert list(tmp_path.iterdir()) == []


def test_settings_reach_the_database(brant_command: Run, store: brant.Database) -> None:
    assert brant_command("write", "q", "x", BRANT_SYNC_MODE="off", BRANT_BUSY_TIMEOUT="1").returncode == 0
    with store.transaction():
        refused = brant_command("write", "q", "x", BRANT_BUSY_TIMEOUT="1")
    assert (refused.returncode, "database is locked" in refused.stderr) == (1, True)


# The project


def test_without_scope_a_project_is_not_looked_for(brant_command: Run, tmp_path: Path, deep: Path) -> None:
    (tmp_path / ".brant.toml").write_text('target = "x.db"')
    assert target(brant_command, cwd=deep) == deep / ".brant.db"


@pytest.mark.parametrize("switch", ["1", "true", "YES", "on"])
def test_the_nearest_database_above_is_the_projects(
    brant_command: Run, tmp_path: Path, deep: Path, switch: str
) -> None:
    brant_command("write", "q", "x")
    assert target(brant_command, cwd=deep, BRANT_PROJECT_SCOPE=switch) == tmp_path / ".brant.db"
    assert brant_command("read", "q", cwd=deep, BROKER_PROJECT_SCOPE=switch).stdout == "x\n"
    assert target(brant_command, "-d", "b", cwd=tmp_path / "a", BRANT_PROJECT_SCOPE=switch) == tmp_path / ".brant.db"


def test_a_file_of_that_name_that_is_not_brants_is_stepped_over(brant_command: Run, tmp_path: Path, deep: Path) -> None:
    brant_command("init")
    (tmp_path / "a" / ".brant.db").write_text("notes")
    with sqlite3.connect(tmp_path / "a" / "b" / ".brant.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()
    assert target(brant_command, cwd=deep, **SCOPE) == tmp_path / ".brant.db"


@pytest.mark.parametrize("words", [("list",), ("write", "q", "x"), ("--status",), ("--cleanup",), ("doctor",)])
def test_no_project_is_an_error_for_every_command(brant_command: Run, deep: Path, words: tuple[str, ...]) -> None:
    why = f"no .brant.db and no .brant.toml in {deep} or above it; make one with 'brant init'"
    assert_refused(brant_command, why, *words, cwd=deep, **SCOPE)
    assert list(deep.iterdir()) == []


def test_init_makes_the_project_or_reports_the_one_above(brant_command: Run, tmp_path: Path, deep: Path) -> None:
    made = brant_command("init", **SCOPE)
    assert made.stderr == f"Initialized Brant database: {tmp_path / '.brant.db'}\n"
    found = brant_command("init", cwd=deep, **SCOPE)
    assert found.stderr == f"Brant database already exists: {tmp_path / '.brant.db'}\n"
    assert list(deep.iterdir()) == []


@pytest.mark.parametrize("name", [".brant.toml", ".broker.toml"])
def test_a_project_file_names_the_database(brant_command: Run, tmp_path: Path, deep: Path, name: str) -> None:
    (tmp_path / "a" / name).write_text('version = 1\nbackend = "sqlite"\ntarget = "../data.db" # above it\n')
    brant_command("init")  # another database above, which counts for less
    for words in (("read", "q"), ("list",), ("exists", "q")):
        assert_refused(brant_command, f"there is no database at {tmp_path / 'data.db'}", *words, cwd=deep, **SCOPE)
    assert brant_command("write", "q", "x", cwd=deep, **SCOPE).returncode == 0
    assert brant_command("read", "q", cwd=deep, **SCOPE).stdout == "x\n"
    assert (tmp_path / "data.db").is_file()
    found = json.loads(brant_command("config", "--json", cwd=deep, **SCOPE).stdout)
    assert found["database"]["from"] == str(tmp_path / "a" / name)


def test_brants_project_file_goes_before_brokers(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / ".broker.toml").write_text('target = "theirs.db"')
    (tmp_path / ".brant.toml").write_text('target = "ours.db"')
    assert target(brant_command, **SCOPE) == tmp_path / "ours.db"


def test_the_project_file_may_have_another_name_and_place(brant_command: Run, tmp_path: Path, deep: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "queue.toml").write_text('target = "q.db"')
    environment = SCOPE | {"BRANT_PROJECT_CONFIG_NAME": "queue.toml", "BRANT_PROJECT_CONFIG_PATH": "etc"}
    assert target(brant_command, cwd=deep, **environment) == tmp_path / "etc" / "q.db"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("target = ", "can't be read"),
        ("", "target must be the path of the database, not None"),
        ("target = 5", "target must be the path of the database, not 5"),
        ('target = ""', "target must be the path of the database, not ''"),
        ('version = 2\ntarget = "x.db"', "version must be 1, not 2"),
        ('backend = "mysql"\ntarget = "x.db"', "the backend 'mysql' is not supported"),
    ],
)
def test_a_project_file_that_can_not_be_used_is_named(
    brant_command: Run, tmp_path: Path, content: str, why: str
) -> None:
    (tmp_path / ".brant.toml").write_text(content)
    assert_refused(brant_command, f"{tmp_path / '.brant.toml'}", **SCOPE)
    assert_refused(brant_command, why, **SCOPE)


# Odd places


@pytest.mark.parametrize("option", ["-d", "-f"])
def test_a_path_may_hold_bytes_that_are_no_text(brant_command: Run, tmp_path: Path, option: str) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff")
    folder.mkdir()
    words = (option, folder if option == "-d" else folder / os.fsdecode(b"x\xff.db"))
    assert brant_command(*words, "write", "q", "hello").returncode == 0
    assert brant_command(*words, "read", "q").stdout == "hello\n"


@pytest.mark.parametrize("option", ["-d", "-f"])
def test_a_working_directory_that_was_deleted_does_not_matter_to_absolute_paths(
    brant_command: Run, tmp_path: Path, option: str
) -> None:
    words = (option, str(tmp_path if option == "-d" else tmp_path / "x.db"))
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && {COMMAND} {' '.join(words)} write q hello"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert brant_command(*words, "read", "q").stdout == "hello\n"


def test_in_a_working_directory_that_was_deleted_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && {COMMAND} list"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "brant: error: the current directory was deleted; change to another one, or name one by -d\n",
    )


def test_a_project_file_that_is_no_text_is_named(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / ".brant.toml").write_bytes(b'target = "\xff"')
    assert_refused(brant_command, f"{tmp_path / '.brant.toml'} can't be read: ", **SCOPE)
