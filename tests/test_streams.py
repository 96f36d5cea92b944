"""Durable streams: publishing, reading, consumers and retention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import write_lock_held

pytestmark = pytest.mark.both_backends


def _offsets(stream: brant.Stream) -> list[int]:
    return [event.offset for event in stream.read(limit=-1)]


def test_offsets_are_1_2_3(db: brant.Database) -> None:
    orders = db.stream("orders")
    assert [orders.publish("a"), orders.publish("b")] == [1, 2]
    assert orders.publish_many(["c", "d"]) == [3, 4]
    assert _offsets(orders) == [1, 2, 3, 4]


def test_an_event_tells_where_it_belongs(timed: brant.Database, clock: FakeClock) -> None:
    timed.stream("orders").publish({"id": 42}, key="42")
    (event,) = timed.stream("orders").read()
    assert (event.offset, event.topic, event.key, event.payload) == (1, "orders", "42", {"id": 42})
    assert event.created_at == clock.now()


@pytest.mark.parametrize("payload", [None, "", "text ✓ \0 \ud800", 0, 1.5, True, [], {"deep": [{"er": None}]}])
def test_a_payload_comes_back_as_it_was(db: brant.Database, payload: object) -> None:
    stream = db.stream("s")
    stream.publish(payload)
    stream.publish_many([payload])
    assert [event.payload for event in stream.read()] == [payload, payload]


KEYS = [None, "", "42", "é ✓ 😀", "a\nb", "a\0b", "null", '"quoted"', "x" * 5000]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=pytest.mark.files_only("a server stores no NUL")) if key and "\0" in key else key
        for key in KEYS
    ],
)
def test_a_key_comes_back_as_it_was(db: brant.Database, key: str | None) -> None:
    stream = db.stream("s")
    stream.publish(1, key=key)
    stream.publish_many([2], keys=[key])
    assert [event.key for event in stream.read()] == [key, key]


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("key", [42, b"42", "bad \ud800"])
def test_a_key_that_is_no_text_is_refused(db: brant.Database, key: Any) -> None:
    stream = db.stream("s")
    with pytest.raises(brant.InvalidValue):
        stream.publish(1, key=key)
    with pytest.raises(brant.InvalidValue):
        stream.publish_many([1, 2], keys=["good", key])
    assert stream.read() == []


def test_publish_many_keeps_the_order_and_the_pairs(db: brant.Database) -> None:
    stream = db.stream("s")
    assert stream.publish_many(range(5000), keys=map(str, range(5000))) == list(range(1, 5001))
    assert [(event.payload, event.key) for event in stream.read(limit=-1)] == [(n, str(n)) for n in range(5000)]


def test_publishing_nothing_is_no_event(db: brant.Database) -> None:
    assert db.stream("s").publish_many([]) == []
    assert db.stream("s").head() == 0


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.publish_many([1, 2], keys=["only one"]),
        lambda s: s.publish_many([1], keys=["a", "b"]),
        lambda s: s.publish_many([1, object()]),
        lambda s: s.publish(float("nan")),
    ],
)
def test_what_can_not_be_published_leaves_nothing(db: brant.Database, call: Callable[[brant.Stream], Any]) -> None:
    with pytest.raises((brant.InvalidValue, TypeError)):
        call(db.stream("s"))
    assert db.stream("s").read() == []


@pytest.mark.parametrize("name", ["", "bad\nname", "x" * 513, 5])
def test_a_bad_stream_name_is_refused(db: brant.Database, name: Any) -> None:
    with pytest.raises(brant.InvalidValue, match="stream name"):
        db.stream(name)


def test_the_same_name_is_the_same_stream_also_inside_a_transaction(db: brant.Database) -> None:
    with db.transaction() as tx:
        db.stream("s").publish(1, tx=tx)
    assert db.stream("s") is db.stream("s")
    assert db.stream("s").head() == 1


@pytest.mark.guarantee("G1")
def test_a_rolled_back_event_never_was(db: brant.Database) -> None:
    stream = db.stream("s")
    stream.publish("first")
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        assert stream.publish("never", tx=tx) == 2
        stream.save_offset("c", 1, tx=tx)
        raise ZeroDivisionError
    second = stream.publish("second")
    assert [(event.offset, event.payload) for event in stream.read()] == [(1, "first"), (second, "second")]
    assert stream.consumers() == []


@pytest.mark.files_only("others may have published meanwhile on a server, where offsets have gaps")
def test_a_rolled_back_event_leaves_no_gap(db: brant.Database) -> None:
    stream = db.stream("s")
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        stream.publish("never", tx=tx)
        raise ZeroDivisionError
    assert stream.publish("first") == 1


def test_read_gives_what_is_behind_an_offset(db: brant.Database) -> None:
    stream = db.stream("s")
    stream.publish_many(range(1200))
    assert [event.offset for event in stream.read(after=2, limit=3)] == [3, 4, 5]
    assert len(stream.read()) == 1000
    assert len(stream.read(limit=-1)) == 1200
    assert stream.read(after=1200) == []
    assert stream.read(limit=0) == []


def test_topics_are_apart_and_share_the_count(db: brant.Database) -> None:
    a, b = db.stream("a"), db.stream("b")
    assert [a.publish(1), b.publish(2), a.publish(3)] == [1, 2, 3]
    assert _offsets(a) == [1, 3]
    assert _offsets(b) == [2]
    assert (a.head(), b.head(), db.stream("c").head()) == (3, 2, 0)
    assert db.list_streams() == ["a", "b"]


def test_publishing_sends_no_notification(db: brant.Database) -> None:
    db.stream("s").publish(1)
    db.stream("s").publish_many([2])
    assert db.query("SELECT * FROM _honker_notifications") == []


@pytest.mark.guarantee("G11")
def test_a_saved_offset_never_goes_back(db: brant.Database) -> None:
    stream = db.stream("s")
    assert stream.get_offset("c") == 0
    assert stream.save_offset("c", 7) is True
    assert stream.save_offset("c", 7) is False
    assert stream.save_offset("c", 3) is False
    assert stream.get_offset("c") == 7
    assert db.stream("other").get_offset("c") == 0


def test_consumers_tell_their_lag(db: brant.Database) -> None:
    stream, other = db.stream("s"), db.stream("other")
    stream.publish_many(range(3))
    other.publish_many(range(10))
    stream.publish("last")
    stream.save_offset("fast", 14)
    stream.save_offset("slow", 1)
    other.save_offset("elsewhere", 4)
    assert [(c.name, c.offset, c.lag) for c in stream.consumers()] == [("fast", 14, 0), ("slow", 1, 3)]


def test_a_forgotten_consumer_starts_anew(db: brant.Database) -> None:
    stream = db.stream("s")
    stream.save_offset("c", 5)
    assert stream.forget_consumer("c") is True
    assert stream.forget_consumer("c") is False
    assert stream.consumers() == []
    assert stream.get_offset("c") == 0


def _aged(timed: brant.Database, clock: FakeClock) -> brant.Stream:
    """Six events, ten seconds apart, the newest of this second."""
    stream = timed.stream("s")
    for number in range(6):
        stream.publish(number)
        clock.advance(10 if number < 5 else 0)
    return stream


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({"up_to": 2}, [3, 4, 5, 6]),
        ({"up_to": 99}, []),
        ({"up_to": 0}, [1, 2, 3, 4, 5, 6]),
        ({"keep": 2}, [5, 6]),
        ({"keep": 0}, []),
        ({"keep": 99}, [1, 2, 3, 4, 5, 6]),
        ({"older_than_s": 25}, [4, 5, 6]),
        ({"older_than_s": 30}, [3, 4, 5, 6]),
        ({"older_than_s": 0}, [6]),
        ({"up_to": 4, "keep": 5}, [2, 3, 4, 5, 6]),
        ({"older_than_s": 15, "keep": 1}, [5, 6]),
        ({"older_than_s": 15, "up_to": 1}, [2, 3, 4, 5, 6]),
    ],
)
def test_prune_deletes_what_meets_every_bound(
    timed: brant.Database, clock: FakeClock, bounds: dict[str, Any], left: list[int]
) -> None:
    stream = _aged(timed, clock)
    assert stream.prune(**bounds) == 6 - len(left)
    assert _offsets(stream) == left


@pytest.mark.guarantee("G12")
@pytest.mark.parametrize("bounds", [{"up_to": 6}, {"keep": 0}, {"older_than_s": 0}])
def test_prune_never_passes_a_consumer_unless_told_to(
    timed: brant.Database, clock: FakeClock, bounds: dict[str, Any]
) -> None:
    stream = _aged(timed, clock)
    clock.advance(1)
    stream.save_offset("slow", 2)
    stream.save_offset("fast", 6)
    timed.stream("other").save_offset("elsewhere", 1)
    assert stream.prune(**bounds) == 2
    assert _offsets(stream) == [3, 4, 5, 6]
    assert stream.prune(**bounds) == 0
    assert stream.prune(**bounds, past_consumers=True) == 4


def test_a_forgotten_consumer_no_longer_holds_prune_back(db: brant.Database) -> None:
    stream = db.stream("s")
    stream.publish_many(range(3))
    stream.save_offset("gone", 0)
    assert stream.prune(keep=0) == 0
    stream.forget_consumer("gone")
    assert stream.prune(keep=0) == 3


def test_prune_leaves_other_streams_alone_and_offsets_go_on(db: brant.Database) -> None:
    stream, other = db.stream("s"), db.stream("other")
    stream.publish_many(range(3))
    other.publish("stays")
    assert stream.prune(keep=0) == 3
    assert _offsets(other) == [4]
    other.prune(keep=0)
    assert stream.publish("next") == 5


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("bounds", [{}, {"keep": -1}, {"older_than_s": -1}, {"up_to": "x"}, {"past_consumers": True}])
def test_prune_without_a_sound_bound_deletes_nothing(db: brant.Database, bounds: dict[str, Any]) -> None:
    db.stream("s").publish(1)
    with pytest.raises(brant.InvalidValue):
        db.stream("s").prune(**bounds)
    assert _offsets(db.stream("s")) == [1]


def test_a_prune_that_is_rolled_back_deletes_nothing(db: brant.Database) -> None:
    stream = db.stream("s")
    stream.publish_many(range(3))
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        assert stream.prune(keep=0, tx=tx) == 3
        raise ZeroDivisionError
    assert _offsets(stream) == [1, 2, 3]


@pytest.mark.guarantee("G8")
def test_reading_does_not_wait_for_a_writer(db: brant.Database, path: Path) -> None:
    stream = db.stream("s")
    stream.publish(1)
    stream.save_offset("c", 1)
    with write_lock_held(path):
        assert _offsets(stream) == [1]
        assert (stream.head(), stream.get_offset("c")) == (1, 1)
        assert [consumer.name for consumer in stream.consumers()] == ["c"]
        assert db.list_streams() == ["s"]
        with stream.subscribe() as feed:
            assert next(feed).offset == 1
