"""Payloads that are JSON text already, and moments at which many jobs expire."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import brant
from brant.arguments import JsonText
from brant.testing import FakeClock


def test_json_text_is_stored_as_it_is(db: brant.Database) -> None:
    text = '{"n":  1, "x": 1.10}'
    db.stream("t").publish(JsonText(text))
    db.stream("t").publish_many([JsonText(text)])
    db.queue("q").enqueue_many([JsonText(text)])

    assert [event.payload_text for event in db.stream("t").read()] == [text, text]
    assert [job.payload for job in db.queue("q").claim_batch("w", 1)] == [{"n": 1, "x": 1.1}]


def test_other_text_is_a_json_string_still(db: brant.Database) -> None:
    db.stream("t").publish('{"n": 1}')

    assert db.stream("t").read()[0].payload == '{"n": 1}'


@pytest.mark.parametrize("text", ["", "ship it", "{", "NaN", "[" * 100_000, '"\n"'])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(brant.InvalidValue, match=r"not JSON|nested too deeply"):
        JsonText(text)


def test_many_jobs_can_expire_at_a_moment(timed: brant.Database, clock: FakeClock) -> None:
    moment = datetime.fromtimestamp(clock.now() + 10.5, UTC)
    timed.queue("q").enqueue_many([1, 2], expires_at=moment)

    clock.advance(10)
    assert timed.queue("q").sweep_expired() == 0
    clock.advance(1)
    assert timed.queue("q").sweep_expired() == 2


def test_jobs_expire_at_a_moment_or_after_a_while_not_both(db: brant.Database) -> None:
    with pytest.raises(brant.InvalidValue, match="expires or expires_at, not both"):
        db.queue("q").enqueue_many([1], expires=1, expires_at=2)
