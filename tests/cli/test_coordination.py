"""lock and limit: what shell scripts need to keep out of each other's way."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.cli.processes import in_time, running
from tests.waiting import PATIENCE_S, in_thread, write_lock_held

# Says that it runs, then who of the signals came, and ends with 5 or when its input ends.
TRAPS = "trap 'echo INT; exit 5' INT; trap 'echo TERM; exit 5' TERM; echo running; while :; do sleep 0.02; done"


# Says which signals came, each of them and in order, and ends with SIGTERM.
TELLS_SIGNALS = """
import signal

expected = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, expected)
print("running", flush=True)
came = None
while came != signal.SIGTERM:
    came = signal.Signals(signal.sigwait(expected))
    print(came.name, flush=True)
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    """The database that the command finds in its directory."""
    with brant.open(tmp_path / ".brant.db") as database:
        yield database


def lose(db: brant.Database, name: str) -> None:
    with db.transaction() as tx:
        tx.execute("UPDATE _honker_locks SET owner = 'thief' WHERE name = ?", [name])


# lock


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + 9)])
def test_the_exit_code_is_the_commands(brant_command: Run, db: brant.Database, script: str, code: int) -> None:
    done = brant_command("lock", "l", "--", "sh", "-c", f"cat; echo err >&2; {script}", stdin="in")
    assert (done.returncode, done.stdout, done.stderr) == (code, "in", "err\n")
    with db.lock("l"):
        pass


@pytest.mark.parametrize("options", [(), ("--ttl", "5"), ("--ttl", "5", "--wait", "0.5")])
def test_the_command_gets_its_words_as_they_are(brant_command: Run, options: tuple[str, ...]) -> None:
    words = ("printf", "%s|", "-q", "--ttl", "--", "a b", "--", "--json")
    assert brant_command("lock", "l", *options, "--", *words).stdout == "-q|--ttl|--|a b|--|--json|"
    assert brant_command("lock", *options, "l", "--", *words).stdout == "-q|--ttl|--|a b|--|--json|"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("l", "--", "no-such-command"), "can't run 'no-such-command'"),
        (("l", "--"), "COMMAND"),
        (("l",), "COMMAND"),
        (("l", "--ttl", "0", "--", "true"), "--ttl"),
        (("l", "--wait", "-1", "--", "true"), "--wait"),
        (("", "--", "true"), "lock name"),
    ],
)
def test_what_can_not_be_run_is_one_line_and_exit_1(brant_command: Run, words: tuple[str, ...], error: str) -> None:
    done = brant_command("lock", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: ")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1


def test_two_processes_exclude_each_other(brant_command: Run, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with running(tmp_path, "lock", "l", "--", "sh", "-c", "echo running; read _ < gate; exit 3") as first:
        assert first.line() == "running"
        second = brant_command("lock", "l", "--", "echo", "never")
        assert (second.returncode, second.stdout) == (1, "")
        assert second.stderr == "brant: error: the lock 'l' is held by another; try again later, or give --wait\n"
        assert brant_command("lock", "another", "--", "echo", "free").stdout == "free\n"
        with running(tmp_path, "lock", "l", "--wait", PATIENCE_S, "--", "echo", "my turn") as waiting:
            assert waiting.error_line() == "Waiting for the lock 'l'..."
            gate.write_text("\n")
            assert first.exit_code() == 3
            assert waiting.line() == "my turn"
            assert waiting.exit_code() == 0


def test_waiting_ends_with_the_time_given(brant_command: Run, db: brant.Database) -> None:
    with db.lock("l"):
        done = brant_command("-q", "lock", "l", "--wait", "0.05", "--", "echo", "never")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "is held by another" in done.stderr


def test_ten_waiting_processes_have_it_one_at_a_time(tmp_path: Path) -> None:
    # mkdir fails where another is inside.
    inside = "mkdir inside || exit 9; echo x >> log; rmdir inside"
    words = [COMMAND, "lock", "l", "--wait", str(PATIENCE_S), "--", "sh", "-c", inside]
    started = [subprocess.Popen(words, cwd=tmp_path, env=clean_environment()) for _ in range(10)]
    assert [process.wait(PATIENCE_S * 2) for process in started] == [0] * 10
    assert (tmp_path / "log").read_text() == "x\n" * 10


def test_it_is_renewed_for_as_long_as_the_command_runs(tmp_path: Path, db: brant.Database) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    commits = db.update_events()
    with running(tmp_path, "lock", "l", "--ttl", "0.6", "--", "sh", "-c", "echo running; read _ < gate") as holder:
        assert holder.line() == "running"
        over = time.time() + 1.2
        while time.time() < over:
            assert commits.wait(PATIENCE_S)
            with pytest.raises(brant.LockHeld), db.lock("l"):
                pass
        gate.write_text("\n")
        assert holder.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on_to_the_command(tmp_path: Path, db: brant.Database, number: signal.Signals) -> None:
    with running(tmp_path, "lock", "l", "--", "sh", "-c", TRAPS) as holder:
        assert holder.line() == "running"
        assert holder.stopped_by(number) == 5
        assert in_time(holder.stdout.read) == f"{number.name.removeprefix('SIG')}\n"
        assert in_time(holder.stderr.read) == ""
    with db.lock("l"):
        pass


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)])
def test_a_command_that_a_signal_ends_is_told_as_shells_do(tmp_path: Path, number: int, code: int) -> None:
    with running(tmp_path, "lock", "l", "--", "sh", "-c", "echo running; exec sleep 600") as holder:
        assert holder.line() == "running"
        assert holder.stopped_by(number) == code


def test_ctrl_c_at_a_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    screen, terminal = terminal_that_keeps_its_output()
    # The leader of a session that opens a terminal has it as its own.
    on_terminal = "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"
    words = [sys.executable, "-c", on_terminal, COMMAND, "lock", "l", "--", sys.executable, "-c", TELLS_SIGNALS]
    process = subprocess.Popen(
        words,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=tmp_path,
        env=clean_environment(),
        start_new_session=True,
    )
    os.close(terminal)
    shown = shown_until(screen, b"running")
    # Often, since two signals that come at the same moment look like one.
    for _ in range(20):
        os.write(screen, b"\x03")
        shown += shown_until(screen, b"SIGINT")
    # Passed on behind whatever was passed on before.
    process.send_signal(signal.SIGTERM)
    shown += shown_until(screen, b"SIGTERM")
    assert process.wait(PATIENCE_S) == 0
    os.close(screen)
    assert shown.count(b"SIGINT") == 20


def terminal_that_keeps_its_output() -> tuple[int, int]:
    """Ctrl-C drops what was printed and not read yet, after the signal is sent: an answer to it may be among that."""
    screen, terminal = pty.openpty()
    modes = termios.tcgetattr(terminal)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
    return screen, terminal


def shown_until(screen: int, text: bytes) -> bytes:
    shown = b""
    while text not in shown:
        shown += in_thread(os.read, screen, 4096).result(PATIENCE_S)
    return shown


def test_a_renewal_that_fails_is_a_warning_of_the_command(tmp_path: Path, db: brant.Database) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    words = ("lock", "l", "--ttl", "1.5", "--", "sh", "-c", "echo running; read _ < gate")
    with running(tmp_path, *words, BRANT_BUSY_TIMEOUT="1") as holder:
        assert holder.line() == "running"
        with write_lock_held(Path(db.path)):
            assert holder.error_line().startswith("brant: warning: the lock 'l' could not be renewed: ")
        gate.write_text("\n")
        assert holder.exit_code() == 0


def test_ctrl_c_while_waiting_is_no_success(tmp_path: Path, db: brant.Database) -> None:
    with db.lock("l"), running(tmp_path, "lock", "l", "--wait", PATIENCE_S, "--", "echo", "never") as waiting:
        assert waiting.error_line() == "Waiting for the lock 'l'..."
        assert waiting.stopped_by(signal.SIGINT) == 128 + signal.SIGINT
        assert waiting.line() == ""


def test_a_command_whose_lock_is_lost_is_terminated(tmp_path: Path, db: brant.Database) -> None:
    with running(tmp_path, "lock", "l", "--ttl", "0.6", "--", "sh", "-c", TRAPS) as holder:
        assert holder.line() == "running"
        lose(db, "l")
        assert holder.line() == "TERM"
        assert holder.exit_code() == 1
        lost = "brant: error: the lock 'l' ran out or was taken over; the command was terminated\n"
        assert in_time(holder.stderr.read) == lost
    assert db.query("SELECT owner FROM _honker_locks") == [{"owner": "thief"}]


def test_a_command_that_will_not_end_without_its_lock_is_killed(tmp_path: Path, db: brant.Database) -> None:
    stubborn = "trap '' TERM; echo running; exec sleep 600"
    with running(tmp_path, "lock", "l", "--ttl", "0.6", "--", "sh", "-c", stubborn) as holder:
        assert holder.line() == "running"
        lose(db, "l")
        assert holder.exit_code() == 1
        assert holder.line() == ""


# limit


def test_limit_tells_by_the_exit_code(brant_command: Run) -> None:
    limit = ("limit", "api", "--limit", "2", "--per", "1000000000")
    for _ in range(2):
        done = brant_command(*limit)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = brant_command(*limit)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "The limit 'api' is reached: 2 in 1000000000 s\n")
    done = brant_command("-q", *limit)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert brant_command("limit", "other", *limit[2:]).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("api",),
        ("api", "--limit", "0", "--per", "1"),
        ("api", "--limit", "1", "--per", "0.5"),
        ("--limit", "1", "--per", "1"),
    ],
)
def test_a_bad_limit_is_one_line_and_exit_1(brant_command: Run, words: tuple[str, ...]) -> None:
    done = brant_command("limit", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: ")
    assert done.stderr.count("\n") == 1
