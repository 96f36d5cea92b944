"""What is printed: payload on stdout in one of three formats, everything else on stderr."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment

NEWLINE_WARNING = "brant: warning: a message contains newline characters; use --json to tell messages apart\n"


def printed(tmp_path: Path, *words: str) -> bytes:
    """The bytes on stdout, as they are."""
    done = subprocess.run([COMMAND, *words], capture_output=True, cwd=tmp_path, env=clean_environment(), check=True)
    assert done.stderr == b""
    return done.stdout


# Messages


def test_a_message_is_its_text_and_a_newline(store: brant.Database, tmp_path: Path) -> None:
    for text in ("plain", "naïve 😀", "", "ends in one\n", "tab\tand\r\nmore", "nul\0inside"):
        store.queue("q").write(text)
        assert printed(tmp_path, "read", "q") == text.encode() + b"\n"


def test_with_its_id_and_a_tab(store: brant.Database, tmp_path: Path) -> None:
    ids = store.queue("q").write_many(["a", "b\nc"])
    assert printed(tmp_path, "peek", "q", "--all", "-t") == f"{ids[0]}\ta\n{ids[1]}\tb\nc\n".encode()


def test_as_json_a_line_is_an_object_with_these_keys_in_this_order(store: brant.Database, tmp_path: Path) -> None:
    ids = store.queue("q").write_many(["naïve", 'two\n"lines"'])
    expected = (
        f'{{"message": "naïve", "timestamp": {ids[0]}}}\n{{"message": "two\\n\\"lines\\"", "timestamp": {ids[1]}}}\n'
    )
    assert printed(tmp_path, "peek", "q", "--all", "--json").decode() == expected
    assert printed(tmp_path, "read", "q", "--all", "--json", "-t").decode() == expected
    assert all(10**15 < number < 2**53 for number in ids)


def test_a_payload_that_is_no_text_is_compact_json(store: brant.Database, tmp_path: Path) -> None:
    for payload in ({"to": "ann", "é": [1, None]}, 5, None, True):
        store.queue("q").enqueue(payload)
    lines = ['{"to":"ann","é":[1,null]}', "5", "null", "true"]
    assert printed(tmp_path, "peek", "q", "--all").decode().splitlines() == lines
    as_json = [json.loads(line) for line in printed(tmp_path, "read", "q", "--all", "--json").splitlines()]
    assert [found["message"] for found in as_json] == lines


def test_what_utf_8_can_not_say_comes_out_all_the_same(store: brant.Database, tmp_path: Path) -> None:
    store.queue("q").enqueue("\ud800 lone")
    assert printed(tmp_path, "peek", "q", "--all").endswith(b" lone\n")
    (found,) = [json.loads(line) for line in printed(tmp_path, "read", "q", "--json").splitlines()]
    assert found["message"] == "\ud800 lone"


def test_bytes_of_other_programs_come_out_as_they_went_in(store: brant.Database, tmp_path: Path) -> None:
    queue = store.queue("q")
    queue.write("placeholder")
    with store.transaction() as tx:
        tx.execute("UPDATE _honker_live SET payload = CAST(x'22ff22' AS TEXT)")
    assert printed(tmp_path, "peek", "q") == b"\xff\n"
    (found,) = [json.loads(line) for line in printed(tmp_path, "read", "q", "--json").splitlines()]
    assert found["message"] == "\udcff"


# The warning about newlines


@pytest.mark.parametrize(
    ("words", "warns"),
    [
        (("read", "q"), False),
        (("peek", "q"), False),
        (("read", "q", "--all"), True),
        (("peek", "q", "--all"), True),
        (("read", "q", "--after", "0"), True),
        (("peek", "q", "--before", "2100-01-01"), True),
        (("move", "q", "other"), True),
        (("read", "q", "--all", "-t"), False),
        (("read", "q", "--all", "--json"), False),
    ],
)
def test_a_newline_is_warned_of_once_where_lines_can_not_be_told_apart(
    brant_command: Run, store: brant.Database, words: tuple[str, ...], warns: bool
) -> None:
    store.queue("q").write_many(["one\ntwo", "three\nfour"])
    shown = brant_command(*words)
    assert (shown.returncode, shown.stderr) == (0, NEWLINE_WARNING if warns else "")


# Errors


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("read", "q", "--after", "soon"), "INVALID_TIMESTAMP"),
        (("peek", "q", "--before", "1e9"), "INVALID_TIMESTAMP"),
        (("move", "q", "r", "-m", "12"), "INVALID_MESSAGE_ID"),
        (("read", "bad name"), "INVALID_ARGUMENT"),
        (("stats", "@nobody"), "INVALID_ARGUMENT"),
        (("doctor",), "ERROR"),
    ],
)
def test_with_json_an_error_is_an_object_on_stderr(brant_command: Run, words: tuple[str, ...], code: str) -> None:
    plain, as_json = brant_command(*words), brant_command(*words, "--json")
    assert (plain.returncode, plain.stdout) == (as_json.returncode, as_json.stdout) == (1, "")
    (line,) = as_json.stderr.splitlines()
    found = json.loads(line)
    assert list(found) == ["error", "message", "retryable"]
    assert (found["error"], found["retryable"]) == (code, False)
    assert plain.stderr == f"brant: error: {found['message']}\n"


def test_an_error_that_may_pass_is_retryable(brant_command: Run, store: brant.Database) -> None:
    store.queue("q").write("x")
    with store.transaction():
        refused = brant_command("read", "q", "--json", BRANT_BUSY_TIMEOUT="1")
    assert refused.returncode == 1
    assert json.loads(refused.stderr)["retryable"] is True
    assert store.queue("q").peek() == "x"


def test_json_that_is_data_asks_for_no_json(brant_command: Run) -> None:
    refused = brant_command("write", "bad name", "--json")
    assert refused.stderr.startswith("brant: error: Invalid queue name 'bad name'")


def test_a_bug_is_one_line_and_its_place_on_request(brant_command: Run, tmp_path: Path) -> None:
    # A module that takes the place of one of the standard library's and does not work.
    (tmp_path / "fractions.py").write_text("raise LookupError('out of\\norder')")
    words = ("read", "q", "--after", "1.5")
    quiet = brant_command(*words, PYTHONPATH=str(tmp_path))
    assert quiet.stderr == "brant: error: unexpected LookupError: out of order; BRANT_DEBUG=1 shows where\n"
    told = brant_command(*words, PYTHONPATH=str(tmp_path), BRANT_DEBUG="1")
    assert told.returncode == quiet.returncode == 1
    assert "Traceback" in told.stderr


# Quiet


def test_quiet_hushes_what_was_done_and_nothing_else(brant_command: Run, store: brant.Database) -> None:
    store.queue("q").write_many(["a\nb", "c"])
    assert brant_command("-q", "init").stderr == ""
    assert brant_command("-q", "--vacuum").stderr == ""
    assert brant_command("-q", "pause", "other").stderr == ""
    assert brant_command("-q", "peek", "q", "--all").stderr == NEWLINE_WARNING
    assert brant_command("-q", "read", "bad name").stderr.startswith("brant: error: ")
    assert brant_command("-q", "backup", "copy.db").stderr == ""
    assert brant_command("-q", "--cleanup", "-f", "copy.db").stderr == ""


@pytest.mark.parametrize("payload", ["NaN", '{"a":Infinity}', "[1,-Infinity]"])
@pytest.mark.parametrize("words", [("stream", "read", "s"), ("claim", "q"), ("dead", "list", "d"), ("dead", "show", 2)])
def test_numbers_that_json_has_not_got_are_printed_as_text(
    brant_command: Run, store: brant.Database, words: tuple[object, ...], payload: str
) -> None:
    """Python and other programs store them, and strict readers would fail at the line."""
    store.stream("s").publish("event")
    store.queue("q").enqueue(1)
    store.queue("d").enqueue(1)
    (job,) = store.queue("d").claim_batch("w", 1)
    job.fail("no")
    with store.transaction() as tx:
        for table in ("_honker_stream", "_honker_live", "_honker_dead"):
            tx.execute(f"UPDATE {table} SET payload = ?", [payload])
        tx.execute("UPDATE _honker_dead SET id = 2")
    done = brant_command(*words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout, parse_constant=pytest.fail)["payload"] == payload
