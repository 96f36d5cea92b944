"""Paths that may be used and paths that may not; who may read what is made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment

ODD_NAMES = [
    "a (b)",
    "it's",
    'say "hi"',
    "$HOME",
    "semi;colon",
    "[x]*?",
    "#1",
    "~",
    "two  blanks ",
    "naïve 😀",
    "a%20b",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_directory_may_have_any_name(brant_command: Run, tmp_path: Path, name: str) -> None:
    odd = tmp_path / name
    odd.mkdir()
    assert brant_command("write", "q", "inside", cwd=odd).returncode == 0
    assert brant_command("-d", name, "write", "q", "by -d").returncode == 0
    assert brant_command("-f", f"{name}/.brant.db", "write", "q", "by -f").returncode == 0
    assert brant_command("read", "q", "--all", cwd=odd).stdout == "inside\nby -d\nby -f\n"
    assert [found.name for found in odd.iterdir()] == [".brant.db"]


@pytest.mark.parametrize("name", ["a (b).db", "it's.db", "a?b#c.db", "100%.db", "file:x.db", "-x.db"])
def test_a_file_may_have_any_name(brant_command: Run, tmp_path: Path, name: str) -> None:
    words = (f"--file=./{name}",)
    assert brant_command(*words, "write", "q", "x").returncode == 0
    assert [found.name for found in tmp_path.iterdir()] == [name]
    assert brant_command(*words, "read", "q").stdout == "x\n"
    assert brant_command(*words, "--cleanup").returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_names_that_begin_like_a_uri_or_memory_are_files(brant_command: Run, tmp_path: Path) -> None:
    for name in ("file:x.db", ":memory:"):
        assert brant_command("-f", name, "write", "q", "x").returncode == 0
        assert brant_command("-f", name, "read", "q").stdout == "x\n"
    assert sorted(found.name for found in tmp_path.iterdir()) == [":memory:", "file:x.db"]


@pytest.mark.parametrize("directory", [".", "./", "below/..", "below/../below"])
def test_dots_are_allowed(brant_command: Run, tmp_path: Path, directory: str) -> None:
    (tmp_path / "below").mkdir()
    assert brant_command("-d", directory, "write", "q", "x").returncode == 0
    assert (tmp_path / directory / ".brant.db").is_file()


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\x7f", "\x1b"])
def test_control_characters_are_refused(brant_command: Run, tmp_path: Path, character: str) -> None:
    name = f"a{character}b"
    (tmp_path / name).mkdir()
    for words in (("-d", name), ("-f", name)):
        refused = brant_command(*words, "write", "q", "x")
        assert refused.returncode == 1
        assert refused.stderr == f"brant: error: {words[0]} {name!r} holds control characters\n"
    assert brant_command("write", "q", "x", cwd=tmp_path / name).returncode == 0


def test_a_relative_file_stays_inside(brant_command: Run, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside").mkdir()
    (inside / "way").symlink_to(tmp_path / "outside")
    (inside / "link.db").symlink_to(tmp_path / "outside" / "x.db")
    for file in ("../x.db", "way/x.db", "link.db", "sub/../../x.db"):
        refused = brant_command("-f", file, "write", "q", "x", cwd=inside)
        assert refused.returncode == 1
        assert "must be within the working directory; give an absolute path if you mean it" in refused.stderr
        refused = brant_command("-d", "inside", "-f", file, "write", "q", "x")
        assert refused.returncode == 1
    assert not (tmp_path / "x.db").exists()
    assert list((tmp_path / "outside").iterdir()) == []
    absolute = brant_command("-f", tmp_path / "outside" / "x.db", "write", "q", "x", cwd=inside)
    assert absolute.returncode == 0


def test_symbolic_links_that_stay_inside_are_followed(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")
    assert brant_command("-d", "way", "write", "q", "1").returncode == 0
    (tmp_path / "link.db").symlink_to("real/.brant.db")
    assert brant_command("-f", "link.db", "write", "q", "2").returncode == 0
    assert brant_command("-d", "real", "read", "q", "--all").stdout == "1\n2\n"
    assert [found.name for found in (tmp_path / "real").iterdir()] == [".brant.db"]


def test_a_loop_of_links_is_an_error(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / "loop.db").symlink_to("loop.db")
    refused = brant_command("-f", "loop.db", "write", "q", "x")
    assert (refused.returncode, refused.stdout) == (1, "")
    (line,) = refused.stderr.splitlines()
    assert line.startswith("brant: error: ")


def test_what_is_made_is_its_owners_alone(brant_command: Run, tmp_path: Path) -> None:
    brant_command("write", "q", "x")
    with brant.open(tmp_path / ".brant.db") as held:
        held.queue("q").write("y")
        modes = {found.name: found.stat().st_mode & 0o777 for found in tmp_path.iterdir()}
    assert modes == {".brant.db": 0o600, ".brant.db-wal": 0o600, ".brant.db-shm": 0o600}
    (tmp_path / ".brant.db").chmod(0o640)
    assert brant_command("write", "q", "z").returncode == 0
    assert (tmp_path / ".brant.db").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("command", ["read", "peek", "exists", "list", "stats", "write"])
def test_a_file_that_is_no_database_is_left_as_it_is(brant_command: Run, tmp_path: Path, command: str) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n" * 1000)
    words = {"list": (), "write": ("q", "x")}.get(command, ("q",))
    refused = brant_command("-f", "notes.txt", command, *words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no SQLite database" in refused.stderr
    assert notes.read_text() == "my notes\n" * 1000
    assert [found.name for found in tmp_path.iterdir()] == ["notes.txt"]


def test_a_directory_is_no_database(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    refused = brant_command("-f", "folder", "write", "q", "x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "it is a directory; name a file" in refused.stderr


@pytest.mark.parametrize("option", ["-d", "-f"])
def test_a_name_that_is_too_long_is_an_error(brant_command: Run, tmp_path: Path, option: str) -> None:
    refused = brant_command(option, "n" * 300, "write", "q", "x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert len(refused.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_working_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir "$PWD" && exec {COMMAND} write q x'
    refused = subprocess.run(
        ["sh", "-c", script], cwd=gone, capture_output=True, text=True, env=clean_environment(), check=False
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith("brant: error: ")
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_an_error(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    refused = brant_command("-d", "locked", "write", "q", "x")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)


def test_messages_are_data(brant_command: Run, store: brant.Database) -> None:
    nasty = ["'; DROP TABLE _honker_live; --", "$(touch made)", "`touch made`", "%s{0}\\n", '"}]', "\x1b[31m"]
    for text in nasty:
        assert brant_command("write", "q", text).returncode == 0
    assert brant_command("read", "q", "--all").stdout == "".join(f"{text}\n" for text in nasty)
