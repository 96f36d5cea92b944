"""stream tail, notify and listen: what comes is printed until a signal, a count, a timeout or a broken pipe."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import Run
from tests.cli.processes import in_time, running
from tests.waiting import PATIENCE_S, write_lock_held

STOPS = [signal.SIGINT, signal.SIGTERM]
# More than a pipe holds, so that a write of it ends only when somebody reads.
LARGE = "x" * 200_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    """The database that the command finds in its directory."""
    with brant.open(tmp_path / ".brant.db") as database:
        yield database


@pytest.fixture
def stream(db: brant.Database) -> brant.Stream:
    return db.stream("orders")


# tail


@pytest.mark.parametrize("stop", STOPS)
def test_tail_goes_on_where_its_consumer_was_stopped(tmp_path: Path, stream: brant.Stream, stop: int) -> None:
    stream.publish_many([1, 2])
    with running(tmp_path, "stream", "tail", "orders", "--consumer", "c") as tail:
        assert tail.error_line() == "Following stream 'orders' after offset 0..."
        assert [tail.line(), tail.line()] == ["1\t\t1", "2\t\t2"]
        stream.publish({"late": True}, "k")
        assert tail.line() == '3\tk\t{"late":true}'
        assert tail.stopped_by(stop) == 0
        assert (tail.line(), tail.error_line()) == ("", "")
    assert stream.get_offset("c") == 3
    stream.publish(4)
    with running(tmp_path, "-q", "stream", "tail", "orders", "--consumer", "c", "--json") as tail:
        event = json.loads(tail.line())
        assert (event["offset"], event["topic"], event["key"], event["payload"]) == (4, "orders", None, 4)
        assert tail.stopped_by(stop) == 0
        assert tail.error_line() == ""
    assert stream.get_offset("c") == 4


def test_tail_without_a_consumer_saves_nothing_and_begins_where_told(tmp_path: Path, stream: brant.Stream) -> None:
    stream.publish_many([1, 2, 3])
    with running(tmp_path, "stream", "tail", "orders", "--from", 2) as tail:
        assert tail.line() == "3\t\t3"
        assert tail.stopped_by(signal.SIGTERM) == 0
    assert stream.consumers() == []


def test_tail_from_an_offset_replays_and_does_not_take_the_consumer_back(tmp_path: Path, stream: brant.Stream) -> None:
    stream.publish_many([1, 2, 3])
    stream.save_offset("c", 2)
    with running(tmp_path, "stream", "tail", "orders", "--from", 0, "--consumer", "c") as tail:
        assert tail.line() == "1\t\t1"
        assert tail.stopped_by(signal.SIGTERM) == 0
    assert stream.get_offset("c") >= 2


@pytest.mark.parametrize("start", [(), ("--from", "0")])
def test_a_consumer_that_can_not_be_saved_is_refused_before_anything_is_printed(
    brant_command: Run, stream: brant.Stream, start: tuple[str, ...]
) -> None:
    stream.publish_many([1, 2])
    refused = brant_command("stream", "tail", "orders", "--consumer", "", *start)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("brant: error: consumer ''")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_signal_in_the_middle_of_a_line_cuts_nothing_off(
    tmp_path: Path, stream: brant.Stream, unbuffered: str
) -> None:
    stream.publish_many([LARGE] * 5)
    with running(tmp_path, "stream", "tail", "orders", "--consumer", "c", PYTHONUNBUFFERED=unbuffered) as tail:
        assert tail.line() == f"1\t\t{LARGE}"
        tail.process.send_signal(signal.SIGTERM)
        rest = in_time(tail.stdout.read).splitlines()
        assert tail.exit_code() == 0
    assert rest in ([], [f"2\t\t{LARGE}"])
    assert stream.get_offset("c") == 1 + len(rest)


def test_a_pipe_that_breaks_ends_tail_quietly_and_nothing_is_skipped(tmp_path: Path, stream: brant.Stream) -> None:
    stream.publish_many([LARGE] * 5)
    with running(tmp_path, "-q", "stream", "tail", "orders", "--consumer", "c") as tail:
        head = subprocess.run(["head", "-1"], stdin=tail.stdout, capture_output=True, check=True)
        tail.stdout.close()
        assert tail.exit_code() == 1
        assert in_time(tail.stderr.read) == ""
    assert head.stdout.startswith(b"1\t\tx")
    saved = stream.get_offset("c")
    assert saved <= 1
    with running(tmp_path, "stream", "tail", "orders", "--consumer", "c") as tail:
        assert tail.line().startswith(f"{saved + 1}\t")


def test_tail_survives_a_busy_database_and_saves_later(
    tmp_path: Path, db: brant.Database, stream: brant.Stream
) -> None:
    stream.publish(1)
    busy = ExitStack()
    busy.enter_context(write_lock_held(tmp_path / ".brant.db"))
    tail_words = ("-q", "stream", "tail", "orders", "--consumer", "c")
    with busy, running(tmp_path, *tail_words, BRANT_BUSY_TIMEOUT="1") as tail:
        assert tail.line() == "1\t\t1"
        assert tail.error_line().startswith("brant: warning: the offset is not saved yet")
        busy.close()
        stream.publish(2)
        assert tail.line() == "2\t\t2"
        assert tail.stopped_by(signal.SIGINT) == 0
    assert stream.get_offset("c") == 2


# notify, listen


def test_notify_prints_the_id_that_a_listener_gets(brant_command: Run, db: brant.Database) -> None:
    listener = db.listen("jobs")
    sent = [
        brant_command("notify", "jobs", '{"id": 1}'),
        brant_command("notify", "jobs", "--text", "a text"),
        brant_command("notify", "jobs", stdin="[2]"),
    ]
    assert [(done.returncode, done.stderr) for done in sent] == [(0, "")] * 3
    got = [listener.get(0) for _ in sent]
    assert [notification and notification.payload for notification in got] == [{"id": 1}, "a text", [2]]
    assert [f"{notification and notification.id}\n" for notification in got] == [done.stdout for done in sent]


def test_notify_refuses_what_is_not_json(brant_command: Run) -> None:
    done = brant_command("notify", "jobs", "nope")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--text" in done.stderr
    assert done.stderr.count("\n") == 1


def test_listen_is_woken_by_another_process_and_ends_after_its_count(tmp_path: Path, brant_command: Run) -> None:
    brant_command("notify", "jobs", "0")
    with running(tmp_path, "listen", "jobs", "--count", 2) as listening:
        assert listening.error_line() == "Listening on channel 'jobs'..."
        brant_command("notify", "others", "1")
        brant_command("notify", "jobs", '{"id": ["é"]}')
        assert listening.line() == '{"id":["é"]}'
        brant_command("notify", "jobs", "--text", "plain text")
        assert listening.line() == "plain text"
        assert listening.exit_code() == 0
        assert (listening.line(), listening.error_line()) == ("", "")


@pytest.mark.parametrize("stop", STOPS)
def test_listen_prints_json_until_a_signal(tmp_path: Path, db: brant.Database, stop: int) -> None:
    with running(tmp_path, "listen", "jobs", "--json", "--timeout", PATIENCE_S) as listening:
        listening.error_line()
        for payload in ("a text", {"b": None}):
            sent = db.notify("jobs", payload)
            shown = json.loads(listening.line())
            assert list(shown) == ["id", "channel", "payload", "created_at"]
            assert (shown["id"], shown["channel"], shown["payload"]) == (sent, "jobs", payload)
        assert listening.stopped_by(stop) == 0
        assert (listening.line(), listening.error_line()) == ("", "")


def test_listen_that_hears_nothing_is_exit_2(brant_command: Run) -> None:
    done = brant_command("-q", "listen", "jobs", "--timeout", "0.05")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("words", [("--count", "0"), ("--timeout", "-1"), ("--timeout", "soon"), ("more",)])
def test_listen_refuses_bad_arguments(brant_command: Run, words: tuple[str, ...]) -> None:
    done = brant_command("listen", "jobs", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: ")
    assert done.stderr.count("\n") == 1


def test_listen_ends_quietly_when_nobody_reads_any_more(tmp_path: Path, db: brant.Database) -> None:
    with running(tmp_path, "listen", "jobs") as listening:
        listening.error_line()
        listening.stdout.close()
        db.notify("jobs", 1)
        assert listening.exit_code() == 1
        assert in_time(listening.stderr.read) == ""
