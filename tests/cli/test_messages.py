"""write, read, peek, move, delete, broadcast."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.cli.processes import running
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.both_backends
same_on_both = pytest.mark.files_only("what is tested happens before or after the database")

MAX = {"BRANT_MAX_MESSAGE_SIZE": "10"}


@pytest.fixture
def queue(store: brant.Database) -> brant.Queue:
    return store.queue("q")


# write


def test_write_says_nothing_and_a_worker_sees_a_str(brant_command: Run, queue: brant.Queue) -> None:
    done = brant_command("write", "q", '{"n": 1}')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    job = queue.claim_one("w")
    assert job is not None
    assert job.payload == '{"n": 1}'


@pytest.mark.parametrize("words", [("q",), ("q", "-")])
@pytest.mark.parametrize("data", [b"echoed\n", b"", b"nul\0 and \xf0\x9f\x98\x80", b"\r\n\t x" * 40_000])
def test_standard_input_is_stored_as_it_is(
    queue: brant.Queue, tmp_path: Path, words: tuple[str, ...], data: bytes
) -> None:
    subprocess.run([COMMAND, "write", *words], input=data, cwd=tmp_path, env=clean_environment(), check=True)
    read = subprocess.run(
        [COMMAND, "read", "q"], capture_output=True, cwd=tmp_path, env=clean_environment(), check=True
    )
    assert read.stdout == data + b"\n"
    assert not queue.exists()


@same_on_both
def test_what_is_too_large_is_refused(brant_command: Run, queue: brant.Queue) -> None:
    assert brant_command("write", "q", "é" * 5, **MAX).returncode == 0
    typed = brant_command("write", "q", "é" * 6, **MAX)
    piped = brant_command("write", "q", stdin="é" * 6, **MAX)
    spread = brant_command("broadcast", "é" * 6, **MAX)
    assert typed.returncode == piped.returncode == spread.returncode == 1
    assert typed.stderr == spread.stderr == "brant: error: Message exceeds maximum size of 10 bytes\n"
    assert piped.stderr == "brant: error: Input exceeds maximum size of 10 bytes\n"
    assert queue.peek_many() == ["é" * 5]


@same_on_both
def test_an_endless_input_is_refused_once_it_is_too_large(tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            [COMMAND, "write", "q"], stdin=zeros, capture_output=True, cwd=tmp_path, env=clean_environment(), timeout=60
        )
    assert (done.returncode, done.stderr) == (1, b"brant: error: Input exceeds maximum size of 10485760 bytes\n")
    assert list(tmp_path.iterdir()) == []


@same_on_both
def test_what_is_no_utf_8_is_refused(queue: brant.Queue, tmp_path: Path) -> None:
    piped = subprocess.run(
        [COMMAND, "write", "q"], input=b"\xff", capture_output=True, cwd=tmp_path, env=clean_environment()
    )
    typed = subprocess.run([COMMAND, "write", "q", b"\xff"], capture_output=True, cwd=tmp_path, env=clean_environment())
    assert (piped.returncode, typed.returncode) == (1, 1)
    assert piped.stderr.startswith(b"brant: error: the input is not valid UTF-8: ")
    assert typed.stderr.startswith(b"brant: error: the message is not valid Unicode text")
    assert not queue.exists()


def test_lines_are_messages_of_their_own(brant_command: Run, queue: brant.Queue) -> None:
    assert brant_command("write", "--lines", "q", stdin="a\n\n c \r\nno end").returncode == 0
    assert queue.read_many(10) == ["a", "", " c \r", "no end"]
    assert brant_command("write", "--lines", "q", "-", stdin="").returncode == 0
    assert not queue.exists()


def test_lines_are_written_as_they_come(store: brant.Database, tmp_path: Path) -> None:
    commits = store.update_events()
    writer = subprocess.Popen(
        [COMMAND, "write", "--lines", "q"], stdin=subprocess.PIPE, cwd=tmp_path, env=clean_environment()
    )
    with writer:
        assert writer.stdin is not None
        writer.stdin.write(b"first\nsecond\nunfinished")
        writer.stdin.flush()
        while store.queue("q").peek_many() != ["first", "second"]:
            assert commits.wait(30), "what had come was not written while more was awaited"
        writer.stdin.write(b" line\n")
    assert writer.returncode == 0
    assert store.queue("q").peek_many() == ["first", "second", "unfinished line"]


@same_on_both
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"\xff", b"line 3 is not valid UTF-8"),
        (b"x" * 11, b"line 3 exceeds the maximum size of 10 bytes"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_bad_line_is_named(queue: brant.Queue, tmp_path: Path, bad: bytes, why: bytes, end: bytes) -> None:
    done = subprocess.run(
        [COMMAND, "write", "--lines", "q"],
        input=b"a\nb\n" + bad + end,
        capture_output=True,
        cwd=tmp_path,
        env=clean_environment(**MAX),
    )
    assert done.returncode == 1
    assert why in done.stderr
    told = int(done.stderr.split(b"the first ")[1].split()[0])
    assert queue.peek_many() == ["a", "b"][:told]


# read and peek


def test_read_takes_the_oldest_and_peek_leaves_it(brant_command: Run, queue: brant.Queue) -> None:
    queue.write_many(["a", "b", "c"])
    assert [brant_command("peek", "q").stdout for _ in range(2)] == ["a\n", "a\n"]
    assert brant_command("peek", "q", "--all").stdout == "a\nb\nc\n"
    assert brant_command("read", "q").stdout == "a\n"
    assert brant_command("read", "q", "--all").stdout == "b\nc\n"
    assert not queue.exists()


def test_a_message_is_taken_by_its_id(brant_command: Run, queue: brant.Queue) -> None:
    ids = queue.write_many(["a", "b", "c"])
    assert brant_command("peek", "q", "-m", ids[1]).stdout == "b\n"
    assert brant_command("read", "q", "-m", ids[1]).stdout == "b\n"
    assert brant_command("read", "q", "-m", ids[1]).returncode == 2
    # Noted down under SimpleBroker, ids have nanoseconds.
    assert brant_command("read", "q", "-m", ids[2] * 1000).stdout == "c\n"
    assert brant_command("read", "q", "-m", ids[0] * 1000 + 1).returncode == 2
    assert queue.peek_many() == ["a"]


@pytest.mark.parametrize("command", ["read", "peek"])
def test_ranges_leave_their_bounds_out(brant_command: Run, queue: brant.Queue, command: str) -> None:
    ids = queue.write_many(["a", "b", "c", "d", "e"])
    assert brant_command(command, "q", "--after", ids[1]).stdout == "c\n"
    between = brant_command(command, "q", "--all", "--after", ids[0], "--before", ids[4])
    assert between.stdout == ("b\nd\n" if command == "read" else "b\nc\nd\n")
    assert brant_command(command, "q", "--all", "--before", ids[0]).returncode == 2


@same_on_both
@pytest.mark.parametrize("option", [("--all",), ("--after", "1"), ("--before", "1")])
def test_an_id_stands_alone(brant_command: Run, queue: brant.Queue, option: tuple[str, ...]) -> None:
    message = queue.write("a")
    for words in (("read", "q"), ("peek", "q"), ("move", "q", "r")):
        refused = brant_command(*words, "-m", message, *option)
        assert refused.returncode == 1
        assert refused.stderr.startswith("brant: error: -m names one message and can't be combined")
    assert queue.peek_many() == ["a"]


def test_priorities_delays_leases_and_pauses_hold_for_the_shell(
    brant_command: Run, store: brant.Database, queue: brant.Queue
) -> None:
    queue.enqueue("leased", priority=9)
    assert queue.claim_one("w") is not None
    queue.enqueue("later", delay=3600)
    queue.enqueue("plain")
    queue.enqueue("urgent", priority=5)
    assert brant_command("peek", "q", "--all").stdout == "urgent\nplain\n"
    queue.pause()
    assert brant_command("read", "q", "--all").returncode == brant_command("read", "q").returncode == 2
    queue.resume()
    assert brant_command("read", "q", "--all").stdout == "urgent\nplain\n"
    assert (queue.stats().pending, queue.stats().claimed) == (1, 1)


def test_read_all_takes_more_than_a_batch_and_counts_no_attempts(brant_command: Run, queue: brant.Queue) -> None:
    queue.write_many([str(number) for number in range(350)])
    shown = brant_command("read", "q", "--all", BRANT_GENERATOR_BATCH_SIZE="50")
    assert shown.stdout.splitlines() == [str(number) for number in range(350)]
    assert not queue.exists()


# move


def test_move_prints_what_moved_and_keeps_ids(brant_command: Run, store: brant.Database, queue: brant.Queue) -> None:
    ids = queue.write_many(["a", "b", "c", "d"])
    store.queue("r").write("younger")
    assert brant_command("move", "q", "r", "-t").stdout == f"{ids[0]}\ta\n"
    assert json.loads(brant_command("move", "q", "r", "-m", ids[2], "--json").stdout) == {
        "message": "c",
        "timestamp": ids[2],
    }
    assert brant_command("move", "q", "r", "--after", ids[1]).stdout == "d\n"
    assert brant_command("move", "q", "r", "--all").stdout == "b\n"
    assert store.queue("r").peek_many() == ["a", "b", "c", "d", "younger"]
    assert store.queue("r").peek(message_id=ids[2]) == "c"


@same_on_both
def test_move_to_itself_is_refused_whatever_the_filters(
    brant_command: Run, store: brant.Database, queue: brant.Queue
) -> None:
    store.add_alias("same", "q")
    queue.write("a")
    for destination in ("q", "@same"):
        refused = brant_command("move", "q", destination, "--after", "nonsense")
        assert (refused.returncode, refused.stderr) == (
            1,
            "brant: error: Source and destination queues cannot be the same\n",
        )


def test_what_is_read_or_leased_can_not_be_moved(brant_command: Run, queue: brant.Queue) -> None:
    read, leased = queue.write_many(["read", "leased"])
    queue.read()
    assert queue.claim_one("w") is not None
    for message in (read, leased):
        assert brant_command("move", "q", "r", "-m", message).returncode == 2
    assert queue.stats().claimed == 1


# delete and broadcast


def test_delete_drops_leased_messages_too(brant_command: Run, store: brant.Database, queue: brant.Queue) -> None:
    queue.write_many(["a", "b"])
    store.queue("other").write("stays")
    job = queue.claim_one("w")
    assert job is not None
    done = brant_command("delete", "q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not queue.exists()
    assert not job.ack()
    assert brant_command("delete", "--all").returncode == 0
    assert store.queue_names() == []


def test_delete_one_message(brant_command: Run, queue: brant.Queue) -> None:
    ids = queue.write_many(["a", "b"])
    assert brant_command("delete", "q", "-m", ids[0]).returncode == 0
    assert brant_command("delete", "q", "-m", ids[0]).returncode == 2
    assert brant_command("delete", "other", "-m", ids[1]).returncode == 2
    assert queue.peek_many() == ["b"]


def test_broadcast_reaches_every_known_queue(brant_command: Run, store: brant.Database) -> None:
    for name in ("a", "b", "drained", "B"):
        store.queue(name).write("x")
    store.queue("drained").read()
    store.add_alias("nick", "a")
    assert brant_command("broadcast", "-", stdin="all\n").returncode == 0
    assert {name: store.queue(name).peek_many() for name in store.queue_names()} == {
        "B": ["x", "all\n"],
        "a": ["x", "all\n"],
        "b": ["x", "all\n"],
        "drained": ["all\n"],
    }
    assert brant_command("broadcast", "some", "-p", "[ab]").returncode == 0
    assert [name for name in store.queue_names() if "some" in store.queue(name).peek_many()] == ["a", "b"]


@same_on_both
def test_a_terminal_as_standard_input_is_not_read(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [COMMAND, "write", "q"],
            stdin=theirs,
            capture_output=True,
            cwd=tmp_path,
            env=clean_environment(),
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stderr[:25]) == (1, b"brant: error: no message:")


@pytest.mark.parametrize("words", [("write", "q", "-"), ("broadcast", "-"), ("enqueue", "--text", "q", "-")])
def test_what_is_typed_at_a_terminal_ends_with_one_ctrl_d(
    store: brant.Database, tmp_path: Path, words: tuple[str, ...]
) -> None:
    store.queue("q").write("first")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"typed\n\x04")
        subprocess.run(
            [COMMAND, *words], stdin=theirs, cwd=tmp_path, env=clean_environment(), timeout=PATIENCE_S, check=True
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert store.queue("q").peek_many() == ["first", "typed\n"]


def test_a_slow_reader_of_the_output_keeps_nobody_from_writing(
    brant_command: Run, queue: brant.Queue, tmp_path: Path
) -> None:
    queue.write_many(["x" * 1000] * 300)
    with running(tmp_path, "read", "q", "--all") as reader:
        assert reader.line() == "x" * 1000
        # The pipe is full by now or will be in a moment, and nobody reads on.
        for number in range(5):
            assert brant_command("write", "other", number, BRANT_BUSY_TIMEOUT="2000").returncode == 0
        rest = reader.stdout.read().splitlines()
        assert reader.exit_code() == 0
    assert len(rest) == 299
    assert not queue.exists()
