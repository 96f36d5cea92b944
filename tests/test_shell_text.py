"""What the shell writes and reads: text, byte for byte, and other payloads as JSON."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import brant
from brant.shell import MAX_MESSAGE_BYTES
from brant.testing import FakeClock

pytestmark = pytest.mark.both_backends

TEXTS = [
    "plain",
    "",
    "\0",
    "a\0b",
    "one\ntwo\r\n",
    "trailing newline\n",
    "\t \u2028 \x7f",
    "héllo wörld ✓ 😀 \U0010ffff",
    "e\u0301 is not \u00e9",
    '"quoted" \\ back\\\\slash',
    "{}",
    "null",
    "12",
    '{"looks": "like JSON"}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_byte_for_byte(db: brant.Database, text: str) -> None:
    queue = db.queue("texts")
    queue.write(text)
    assert queue.peek() == text
    assert [*queue.peek_generator()] == [text]
    assert queue.read() == text


@pytest.mark.parametrize("text", TEXTS)
def test_a_worker_gets_a_written_text_as_a_str(db: brant.Database, text: str) -> None:
    queue = db.queue("texts")
    queue.write(text)
    job = queue.claim_one("worker")
    assert job is not None
    assert job.payload == text


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"b": 1, "a": [1, 2]}, '{"b":1,"a":[1,2]}'),
        ([], "[]"),
        (12, "12"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ({"name": "Zoë"}, '{"name":"Zoë"}'),
        ("a worker's text", "a worker's text"),
    ],
)
def test_a_payload_that_is_not_text_reads_as_compact_json(db: brant.Database, payload: object, text: str) -> None:
    queue = db.queue("mixed")
    queue.enqueue(payload)
    message = queue.read()
    assert message is not None
    assert message == text
    assert message.payload == payload


NOT_JSON = ["{broken", "[" * 100_000 + "]" * 100_000, "1" * 5_000]


@pytest.mark.parametrize("stored", NOT_JSON, ids=["broken", "too deep", "too long a number"])
def test_a_row_of_another_program_that_is_not_json_reads_as_it_is(db: brant.Database, stored: str) -> None:
    queue = db.queue("foreign")
    with db.transaction() as tx:
        tx.execute("INSERT INTO _honker_live (queue, payload) VALUES ('foreign', ?)", [stored])
    queue.write("the next one")
    assert queue.peek() == stored
    assert queue.read_many(2) == [stored, "the next one"]


def test_a_message_is_a_str_that_knows_its_id_queue_and_payload(timed: brant.Database, clock: FakeClock) -> None:
    queue = timed.queue("inbox")
    message_id = queue.write("hello")
    message = queue.read()
    assert isinstance(message, str)
    assert (message.id, message.queue, message.payload) == (message_id, "inbox", "hello")
    assert message_id == int(clock.now() * 1_000_000)
    assert copy.copy(message).id == message_id


def test_a_message_may_be_as_large_as_the_limit(db: brant.Database) -> None:
    queue = db.queue("large")
    queue.write("x" * MAX_MESSAGE_BYTES)
    assert queue.read() == "x" * MAX_MESSAGE_BYTES


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_a_message_over_the_limit_in_utf8_bytes_is_refused(db: brant.Database, letter: str) -> None:
    queue = db.queue("large")
    with pytest.raises(brant.InvalidValue, match=f"exceeds maximum size of {MAX_MESSAGE_BYTES} bytes"):
        queue.write(letter * (MAX_MESSAGE_BYTES // len(letter.encode()) + 1))
    assert not queue.exists()


@pytest.mark.parametrize("message", [b"bytes", 1, None, ["list"]])
def test_only_text_is_a_message(db: brant.Database, message: Any) -> None:
    with pytest.raises(TypeError, match="a message is text"):
        db.queue("typed").write(message)


def test_lone_surrogates_are_no_text(db: brant.Database) -> None:
    with pytest.raises(brant.InvalidValue, match="surrogates"):
        db.queue("typed").write("bad \udcff byte")
