"""stream: durable events, published, read, listed and pruned in the shell."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.both_backends
same_on_both = pytest.mark.files_only("what is tested happens before or after the database")


@pytest.fixture
def stream(db: brant.Database) -> brant.Stream:
    return db.stream("orders")


# publish


def test_publish_stores_json_and_prints_the_offset(brant_command: Run, stream: brant.Stream) -> None:
    done = brant_command("stream", "publish", "orders", '{"id": [1, "é"]}', "--key", "k")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert brant_command("stream", "publish", "orders", stdin="null\n").stdout == "2\n"
    assert brant_command("stream", "publish", "orders", "-", stdin="-1.5").stdout == "3\n"
    assert [(event.key, event.payload) for event in stream.read()] == [
        ("k", {"id": [1, "é"]}),
        (None, None),
        (None, -1.5),
    ]


@same_on_both
@pytest.mark.parametrize(
    "words",
    [
        ("--text", "orders", "--", "--x"),
        ("orders", "--text", "--", "--x"),
        ("orders", "--text", "-1"),
        ("orders", "-1", "--text"),
    ],
)
def test_text_is_stored_as_it_is_wherever_the_option_stands(
    brant_command: Run, stream: brant.Stream, words: tuple[str, ...]
) -> None:
    assert brant_command("stream", "publish", *words).returncode == 0
    assert [event.payload for event in stream.read()] == [next(word for word in words if word in ("--x", "-1"))]


def test_lines_are_events_of_one_key_in_order(brant_command: Run, stream: brant.Stream) -> None:
    lines = "".join(f"{number}\n" for number in range(2500))
    done = brant_command("stream", "publish", "orders", "--lines", "--key", "k", stdin=lines)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Published 2500 events to 'orders'\n")
    assert [(event.key, event.payload) for event in stream.read(limit=-1)] == [("k", number) for number in range(2500)]


def test_lines_of_text_are_kept_as_they_are(brant_command: Run, stream: brant.Stream) -> None:
    done = brant_command("-q", "stream", "publish", "orders", "--lines", "--text", stdin="a \n\nlast")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [event.payload for event in stream.read()] == ["a ", "", "last"]


def test_a_bad_line_is_named_and_so_is_how_much_is_published(brant_command: Run, stream: brant.Stream) -> None:
    done = brant_command("stream", "publish", "orders", "--lines", stdin="1\n" * 200_000 + "nope\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: line 200001 is not JSON")
    assert "--text" in done.stderr
    published = len(stream.read(limit=-1))
    assert 0 < published <= 200_000
    assert done.stderr.endswith(f"published so far: the first {published} lines\n")


def test_a_line_that_is_not_utf8_is_named_once(tmp_path: Path, stream: brant.Stream) -> None:
    done = subprocess.run(
        [COMMAND, "stream", "publish", "orders", "--lines"],
        input=b"1\n\xff\n",
        capture_output=True,
        cwd=tmp_path,
        env=clean_environment(),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"brant: error: line 2 is not valid UTF-8")
    assert done.stderr.count(b"the first 0 lines") == 1
    assert stream.head() == 0


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, (0, b"\nbrant: interrupted\n")), (signal.SIGTERM, (143, b""))]
)
def test_a_publisher_of_lines_that_is_stopped_has_published_those_that_came(
    tmp_path: Path, stream: brant.Stream, number: signal.Signals, ending: tuple[int, bytes]
) -> None:
    commits = stream.db.update_events()
    publishing = subprocess.Popen(
        [COMMAND, "stream", "publish", "orders", "--lines"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(),
    )
    with publishing:
        assert publishing.stdin is not None
        assert publishing.stderr is not None
        publishing.stdin.write(b"1\n2\n3")
        publishing.stdin.flush()
        while [event.payload for event in stream.read()] != [1, 2]:
            assert commits.wait(PATIENCE_S)
        publishing.send_signal(number)
        assert (publishing.wait(PATIENCE_S), publishing.stderr.read()) == ending
    assert stream.head() == 2


@same_on_both
@pytest.mark.parametrize(
    ("words", "stdin", "error"),
    [
        (("orders", "nope"), None, "the payload is not JSON"),
        (("orders", "NaN"), None, "NaN is no JSON number"),
        (("orders",), "", "the payload is not JSON"),
        (("orders", b"\xff", "--text"), None, "not valid UTF-8"),
        (("orders", "1", "--lines"), None, "leave the payload out"),
        (("orders", "1", "2"), None, "unrecognized arguments: 2"),
        (("orders", "--nope", "1"), None, "unrecognized arguments: --nope"),
        (("a\nb", "1"), None, "stream name"),
        ((), None, "TOPIC"),
    ],
)
def test_what_can_not_be_published_is_one_line_and_exit_1(
    tmp_path: Path, stream: brant.Stream, words: tuple[str | bytes, ...], stdin: str | None, error: str
) -> None:
    command = [COMMAND, "stream", "publish", *words]
    done = subprocess.run(
        command, input=stdin or "", capture_output=True, text=True, cwd=tmp_path, env=clean_environment(), check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: ")
    assert error in done.stderr
    assert done.stderr.count("\n") == 1
    assert stream.head() == 0


@same_on_both
@pytest.mark.parametrize("lines", [(), ("--lines",)])
def test_a_payload_that_is_too_large_is_refused(
    brant_command: Run, stream: brant.Stream, lines: tuple[str, ...]
) -> None:
    publish = ("stream", "publish", "orders", "--text", *lines)
    assert brant_command(*publish, stdin="12345", BRANT_MAX_MESSAGE_SIZE="5").returncode == 0
    done = brant_command(*publish, stdin="123456", BRANT_MAX_MESSAGE_SIZE="5")
    assert done.returncode == 1
    assert "exceeds the maximum size of 5 bytes" in done.stderr
    assert len(stream.read()) == 1


# read, list


def test_read_prints_offset_key_and_payload(brant_command: Run, stream: brant.Stream) -> None:
    for payload, key in (({"a": ["é"]}, "k"), ("some text", None), (None, "")):
        stream.publish(payload, key)
    done = brant_command("stream", "read", "orders")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '1\tk\t{"a":["é"]}\n2\t\tsome text\n3\t\tnull\n'


def test_read_as_json(brant_command: Run, stream: brant.Stream) -> None:
    stream.publish({"a": "é\n"}, "k")
    stream.publish("text")
    printed = brant_command("stream", "read", "orders", "--json").stdout
    assert printed.startswith('{"offset": 1, "topic": "orders", "key": "k", "payload": {"a": "é\\n"}, "created_at": ')
    events = stream.read()
    assert [json.loads(line) for line in printed.splitlines()] == [
        {
            "offset": event.offset,
            "topic": "orders",
            "key": event.key,
            "payload": event.payload,
            "created_at": event.created_at,
        }
        for event in events
    ]


def test_read_takes_a_range_and_all_pages(brant_command: Run, stream: brant.Stream) -> None:
    stream.publish_many(range(1, 2502))

    def offsets(*words: object) -> list[int]:
        done = brant_command("stream", "read", "orders", *words)
        return [int(line.partition("\t")[0]) for line in done.stdout.splitlines()]

    assert offsets() == list(range(1, 2502))
    assert offsets("--after", 10, "--limit", 3) == [11, 12, 13]
    assert offsets("--limit", 1001) == list(range(1, 1002))
    assert offsets("--after", 2499) == [2500, 2501]


def test_read_of_nothing_is_exit_2(brant_command: Run, stream: brant.Stream) -> None:
    stream.publish(1)
    for words in (("orders", "--after", "1"), ("others",)):
        done = brant_command("stream", "read", *words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert brant_command("stream", "read", "orders", "--limit", "0").returncode == 1


def test_what_other_programs_stored_stops_nobody(brant_command: Run, db: brant.Database, stream: brant.Stream) -> None:
    stream.publish(1)
    with db.transaction() as tx:
        for payload in ("no json", r'"\ud800"', '"two\nlines"', '"a\\nb"'):
            tx.execute("INSERT INTO _honker_stream (topic, payload) VALUES ('orders', ?)", [payload])
    done = brant_command("stream", "read", "orders")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["1\t\t1", "2\t\tno json", "3\t\t\\ud800", '4\t\t"two', 'lines"', "5\t\ta", "b"]
    assert done.stderr.count("newline") == 1
    done = brant_command("stream", "read", "orders", "--json")
    assert [json.loads(line)["payload"] for line in done.stdout.splitlines()] == [
        1,
        "no json",
        "\ud800",
        '"two\nlines"',
        "a\nb",
    ]
    assert done.stderr == ""


def test_list_shows_the_streams_that_hold_events(brant_command: Run, db: brant.Database) -> None:
    assert brant_command("stream", "list").returncode == 0
    for name in ("b", "a"):
        db.stream(name).publish(1)
    assert brant_command("stream", "list").stdout == "a\nb\n"


# consumers, prune


def test_consumers_shows_offset_and_lag(brant_command: Run, stream: brant.Stream) -> None:
    done = brant_command("stream", "consumers", "orders", "--json")
    assert (done.returncode, done.stdout) == (0, "")
    stream.publish_many(range(5))
    stream.save_offset("slow", 1)
    stream.save_offset("done", 5)
    assert brant_command("stream", "consumers", "orders").stdout == "done\t5\t0\nslow\t1\t4\n"
    lines = brant_command("stream", "consumers", "orders", "--json").stdout.splitlines()
    assert lines == ['{"name": "done", "offset": 5, "lag": 0}', '{"name": "slow", "offset": 1, "lag": 4}']


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        (("--up-to", "2"), [3, 4, 5]),
        (("--keep", "4"), [2, 3, 4, 5]),
        (("--up-to", "4", "--keep", "2"), [4, 5]),
        (("--older-than", "3600"), [1, 2, 3, 4, 5]),
        (("--keep", "0"), [4, 5]),
        (("--keep", "0", "--past-consumers"), []),
    ],
)
def test_prune_deletes_within_its_bounds_and_says_how_many(
    brant_command: Run, stream: brant.Stream, bounds: tuple[str, ...], left: list[int]
) -> None:
    stream.publish_many(range(5))
    stream.save_offset("reader", 3)
    done = brant_command("stream", "prune", "orders", *bounds, "--yes")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"Deleted {5 - len(left)} events of 'orders'\n"
    assert [event.offset for event in stream.read()] == left


@same_on_both
@pytest.mark.parametrize(
    ("words", "hint"), [(("--keep", "0"), "--yes"), (("--yes",), "--up-to"), (("--keep", "x", "--yes"), "'x'")]
)
def test_prune_needs_a_bound_and_a_yes(
    brant_command: Run, stream: brant.Stream, words: tuple[str, ...], hint: str
) -> None:
    stream.publish(1)
    done = brant_command("stream", "prune", "orders", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert hint in done.stderr
    assert len(stream.read()) == 1


@same_on_both
@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("\n", 1, 1)])
def test_prune_asks_at_a_terminal(tmp_path: Path, stream: brant.Stream, answer: str, code: int, left: int) -> None:
    stream.publish(1)
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    words = [COMMAND, "stream", "prune", "orders", "--keep", "0"]
    done = subprocess.run(
        words, stdin=theirs, capture_output=True, text=True, cwd=tmp_path, env=clean_environment(), check=False
    )
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Delete old events of 'orders'?" in done.stderr
    assert len(stream.read()) == left


@same_on_both
def test_an_action_has_help_and_a_missing_one_is_an_error(brant_command: Run) -> None:
    assert "--past-consumers" in brant_command("stream", "prune", "--help").stdout
    for words in ((), ("nope",)):
        done = brant_command("stream", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("brant: error: ")
