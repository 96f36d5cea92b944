"""Rows that other programs wrote, and that Brant itself would never write."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import brant

BROKEN = b'"\xff\xfe"'


@pytest.fixture
def queue(db: brant.Database, path: Path) -> brant.Queue:
    """A queue whose first row is not UTF-8, and whose second one is good."""
    queue = db.queue("q")
    other = sqlite3.connect(path)
    other.execute("INSERT INTO _honker_live (queue, payload) VALUES ('q', CAST(? AS TEXT))", [BROKEN])
    other.commit()
    other.close()
    queue.enqueue("good")
    return queue


def test_a_payload_that_is_not_utf8_does_not_block_the_jobs_behind_it(queue: brant.Queue) -> None:
    broken, good = queue.claim_batch("w", 2)
    assert broken.fail("not text")
    assert (good.payload, good.ack()) == ("good", True)


def test_its_bytes_are_still_there_as_a_message(queue: brant.Queue) -> None:
    message = queue.read()
    assert message is not None
    assert message.encode("utf-8", "surrogateescape") == BROKEN[1:-1]


def test_its_bytes_are_still_there_as_a_dead_letter_and_after_a_requeue(queue: brant.Queue) -> None:
    job = queue.claim_one("w")
    assert job is not None
    job.fail("not text")
    assert queue.list_dead()[0].payload_text.encode("utf-8", "surrogateescape") == BROKEN
    assert queue.requeue_dead() == 1
    assert queue.peek() is not None
