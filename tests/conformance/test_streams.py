"""Durable streams and notifications."""

from __future__ import annotations

from typing import Any

import pytest

from brant.storage.session import Session
from brant.testing import FakeClock

NOW = 1_700_000_000


def offsets(session: Session, topic: str = "t") -> list[int]:
    return [row[0] for row in session.read_stream(topic, 0, -1)]


# Publish and read


def test_an_event_is_read_as_it_was_published(session: Session) -> None:
    keyed = session.publish("t", "k", '{"n": 1}')
    plain = session.publish("t", None, "null")
    assert session.read_stream("t", 0, -1) == [
        (keyed, "t", "k", '{"n": 1}', NOW),
        (plain, "t", None, "null", NOW),
    ]


@pytest.mark.guarantee("G11")
def test_offsets_grow_over_all_topics(session: Session) -> None:
    published = [session.publish(topic, None, "1") for topic in ("t", "other", "t")]
    published += session.publish_many("t", [(None, "2"), (None, "3")])
    assert published == sorted(set(published))
    assert offsets(session) == [published[0], *published[2:]]


def test_many_events_keep_their_order_keys_and_payloads(session: Session) -> None:
    events = [(None if number % 2 else str(number), f'"{number} \\u00e9 \\""') for number in range(50)]
    published = session.publish_many("t", events)
    assert [(row[0], row[2], row[3]) for row in session.read_stream("t", 0, -1)] == [
        (offset, *event) for offset, event in zip(published, events, strict=True)
    ]


def test_no_events_are_no_offsets(session: Session) -> None:
    assert session.publish_many("t", []) == []


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (2, 2), (-1, 3)])
def test_events_are_read_behind_an_offset_up_to_a_limit(session: Session, limit: int, count: int) -> None:
    published = session.publish_many("t", [(None, str(number)) for number in range(5)])
    assert [row[0] for row in session.read_stream("t", published[1], limit)] == published[2:][:count]


def test_the_head_is_the_newest_offset_of_the_topic(session: Session) -> None:
    assert session.stream_head("t") == 0
    newest = session.publish("t", None, "1")
    session.publish("other", None, "1")
    assert session.stream_head("t") == newest


def test_topics_are_listed_by_name_while_they_hold_events(session: Session) -> None:
    for topic in ("b", "a", "b", "c"):
        session.publish(topic, None, "1")
    session.prune_stream("c", keep=0)
    assert session.topics() == ["a", "b"]


# Consumers


@pytest.mark.guarantee("G11")
def test_a_saved_offset_never_goes_back(session: Session) -> None:
    assert session.get_offset("c", "t") == 0
    assert [session.save_offset("c", "t", offset) for offset in (5, 5, 3, 6)] == [True, False, False, True]
    assert session.get_offset("c", "t") == 6
    assert session.get_offset("c", "other") == session.get_offset("d", "t") == 0


def test_consumers_are_listed_with_what_is_left_for_them(session: Session) -> None:
    published = session.publish_many("t", [(None, str(number)) for number in range(5)])
    session.publish("other", None, "1")
    session.save_offset("slow", "t", published[1])
    session.save_offset("done", "t", published[4])
    session.save_offset("stranger", "other", 0)
    assert session.list_consumers("t") == [("done", published[4], 0), ("slow", published[1], 3)]


def test_a_forgotten_consumer_starts_anew(session: Session) -> None:
    session.save_offset("c", "t", 5)
    assert session.forget_consumer("c", "t")
    assert not session.forget_consumer("c", "t")
    assert session.get_offset("c", "t") == 0


# Prune


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({"up_to": 1}, slice(2, None)),
        ({"keep": 2}, slice(3, None)),
        ({"keep": 0}, slice(5, None)),
        ({"keep": 9}, slice(0, None)),
        ({"created_before": NOW + 3}, slice(3, None)),
        ({"up_to": 0, "keep": 2}, slice(1, None)),
        ({"up_to": 3, "created_before": NOW + 1}, slice(1, None)),
        ({"keep": 4, "created_before": NOW + 3}, slice(1, None)),
    ],
)
def test_pruning_deletes_what_meets_every_bound(
    session: Session, clock: FakeClock, bounds: dict[str, Any], left: slice
) -> None:
    other = session.publish("other", None, "1")
    published = []
    for _ in range(5):
        published.append(session.publish("t", None, "1"))
        clock.advance(1)
    if "up_to" in bounds:
        bounds = bounds | {"up_to": published[bounds["up_to"]]}
    expected = published[left]
    assert session.prune_stream("t", **bounds) == len(published) - len(expected)
    assert offsets(session) == expected
    assert offsets(session, "other") == [other]


@pytest.mark.guarantee("G12")
def test_pruning_stops_at_the_slowest_consumer_unless_told_to_pass(session: Session) -> None:
    published = session.publish_many("t", [(None, str(number)) for number in range(5)])
    session.save_offset("fast", "t", published[3])
    session.save_offset("slow", "t", published[1])
    session.save_offset("stranger", "other", 0)
    assert session.prune_stream("t", keep=0) == 2
    assert session.prune_stream("t", keep=1, past_consumers=True) == 2
    assert offsets(session) == published[4:]


@pytest.mark.guarantee("G12")
def test_a_consumer_that_has_read_nothing_yet_holds_everything_back(session: Session) -> None:
    session.publish_many("t", [(None, "1"), (None, "2")])
    session.save_offset("c", "t", 0)
    assert session.prune_stream("t", keep=0) == 0


@pytest.mark.guarantee("G11")
def test_an_offset_is_not_used_again_after_everything_was_pruned(session: Session) -> None:
    last = session.publish_many("t", [(None, "1"), (None, "2")])[-1]
    session.prune_stream("t", keep=0)
    assert session.publish("t", None, "3") > last


# Notifications


def test_notifications_are_read_by_channel_behind_an_id(session: Session) -> None:
    assert session.last_notification("c") == 0
    first, other, second, third = (session.notify(channel, f'"{n}"') for n, channel in enumerate(("c", "d", "c", "c")))
    assert first < other < second < third
    assert session.read_notifications("c", first, 10) == [(second, "c", '"2"', NOW), (third, "c", '"3"', NOW)]
    assert [row[0] for row in session.read_notifications("c", 0, 2)] == [first, second]
    assert session.last_notification("c") == third


@pytest.mark.guarantee("G6")
def test_ids_of_notifications_are_microseconds_that_grow_even_if_the_clock_goes_back(
    session: Session, clock: FakeClock
) -> None:
    first = session.notify("c", "1")
    clock.step_wall(-60)
    assert (first, session.notify("c", "2")) == (NOW * 1_000_000, NOW * 1_000_000 + 1)


@pytest.mark.parametrize(
    ("created_before", "keep", "left"),
    [(NOW + 2, None, 3), (None, 1, 1), (None, 0, 0), (NOW + 2, 1, 1), (NOW + 4, 9, 1), (None, 10**100, 5)],
)
def test_notifications_are_pruned_that_are_too_old_or_too_many(
    session: Session, clock: FakeClock, created_before: float | None, keep: int | None, left: int
) -> None:
    ids = []
    for number in range(5):
        ids.append(session.notify("c" if number % 2 else "d", "1"))
        clock.advance(1)
    assert session.prune_notifications(created_before, keep) == 5 - left
    found = session.read_notifications("c", 0, 10) + session.read_notifications("d", 0, 10)
    assert sorted(row[0] for row in found) == ids[5 - left :]
