"""Pipes that break, streams that are closed or full, signals: nothing is lost but what is in the pipe."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, clean_environment
from tests.cli.processes import in_time, running
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sizes of pipes, /dev/full")

LINE = 1000
ROOM = 4096  # of the pipes of these tests: four lines


@pytest.fixture
def queue(store: brant.Database) -> brant.Queue:
    return store.queue("q")


def numbered(count: int) -> list[str]:
    """Messages that tell themselves apart, each a line of the same length."""
    return [f"{number:0{LINE - 1}}" for number in range(count)]


class Piped:
    """A command whose output goes into a pipe that takes little."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.output, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, ROOM)
        self.process = subprocess.Popen(
            [COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=clean_environment(),
        )
        os.close(write_end)
        self.is_open = True

    def lines(self, count: int) -> list[str]:
        data = b""
        while len(data) < count * LINE:
            found, _, _ = select.select([self.output], [], [], PATIENCE_S)
            assert found, "nothing more came"
            data += os.read(self.output, count * LINE - len(data))
        return data.decode().splitlines()

    def remaining_lines(self) -> list[str]:
        data = b""
        while chunk := os.read(self.output, 1 << 16):
            data += chunk
        return data.decode().splitlines()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self.output)

    def error_line(self) -> str:
        assert self.process.stderr is not None
        return in_time(lambda: self.process.stderr.readline().decode()).removesuffix("\n")  # type: ignore[union-attr]

    def ended(self) -> tuple[int, str]:
        """Exit code and stderr."""
        assert self.process.stderr is not None
        code = self.process.wait(PATIENCE_S)
        return code, self.process.stderr.read().decode()


def wait_until_full(command: Piped) -> None:
    """Until the pipe takes no more: the command waits for its reader."""
    give_up_at = time.monotonic() + PATIENCE_S
    full = ROOM - LINE
    while int.from_bytes(fcntl.ioctl(command.output, termios.FIONREAD, bytes(4)), sys.byteorder) < full:
        assert time.monotonic() < give_up_at, "the pipe is not filled"
        time.sleep(0.01)  # nothing tells when a pipe is full


def wait_until_signals_are_handled(process: int) -> None:
    """Until it has come so far that SIGTERM is not the end of it."""
    caught_by = 1 << (signal.SIGTERM - 1)
    give_up_at = time.monotonic() + PATIENCE_S
    while not int(_status(process)["SigCgt"], 16) & caught_by:
        assert time.monotonic() < give_up_at, "it handles no signals"
        time.sleep(0.01)


def _status(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def piped(directory: Path, *words: str) -> Iterator[Piped]:
    command = Piped(directory, *words)
    with command.process:
        try:
            yield command
        finally:
            command.process.kill()
            command.close()


def run(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """A line of shell in which $BRANT is the command."""
    return subprocess.run(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=directory,
        env=clean_environment(BRANT=COMMAND),
        timeout=PATIENCE_S,
        check=False,
    )


# A reader that has had enough


@pytest.mark.parametrize("command", ["read q --all", "peek q --all", "-q watch q", "read q --all --json"])
def test_head_gets_its_line_and_the_command_ends_quietly(queue: brant.Queue, tmp_path: Path, command: str) -> None:
    messages = numbered(500)
    queue.write_many(messages)
    done = run(f'{{ "$BRANT" {command}; echo "exit code $?" >&2; }} | head -n 1', tmp_path)
    assert done.stderr == "exit code 1\n"
    (line,) = done.stdout.splitlines()
    assert messages[0] in line
    left = queue.peek_many()
    assert left == messages[len(messages) - len(left) :], "they were taken in order"
    pipe_and_buffer_of_head = 2 * (1 << 16)
    gone = len(messages) - len(left)
    assert gone == 0 if command.startswith("peek") else gone * LINE <= pipe_and_buffer_of_head


@pytest.mark.guarantee("G21")
def test_only_what_is_in_the_pipe_is_lost(queue: brant.Queue, tmp_path: Path) -> None:
    messages = numbered(100)
    queue.write_many(messages)
    with piped(tmp_path, "read", "q", "--all") as reading:
        seen = reading.lines(10)
        reading.close()
        assert reading.ended() == (1, "")
    assert seen == messages[:10]
    gone = 100 - len(queue.peek_many())
    assert 10 <= gone <= 10 + ROOM // LINE
    assert queue.stats().claimed == 0


@pytest.mark.guarantee("G21")
@pytest.mark.parametrize("words", [("read", "q"), ("read", "q", "--all"), ("peek", "q"), ("-q", "watch", "q")])
def test_a_pipe_that_is_broken_from_the_start_costs_nothing(
    queue: brant.Queue, tmp_path: Path, words: tuple[str, ...]
) -> None:
    queue.write_many(["a", "b"])
    with piped(tmp_path, *words) as command:
        command.close()
        assert command.ended() == (1, "")
    assert queue.peek_many() == ["a", "b"]


LARGE = "".join(f"{number:06}" for number in range(100_000))
READING = [("read", "q"), ("read", "q", "--all"), ("-q", "watch", "q"), ("read", "q", "--before", "2099-01-01")]


@pytest.mark.guarantee("G21")
@pytest.mark.parametrize("words", READING)
def test_a_large_message_that_breaks_on_its_way_stays(
    queue: brant.Queue, tmp_path: Path, words: tuple[str, ...]
) -> None:
    queue.write_many([LARGE, "next"])
    with piped(tmp_path, *words) as reading:
        wait_until_full(reading)
        queue.write("meanwhile")  # the transaction that looked at the message is over
        reading.close()
        assert reading.ended() == (1, "")
    assert queue.peek_many() == [LARGE, "next", "meanwhile"]


@pytest.mark.guarantee("G21")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", READING)
def test_a_large_message_that_a_signal_cuts_off_stays(
    queue: brant.Queue, tmp_path: Path, words: tuple[str, ...], number: signal.Signals
) -> None:
    queue.write_many([LARGE, "next"])
    with piped(tmp_path, *words) as reading:
        wait_until_full(reading)
        reading.process.send_signal(number)
        assert reading.ended()[0] == (143 if "read" in words and number == signal.SIGTERM else 0)
    assert queue.peek_many() == [LARGE, "next"]


def test_what_was_printed_before_a_large_message_that_is_cut_off_is_gone(queue: brant.Queue, tmp_path: Path) -> None:
    queue.write_many(["a", "b", LARGE, "next"])
    with piped(tmp_path, "read", "q", "--all") as reading:
        assert os.read(reading.output, 2) == b"a\n"
        assert os.read(reading.output, 2) == b"b\n"
        wait_until_full(reading)
        queue.write("meanwhile")
        reading.close()
        assert reading.ended() == (1, "")
    assert queue.peek_many() == [LARGE, "next", "meanwhile"]


def test_a_large_message_that_nobody_reads_keeps_nobody_from_writing_and_is_nobody_elses(
    queue: brant.Queue, tmp_path: Path
) -> None:
    queue.write_many([LARGE, "next"])
    with piped(tmp_path, "read", "q") as reading:
        assert os.read(reading.output, 1) == b"0"
        wait_until_full(reading)
        queue.write("meanwhile")
        assert queue.peek_many() == ["next", "meanwhile"]
        assert reading.remaining_lines() == [LARGE[1:]]
        assert reading.ended() == (0, "")
    assert queue.peek_many() == ["next", "meanwhile"]
    assert queue.stats().processing == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_does_not_cut_off_what_is_being_read(
    queue: brant.Queue, tmp_path: Path, number: signal.Signals
) -> None:
    queue.write_many([LARGE, "next"])
    with piped(tmp_path, "read", "q", "--all") as reading:
        assert os.read(reading.output, 1) == b"0"
        reading.process.send_signal(number)
        assert reading.remaining_lines() == [LARGE[1:]]
    assert queue.peek_many() == ["next"]


@pytest.mark.parametrize("pick", [("-m",), ("--all", "--after")])
def test_a_large_message_from_behind_others_comes_whole(
    queue: brant.Queue, tmp_path: Path, pick: tuple[str, ...]
) -> None:
    first, large = queue.write_many(["first", LARGE])
    words = (*pick, str(large if "-m" in pick else first))
    with piped(tmp_path, "read", "q", *words) as reading:
        assert reading.remaining_lines() == [LARGE]
        assert reading.ended() == (0, "")
    assert queue.peek_many() == ["first"]


@pytest.mark.parametrize("size", [5_000, 20_000, 60_000])
def test_messages_larger_than_a_page_all_come_in_order(queue: brant.Queue, tmp_path: Path, size: int) -> None:
    messages = [f"{number:0{size}}" for number in range(50)]
    queue.write_many(messages)
    assert run('"$BRANT" read q --all | cat', tmp_path).stdout.splitlines() == messages
    assert not queue.exists()


def test_a_large_message_comes_whole_through_a_small_pipe(queue: brant.Queue, tmp_path: Path) -> None:
    queue.write_many([LARGE, "next"])
    with piped(tmp_path, "read", "q", "--all") as reading:
        queue.write("meanwhile")
        assert reading.remaining_lines() == [LARGE, "next", "meanwhile"]
        assert reading.ended() == (0, "")


# Output that can't be written


@pytest.mark.guarantee("G21")
@pytest.mark.parametrize(
    "command", ["read q", "read q --all", "peek q", "peek q --all", "list", "stats q", "-q watch q", "claim q"]
)
def test_what_can_not_be_printed_stays(queue: brant.Queue, tmp_path: Path, command: str) -> None:
    queue.write_many(["a", "b"])
    done = run(f'"$BRANT" {command} > /dev/full', tmp_path)
    told = "brant: error: can't write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert queue.peek_many() == ["a", "b"]


@pytest.mark.parametrize("command", ["--help", "--version", "", "read --help", "config", "--status", "bench -n 1"])
def test_a_full_disk_never_ends_in_a_trace_of_python(tmp_path: Path, command: str) -> None:
    done = run(f'"$BRANT" {command} > /dev/full', tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("brant: error: ")
    assert line.endswith("No space left on device")


def test_help_into_a_pipe_that_is_broken_ends_quietly(tmp_path: Path) -> None:
    for words in (("--help",), ("read", "--help"), ("--version",)):
        with piped(tmp_path, *words) as command:
            command.close()
            assert command.ended() == (1, "")


@pytest.mark.parametrize("command", ["read q", "read q --all", "peek q", "list", "claim q"])
def test_a_closed_standard_output_is_an_error(queue: brant.Queue, tmp_path: Path, command: str) -> None:
    queue.write_many(["a", "b"])
    done = run(f'"$BRANT" {command} >&-', tmp_path)
    told = "brant: error: standard output is closed: there is nowhere to print to\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert queue.peek_many() == ["a", "b"]


def test_a_closed_standard_input_is_an_error_where_it_is_needed(queue: brant.Queue, tmp_path: Path) -> None:
    for command in ("write q", "write q -", "write --lines q", "broadcast -"):
        done = run(f'"$BRANT" {command} <&-', tmp_path)
        told = "brant: error: standard input is closed: there is nothing to read a message from\n"
        assert (done.returncode, done.stderr) == (1, told)
    assert run('"$BRANT" write q x <&-', tmp_path).returncode == 0
    assert queue.peek_many() == ["x"]


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("enqueue q", "a payload"),
        ("enqueue q -", "a payload"),
        ("notify c", "a payload"),
        ("stream publish --lines s", "a payload"),
        ("load", "a dump"),
        ("inbox sign github --secret-env HOME", "a body"),
    ],
)
def test_every_command_says_that_its_standard_input_is_closed(tmp_path: Path, command: str, what: str) -> None:
    done = run(f'"$BRANT" {command} <&-', tmp_path)
    told = f"brant: error: standard input is closed: there is nothing to read {what} from\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


@pytest.mark.parametrize("command", ["init --force", "dead purge q"])
def test_a_closed_standard_input_is_no_terminal_to_ask_at(queue: brant.Queue, tmp_path: Path, command: str) -> None:
    queue.write("x")
    done = run(f'"$BRANT" {command} <&-', tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("There is no terminal to ask at: add --yes to do it")


@pytest.mark.parametrize("command", ["dump", "stream read s", "dead list"])
def test_what_prints_many_lines_says_that_its_standard_output_is_closed(
    store: brant.Database, tmp_path: Path, command: str
) -> None:
    store.stream("s").publish("event")
    store.queue("q").enqueue(1, max_attempts=1)
    (job,) = store.queue("q").claim_batch("w", 1)
    job.fail("no")
    done = run(f'"$BRANT" {command} >&-', tmp_path)
    told = "brant: error: standard output is closed: there is nowhere to print to\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_a_closed_standard_error_keeps_nothing_from_being_copied(queue: brant.Queue, tmp_path: Path) -> None:
    queue.write("two\nlines")
    assert run('"$BRANT" dump > out.nd 2>&-', tmp_path).returncode == 0
    assert (tmp_path / "out.nd").read_text() == "".join(queue.db.dump())
    assert run('"$BRANT" -f loaded.db load out.nd 2>&-', tmp_path).returncode == 0
    assert run('"$BRANT" migrate .brant.db moved.db 2>&-', tmp_path).returncode == 0
    for name in ("loaded.db", "moved.db"):
        with brant.open(tmp_path / name) as copy:
            assert copy.queue("q").peek_many() == ["two\nlines"]


def test_a_warning_never_goes_to_standard_output(store: brant.Database, tmp_path: Path) -> None:
    store.stream("s").publish("two\nlines")
    assert run('"$BRANT" stream read s 2>&-', tmp_path).stdout == "1\t\ttwo\nlines\n"


def test_with_streams_closed_or_full_work_is_done_and_nothing_goes_astray(queue: brant.Queue, tmp_path: Path) -> None:
    assert run('"$BRANT" write q x <&- >&- 2>&-', tmp_path).returncode == 0
    assert run('"$BRANT" read "bad name" <&- >&- 2>&-', tmp_path).returncode == 1
    assert run('"$BRANT" pause q 2>&-', tmp_path).stdout == ""
    assert run('"$BRANT" stats "bad name" 2>&-', tmp_path).stdout == ""
    assert run('"$BRANT" stats "bad name" 2>/dev/full', tmp_path).returncode == 1
    assert run('"$BRANT" resume q 2>/dev/full', tmp_path).returncode == 0
    assert queue.peek_many() == ["x"]
    assert queue.db.health(thorough=True).problems == ()


# Signals


@pytest.mark.guarantee("G21")
@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, (0, "\nbrant: interrupted\n")), (signal.SIGTERM, (143, ""))]
)
@pytest.mark.parametrize("seen", [1, 7, 150])
def test_a_signal_in_the_middle_loses_and_repeats_nothing(
    queue: brant.Queue, tmp_path: Path, number: signal.Signals, ending: tuple[int, str], seen: int
) -> None:
    messages = numbered(1000)
    queue.write_many(messages)
    with piped(tmp_path, "read", "q", "--all") as reading:
        shown = reading.lines(seen)
        reading.process.send_signal(number)
        shown += reading.remaining_lines()
        assert reading.ended() == ending
    assert len(shown) < 1000
    assert shown + queue.peek_many() == messages
    assert queue.stats().claimed == 0


def test_a_signal_while_nobody_reads_is_obeyed(queue: brant.Queue, tmp_path: Path) -> None:
    messages = numbered(1000)
    queue.write_many(messages)
    with piped(tmp_path, "read", "q", "--all") as reading:
        reading.lines(1)
        reading.process.send_signal(signal.SIGTERM)
        assert reading.ended() == (143, "")
        shown = [messages[0], *reading.remaining_lines()]
    assert shown + queue.peek_many() == messages


@pytest.mark.guarantee("G21")
def test_a_kill_loses_nothing(queue: brant.Queue, tmp_path: Path) -> None:
    messages = numbered(1000)
    queue.write_many(messages)
    with piped(tmp_path, "read", "q", "--all") as reading:
        shown = reading.lines(150)
        reading.process.kill()
        shown += reading.remaining_lines()
    left = queue.peek_many()
    assert set(shown) | set(left) == set(messages)
    assert left == messages[-len(left) :]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("size", [LINE - 1, 300_000])
@pytest.mark.parametrize("mode", [(), ("--peek",), ("--move", "r")])
def test_a_watcher_whose_reader_stalls_is_stopped(
    queue: brant.Queue, tmp_path: Path, mode: tuple[str, ...], size: int, number: signal.Signals
) -> None:
    messages = [f"{position:0{size}}" for position in range(20)]
    queue.write_many(messages)
    with piped(tmp_path, "-q", "watch", "q", *mode) as watching:
        wait_until_full(watching)
        watching.process.send_signal(number)
        assert watching.ended() == (0, "")
    left = queue.peek_many()
    assert left == messages[len(messages) - len(left) :]
    assert queue.db.queue("r").peek_many() == (messages[: len(messages) - len(left)] if "--move" in mode else [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("size", [LINE, 300_000])
def test_a_tail_whose_reader_stalls_is_stopped_and_knows_what_it_has_printed(
    store: brant.Database, tmp_path: Path, size: int, number: signal.Signals
) -> None:
    stream = store.stream("s")
    stream.publish_many(["x" * size] * 20)
    with piped(tmp_path, "-q", "stream", "tail", "s", "--consumer", "c") as tailing:
        wait_until_full(tailing)
        tailing.process.send_signal(number)
        assert tailing.ended() == (0, "")
        whole_lines = sum(line.endswith("x" * size) for line in tailing.remaining_lines())
    assert stream.get_offset("c") == whole_lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("size", [LINE, 300_000])
def test_a_listener_whose_reader_stalls_is_stopped(
    store: brant.Database, tmp_path: Path, size: int, number: signal.Signals
) -> None:
    with piped(tmp_path, "listen", "c") as listening:
        assert listening.error_line() == "Listening on channel 'c'..."
        for _ in range(20):
            store.notify("c", "x" * size)
        wait_until_full(listening)
        listening.process.send_signal(number)
        assert listening.ended() == (0, "")


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, (0, "\nbrant: interrupted\n")), (signal.SIGTERM, (143, ""))]
)
@pytest.mark.parametrize("size", [LINE - 1, 300_000])
def test_a_claim_that_is_stopped_gives_back_what_it_has_not_printed(
    queue: brant.Queue, tmp_path: Path, size: int, number: signal.Signals, ending: tuple[int, str]
) -> None:
    ids = queue.write_many([f"{position:0{size}}" for position in range(50)])
    with piped(tmp_path, "claim", "-n", "50", "--lease", "600", "q") as claiming:
        wait_until_full(claiming)
        claiming.process.send_signal(number)
        assert claiming.ended() == ending
        lines = [line.split("\t") for line in claiming.remaining_lines()]
    printed = [int(line[0]) for line in lines if len(line[-1]) == size]
    assert printed == ids[: len(printed)]
    assert [message.id for message in queue.peek_many()] == ids[len(printed) :]
    assert queue.stats().processing == len(printed)


def test_a_claim_that_waits_is_interrupted(queue: brant.Queue, tmp_path: Path) -> None:
    for number, code in ((signal.SIGINT, 0), (signal.SIGTERM, 143)):
        with running(tmp_path, "claim", "--wait", "600", "q") as waiting:
            wait_until_signals_are_handled(waiting.process.pid)
            assert waiting.stopped_by(number) == code
    queue.write("free")
    assert queue.claim_one("w") is not None


def test_a_peek_is_interrupted_too(queue: brant.Queue, tmp_path: Path) -> None:
    queue.write_many(numbered(100))
    for number, code in ((signal.SIGINT, 0), (signal.SIGTERM, 143)):
        with piped(tmp_path, "peek", "q", "--all") as peeking:
            peeking.lines(1)
            peeking.process.send_signal(number)
            assert peeking.ended()[0] == code


@pytest.mark.parametrize(
    ("number", "ending"),
    [
        (signal.SIGINT, (0, b"\nbrant: interrupted; the first 2 lines are written\n")),
        (signal.SIGTERM, (143, b"brant: terminated; the first 2 lines are written\n")),
    ],
)
def test_a_writer_of_lines_that_is_stopped_has_written_those_that_came(
    store: brant.Database, tmp_path: Path, number: signal.Signals, ending: tuple[int, bytes]
) -> None:
    commits = store.update_events()
    writing = subprocess.Popen(
        [COMMAND, "write", "--lines", "q"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(),
    )
    with writing:
        assert writing.stdin is not None
        assert writing.stderr is not None
        writing.stdin.write(b"a\nb\nunfinished")
        writing.stdin.flush()
        while store.queue("q").peek_many() != ["a", "b"]:
            assert commits.wait(PATIENCE_S)
        writing.send_signal(number)
        assert (writing.wait(PATIENCE_S), writing.stderr.read()) == ending
    assert store.queue("q").peek_many() == ["a", "b"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_writer_of_lines_that_is_stopped_in_the_middle_tells_how_many_it_has_written(
    store: brant.Database, tmp_path: Path, number: signal.Signals
) -> None:
    commits = store.update_events()
    with (
        subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless,
        subprocess.Popen(
            [COMMAND, "write", "--lines", "q"],
            stdin=endless.stdout,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=clean_environment(),
        ) as writing,
    ):
        assert endless.stdout is not None
        assert writing.stderr is not None
        endless.stdout.close()
        while store.queue("q").stats().pending == 0:
            assert commits.wait(PATIENCE_S)
        writing.send_signal(number)
        told = writing.stderr.read().decode()
        assert writing.wait(PATIENCE_S) == (0 if number == signal.SIGINT else 143)
    assert told.endswith(f"; the first {store.queue('q').stats().pending} lines are written\n")
