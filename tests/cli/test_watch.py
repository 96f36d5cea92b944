"""watch: messages as they come, consumed, peeked at or moved."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.cli.processes import in_time, running
from tests.waiting import PATIENCE_S


@pytest.fixture
def queue(store: brant.Database) -> brant.Queue:
    return store.queue("q")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_what_is_there_and_what_comes_until_it_is_stopped(
    queue: brant.Queue, tmp_path: Path, number: signal.Signals
) -> None:
    queue.write_many(["a", "b"])
    with running(tmp_path, "watch", "q") as watch:
        assert watch.error_line() == "Watching queue 'q' (consume mode)..."
        assert [watch.line(), watch.line()] == ["a", "b"]
        for text in ("c", "d"):
            queue.write(text)
            assert watch.line() == text
        assert watch.stopped_by(number) == 0
        assert (watch.stdout.read(), watch.stderr.read()) == ("", "")
    assert not queue.exists()


def test_it_can_be_stopped_as_soon_as_it_has_said_hello(tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with running(tmp_path, "watch", "q") as watch:
            watch.error_line()
            assert watch.stopped_by(number) == 0


@pytest.mark.parametrize("words", [("-q", "watch", "q"), ("watch", "q", "-q"), ("watch", "q", "--quiet")])
def test_quietly_it_says_no_hello(queue: brant.Queue, tmp_path: Path, words: tuple[str, ...]) -> None:
    queue.write("a")
    with running(tmp_path, *words) as watch:
        assert watch.line() == "a"
        assert watch.stopped_by(signal.SIGTERM) == 0
        assert watch.stderr.read() == ""


def test_the_formats_are_those_of_read(queue: brant.Queue, tmp_path: Path) -> None:
    ids = queue.write_many(["a", "b\nc", "d\ne"])
    with running(tmp_path, "watch", "q", "--peek", "--json") as watch:
        shown = [json.loads(watch.line()) for _ in ids]
    assert [(found["message"], found["timestamp"]) for found in shown] == [
        *zip(["a", "b\nc", "d\ne"], ids, strict=True)
    ]
    with running(tmp_path, "watch", "q", "--peek", "-t") as watch:
        assert watch.line() == f"{ids[0]}\ta"
    with running(tmp_path, "-q", "watch", "q") as watch:
        assert [watch.line() for _ in range(5)] == ["a", "b", "c", "d", "e"]
        assert watch.stopped_by(signal.SIGINT) == 0
        assert watch.stderr.read().count("newline characters") == 1


def test_an_alias_is_shown_as_its_queue(store: brant.Database, tmp_path: Path) -> None:
    store.add_alias("nick", "q")
    store.add_alias("dest", "r")
    with running(tmp_path, "watch", "@nick", "--move", "@dest") as watch:
        assert watch.error_line() == "Watching queue 'q' (move to r mode)..."


# Peek


def test_peek_prints_each_message_once_and_leaves_it(queue: brant.Queue, tmp_path: Path) -> None:
    ids = queue.write_many(["a", "b", "c"])
    with running(tmp_path, "watch", "q", "--peek", "--after", ids[0]) as watch:
        assert watch.error_line() == "Watching queue 'q' (peek mode)..."
        assert [watch.line(), watch.line()] == ["b", "c"]
        queue.read(message_id=ids[1])
        queue.write("d")
        assert watch.line() == "d"
        assert watch.stopped_by(signal.SIGINT) == 0
        assert watch.stdout.read() == ""
    assert queue.peek_many() == ["a", "c", "d"]


def test_peek_shows_messages_that_come_with_an_old_id(
    store: brant.Database, queue: brant.Queue, tmp_path: Path
) -> None:
    store.queue("elsewhere").write("moved")
    queue.enqueue("delayed", delay=1)
    queue.write("a")
    with running(tmp_path, "watch", "q", "--peek") as watch:
        assert watch.line() == "a"
        store.queue("elsewhere").move(queue)
        assert {watch.line(), watch.line()} == {"delayed", "moved"}


def test_peek_shows_a_backlog_of_all_priorities(queue: brant.Queue, tmp_path: Path) -> None:
    queue.enqueue_many([str(number) for number in range(1200)])
    queue.enqueue_many([str(number) for number in range(1200, 1500)], priority=5)
    with running(tmp_path, "watch", "q", "--peek") as watch:
        assert {watch.line() for _ in range(1500)} == {str(number) for number in range(1500)}


# Consume


def test_consume_takes_nothing_outside_its_bound(queue: brant.Queue, tmp_path: Path) -> None:
    ids = queue.write_many(["a", "b"])
    with running(tmp_path, "watch", "q", "--after", ids[1]) as watch:
        watch.error_line()
        queue.write("c")
        assert watch.line() == "c"
        assert watch.stopped_by(signal.SIGTERM) == 0
    assert queue.peek_many() == ["a", "b"]


def test_consume_waits_for_what_is_delayed_and_for_a_pause_to_end(queue: brant.Queue, tmp_path: Path) -> None:
    queue.pause()
    queue.enqueue("delayed", delay=1)
    queue.write("a")
    with running(tmp_path, "watch", "q") as watch:
        watch.error_line()
        queue.resume()
        assert [watch.line(), watch.line()] == ["a", "delayed"]


def test_two_watchers_share_the_messages(queue: brant.Queue, tmp_path: Path) -> None:
    with running(tmp_path, "watch", "q") as one, running(tmp_path, "watch", "q") as other:
        for watch in (one, other):
            watch.error_line()
        for number in range(50):
            queue.write(str(number))
        commits = queue.db.update_events()
        while queue.exists():
            commits.wait(1)
        shown = []
        for watch in (one, other):
            assert watch.stopped_by(signal.SIGTERM) == 0
            shown += watch.stdout.read().split()
    assert sorted(shown, key=int) == [str(number) for number in range(50)]


# Move


def test_move_moves_each_message_and_prints_it(store: brant.Database, queue: brant.Queue, tmp_path: Path) -> None:
    ids = queue.write_many(["a", "b"])
    with running(tmp_path, "watch", "q", "--move", "r", "-t") as watch:
        assert watch.error_line() == "Watching queue 'q' (move to r mode)..."
        assert [watch.line(), watch.line()] == [f"{ids[0]}\ta", f"{ids[1]}\tb"]
        third = queue.write("c")
        assert watch.line() == f"{third}\tc"
        assert watch.stopped_by(signal.SIGINT) == 0
    assert (queue.peek_many(), store.queue("r").peek_many()) == ([], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("q", "--move", "r", "--after", "nonsense"), "--move takes every message and can't be combined with --after"),
        (("q", "--move", "", "--after", "0"), "--move takes every message and can't be combined with --after"),
        (("q", "--move", ""), "Invalid queue name ''"),
        (("q", "--move", "q"), "Cannot move messages to the same queue"),
        (("q", "--move", "@same"), "Cannot move messages to the same queue"),
        (("bad name",), "Invalid queue name 'bad name'"),
        (("@nobody",), "Alias 'nobody' is not defined"),
        (("q", "--move", "bad name"), "Invalid queue name 'bad name'"),
        (("q", "--after", "soon"), "Invalid timestamp: 'soon'"),
    ],
)
def test_what_can_not_be_watched_is_refused_at_once(
    brant_command: Run, store: brant.Database, words: tuple[str, ...], why: str
) -> None:
    store.add_alias("same", "q")
    store.queue("q").write("stays")
    refused = brant_command("watch", *words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"brant: error: {why}")
    assert len(refused.stderr.splitlines()) == 1
    assert store.queue("q").peek_many() == ["stays"]


# The end of who reads it


@pytest.mark.parametrize("mode", [(), ("--peek",), ("--move", "r")])
def test_when_its_reader_goes_it_ends_quietly(queue: brant.Queue, tmp_path: Path, mode: tuple[str, ...]) -> None:
    queue.write_many([str(number) for number in range(50)])
    watch = subprocess.Popen(
        [COMMAND, "-q", "watch", "q", *mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(),
    )
    with watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert watch.stdout.readline() == b"0\n"
        while b"49\n" not in watch.stdout.readline():
            pass
        watch.stdout.close()
        queue.write("unseen")
        assert watch.wait(PATIENCE_S) == 1
        assert watch.stderr.read() == b""
    left = {(): ["unseen"], ("--peek",): [*map(str, range(50)), "unseen"], ("--move", "r"): []}[mode]
    assert queue.peek_many() == left


def test_a_file_that_is_replaced_ends_it_with_an_error(store: brant.Database, tmp_path: Path) -> None:
    with running(tmp_path, "watch", "q") as watch:
        watch.error_line()
        (tmp_path / ".brant.db").rename(tmp_path / "moved.db")
        assert watch.exit_code() == 1
        assert "replaced or deleted" in watch.error_line()


@pytest.mark.parametrize("words", [("watch", "q"), ("listen", "c"), ("stream", "tail", "s")])
def test_a_database_that_is_deleted_is_one_error_and_nothing_else(
    brant_command: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert brant_command("write", "other", "x").returncode == 0
    with running(tmp_path, *words, "--json") as waiting:
        assert waiting.error_line().endswith("...")
        assert brant_command("-q", "--cleanup").returncode == 0
        assert waiting.exit_code() == 1
        (line,) = in_time(waiting.stderr.read).splitlines()
    assert json.loads(line)["error"] == "ERROR"
