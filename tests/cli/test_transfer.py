"""dump and load: through pipes, into files, on a terminal, and when something goes wrong."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.cli.processes import running
from tests.everything import add_foreign_rows, everything, fill

DATABASE = ".brant.db"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """The database that the command finds in its directory, with something of everything: more than a pipe holds."""
    path = tmp_path / DATABASE
    with brant.open(path) as db:
        fill(db)
    add_foreign_rows(path)
    return path


@pytest.fixture
def small(tmp_path: Path) -> str:
    """The dump of a database of its own."""
    with brant.open(tmp_path / "small.db") as db:
        db.queue("q").enqueue_many([1, 2])
        return "".join(db.dump())


def assert_refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("brant: error: ")
    assert why in line


# There and back


def test_a_pipe_carries_everything_to_another_file(brant_command: Run, full: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        f"'{COMMAND}' dump | tee dumped | '{COMMAND}' -f copy.db load",
        shell=True,
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ""
    assert done.stderr.startswith("Loaded ")
    assert everything(tmp_path / "copy.db") == everything(full)
    assert brant_command("-f", "copy.db", "dump").stdout == (tmp_path / "dumped").read_text()


def test_a_file_is_dumped_to_and_loaded_from(brant_command: Run, full: Path, tmp_path: Path) -> None:
    dumped = brant_command("dump", "-o", "dump.ndjson")
    assert (dumped.returncode, dumped.stdout, dumped.stderr) == (0, "", "Dumped to dump.ndjson\n")
    assert (tmp_path / "dump.ndjson").stat().st_mode & 0o777 == 0o600
    loaded = brant_command("-q", "-f", "copy.db", "load", "dump.ndjson")
    assert (loaded.returncode, loaded.stdout, loaded.stderr) == (0, "", "")
    assert everything(tmp_path / "copy.db") == everything(full)


def test_load_says_how_much_it_loaded(brant_command: Run, small: str) -> None:
    done = brant_command("load", "-", stdin=small)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Loaded 3 rows (queues: 1, live: 2)\n")
    assert brant_command("read", "q").stdout == "1\n"


# What goes wrong


def test_a_dump_does_not_overwrite_a_file(brant_command: Run, full: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    assert_refused(brant_command("dump", "-o", "precious"), "precious exists already")
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_database_that_is_not_there_is_neither_dumped_nor_made(brant_command: Run, tmp_path: Path) -> None:
    assert_refused(brant_command("dump"), f"there is no database at {tmp_path / DATABASE}")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_pipe_ends_a_dump_quietly(full: Path, tmp_path: Path) -> None:
    with subprocess.Popen([COMMAND, "dump"], cwd=tmp_path, env=clean_environment(), stdout=PIPE, stderr=PIPE) as dump:
        assert dump.stdout is not None
        assert dump.stderr is not None
        assert dump.stdout.readline().startswith(b'{"brant": 1')
        dump.stdout.close()
        assert dump.stderr.read() == b""
    assert dump.returncode == 1


def test_an_interrupted_dump_is_no_success(full: Path, tmp_path: Path) -> None:
    with running(tmp_path, "dump") as dump:
        dump.line()  # and the rest does not fit into the pipe
        dump.process.send_signal(signal.SIGINT)
        assert dump.error_line() == "brant: error: interrupted: the dump is not complete"
        assert dump.exit_code() == 1


def test_a_file_that_can_not_be_written_to_its_end_is_not_left_behind(full: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        f"ulimit -f 512 && exec '{COMMAND}' dump -o dumped",
        shell=True,
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert_refused(done, "File too large")
    assert not (tmp_path / "dumped").exists()


@pytest.mark.parametrize("cut_at", ['{"end"', '"attempts"'])
def test_a_dump_that_was_cut_off_is_not_loaded(brant_command: Run, small: str, cut_at: str) -> None:
    assert_refused(brant_command("load", stdin=small[: small.index(cut_at)]), "cut off")
    assert '"rows": 0' in brant_command("dump").stdout


def test_what_is_no_dump_is_not_loaded(brant_command: Run, small: str, tmp_path: Path) -> None:
    (tmp_path / "zeros").write_bytes(bytes(10_000_000))
    assert_refused(brant_command("load", "small.db"), "this is no dump")
    assert_refused(brant_command("load", "zeros"), "this is no dump")
    assert_refused(brant_command("load"), "this is no dump")
    assert_refused(brant_command("load", "missing"), "No such file or directory: 'missing'")
    assert_refused(brant_command("load", DATABASE), "is the database itself")


def test_a_database_that_holds_rows_is_not_loaded_into(brant_command: Run, small: str) -> None:
    assert_refused(brant_command("-f", "small.db", "load", stdin=small), "already holds rows (queues: 1, live: 2)")


# For somebody who waits at a terminal


def on_terminal(directory: Path, *words: str, **environment: str) -> str:
    """What the command writes to stderr, where that is a terminal."""
    screen, terminal = pty.openpty()
    variables = clean_environment(TERM="xterm", COLUMNS="100", **environment)
    with subprocess.Popen([COMMAND, *words], stderr=terminal, cwd=directory, env=variables) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # how Linux says that the other side is gone
            while chunk := os.read(screen, 4096):
                shown += chunk
        os.close(screen)
    assert process.returncode == 0
    return shown.decode()


def test_a_terminal_shows_how_far_it_is(small: str, tmp_path: Path) -> None:
    pytest.importorskip("rich")
    dumping = on_terminal(tmp_path, "-f", "small.db", "dump", "-o", "dumped")
    assert "Dumping" in dumping
    assert "/3" in dumping
    assert "Loading" in on_terminal(tmp_path, "load", "dumped")
    assert on_terminal(tmp_path, "-q", "dump", "-o", "quiet") == ""


def test_a_terminal_without_rich_shows_what_was_done(small: str, tmp_path: Path) -> None:
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "rich.py").write_text("raise ImportError('hidden')")
    dumping = on_terminal(tmp_path, "-f", "small.db", "dump", "-o", "dumped", PYTHONPATH=str(hiding))
    assert dumping == "Dumped to dumped\r\n"
