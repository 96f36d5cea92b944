"""Two nodes and a bridge: what is published on one comes out on the other, once and in order."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.errors import DatabaseReplaced, InvalidValue, StorageError
from brant.inbox import Bridge, BridgeError, Origin, Trouble, forget_bridged, name_node, node_name, origins
from brant.testing import drain_tasks
from tests.inbox.nodes import LOCAL, SECRET, Node, node, node_of, wait_for
from tests.inbox.tiny import QUEUE
from tests.looping import run, until
from tests.plainly import refusing
from tests.waiting import PATIENCE_S, in_thread


@pytest.fixture
def east(tmp_path: Path) -> Iterator[Node]:
    with node(tmp_path, "east") as made:
        yield made


@pytest.fixture
def west(tmp_path: Path) -> Iterator[Node]:
    with node(tmp_path, "west") as made:
        yield made


def test_events_come_out_on_the_other_side_as_they_are(east: Node, west: Node) -> None:
    odd: list[Any] = [{"id": 42, "ü": "\udc80"}, "text", None, True, 1.5, 2**70, [], {"a": [{"b": {}}]}, "\x00", ""]
    for number, payload in enumerate(odd):
        east.db.stream("orders").publish(payload, key=None if number % 2 else f"k{number}")
    assert east.send_to(west) == len(odd)
    sent, come = (each.db.stream("orders").read() for each in (east, west))
    assert [(event.key, event.payload) for event in come] == [(event.key, event.payload) for event in sent]
    known = origins(west.db, 0, come[-1].offset)
    assert [known[event.offset] for event in come] == [Origin("east", each.offset, each.created_at) for each in sent]


def test_the_next_run_goes_on_where_the_last_one_ended(east: Node, west: Node) -> None:
    east.publish(1, 2)
    assert east.send_to(west) == 2
    assert east.send_to(west) == 0
    east.publish(3)
    assert east.send_to(west) == 1
    assert west.payloads() == [1, 2, 3]
    (consumer,) = east.db.stream("orders").consumers()
    assert (consumer.name, consumer.lag) == ("to-west", 0)


def test_what_is_sent_again_in_other_batches_is_not_published_again(east: Node, west: Node) -> None:
    """As after a crash between the answer and the saving of the offset."""
    east.publish(*range(20))
    for batch, name in ((7, "a"), (20, "b"), (3, "c"), (7, "d")):
        assert east.send_to(west, batch=batch, name=name) == 20
    assert west.payloads() == list(range(20))


def test_each_topic_goes_to_the_topic_of_the_same_name(east: Node, west: Node) -> None:
    east.publish(1, 2, topic="orders")
    east.publish(3, topic="news")
    east.publish(4, topic="private")
    assert east.send_to(west, ["orders", "news"]) == 3  # type: ignore[arg-type]
    assert (west.payloads("orders"), west.payloads("news"), west.payloads("private")) == ([1, 2], [3], [])


def test_what_came_over_a_bridge_does_not_go_back(east: Node, west: Node) -> None:
    east.publish("from east")
    west.publish("from west")
    for _ in range(3):
        east.send_to(west)
        west.send_to(east)
    assert sorted(east.payloads()) == sorted(west.payloads()) == ["from east", "from west"]
    assert len(west.inbox.list_deliveries()) == len(east.inbox.list_deliveries()) == 1
    assert [each.lag for each in east.db.stream("orders").consumers()] == [0]


def test_events_are_sent_on_where_that_is_wanted_and_a_ring_comes_to_rest(
    tmp_path: Path, east: Node, west: Node
) -> None:
    with node(tmp_path, "south") as south:
        ring = [(east, west), (west, south), (south, east)]
        east.publish("e1", "e2")
        west.publish("w1")
        for _ in range(4):
            for sender, receiver in ring:
                sender.send_to(receiver, forward=True)
        for one in (east, west, south):
            assert sorted(one.payloads()) == ["e1", "e2", "w1"]
        known = origins(south.db, 0, 100)
        assert {origin.node for origin in known.values()} == {"east", "west"}


def test_an_event_that_comes_on_two_ways_is_published_once(tmp_path: Path, east: Node, west: Node) -> None:
    with node(tmp_path, "south") as south:
        east.publish(1, 2, 3)
        east.send_to(west)
        west.send_to(south, forward=True, batch=2)
        east.send_to(south)
        assert south.payloads() == [1, 2, 3]


@pytest.mark.both_backends
def test_a_node_on_either_backend_takes_sends_and_forgets(db: brant.Database, east: Node) -> None:
    east.publish({"id": 1}, "\u00fc", None, key="k")
    with node_of(db, "other") as other:
        assert east.send_to(other) == 3
        assert east.send_to(other, name="again", batch=2) == 3
        other.publish("back", key="k")
        assert other.send_to(east) == 1
        assert other.payloads() == east.payloads() == [{"id": 1}, "\u00fc", None, "back"]
        assert {origin.node for origin in origins(db, 0, 2**62).values()} == {"east"}
        assert db.stream("orders").prune(keep=2) == 2
        assert forget_bridged(db, 0) == 2


def test_many_events_go_in_few_requests_and_large_ones_alone(east: Node, west: Node) -> None:
    east.publish(*range(100))
    east.send_to(west, batch=40)
    assert len(west.inbox.list_deliveries()) == 3
    east.publish("x" * 900, "y" * 900, "z" * 10)
    east.send_to(west, max_batch_bytes=1000)
    assert len(west.inbox.list_deliveries()) == 6
    assert west.payloads()[100:] == ["x" * 900, "y" * 900, "z" * 10]


def test_batches_that_are_too_large_over_there_get_smaller(tmp_path: Path, east: Node) -> None:
    with node(tmp_path, "west", max_body=1000) as west:
        east.publish(*("x" * 100 for _ in range(50)))
        assert east.send_to(west) == 50
        assert len(west.payloads()) == 50


def test_an_event_that_is_too_large_over_there_holds_up_what_follows_and_says_so(tmp_path: Path, east: Node) -> None:
    with node(tmp_path, "west", max_body=1000) as west:
        east.publish("first", "x" * 2000, "last")
        with pytest.raises(BridgeError, match="413: the body is larger than 1000 bytes") as failed:
            east.send_to(west)
        assert failed.value.permanent
        assert west.payloads() == ["first"]
        stuck = east.db.stream("orders").read()[1].offset
        assert east.send_to(west, start_at=stuck) == 1, "somebody has decided to leave it out"
        assert west.payloads() == ["first", "last"]


def test_what_is_no_json_arrives_as_text(east: Node, west: Node) -> None:
    with east.db.transaction() as tx:
        for text in ("{broken", "1e999", "[NaN]"):
            tx.execute("INSERT INTO _honker_stream (topic, payload, created_at) VALUES ('orders', ?, 1)", [text])
    assert east.send_to(west) == 3
    assert west.payloads() == ["{broken", "1e999", "[NaN]"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"topics": ["news"]}, "401: the topic is none of those that are taken"),
        ({"secrets": "whsec_" + "A" * 43 + "="}, "401: no signature matches"),
        ({"allow_from": ["192.0.2.0/24"]}, "403"),
        ({"path": "/elsewhere"}, "404"),
    ],
)
def test_what_the_other_side_does_not_take_is_told_and_kept(
    tmp_path: Path, east: Node, options: dict[str, Any], why: str
) -> None:
    with node(tmp_path, "west", **options) as west:
        east.publish(1)
        bridge = Bridge(east.db, "orders", west.url.replace("elsewhere", "bridge"), SECRET, name="b", **LOCAL)
        with pytest.raises(BridgeError, match=why):
            bridge.send()
        bridge.close()
        assert west.payloads() == []
        assert east.db.stream("orders").get_offset("b") == 0


def test_a_copy_of_a_node_is_noticed_before_its_events_are_taken_for_known(tmp_path: Path, east: Node) -> None:
    with brant.open(tmp_path / "copy.db") as copy:
        name_node(copy, node_name(east.db))
        copy.stream("orders").publish(1)
        bridge = Bridge(copy, "orders", east.url, SECRET, name="b", **LOCAL)
        with pytest.raises(BridgeError, match="so rename one node"):
            bridge.send()
        renamed = Bridge(copy, "orders", east.url, SECRET, name="b", node="copy", **LOCAL)
        assert renamed.send() == 1
        bridge.close()
        renamed.close()
    assert east.payloads() == [1]


def test_events_at_offsets_that_a_restored_node_uses_again_are_new_ones(tmp_path: Path, west: Node) -> None:
    with node(tmp_path, "east") as east:
        east.publish("before", "lost with the disk")
        backup = list(east.db.dump())
        east.send_to(west)
    with brant.open(tmp_path / "restored.db") as restored:
        restored.load(line for line in backup)
        with restored.transaction() as tx:
            tx.execute("DELETE FROM _honker_stream WHERE payload = '\"lost with the disk\"'")
            tx.execute("UPDATE sqlite_sequence SET seq = seq - 1 WHERE name = '_honker_stream'")
        assert node_name(restored) == "east"
        restored.stream("orders").publish("new, at the same offset")
        bridge = Bridge(restored, "orders", west.url, SECRET, name="again", **LOCAL)
        assert bridge.send() == 2
        bridge.close()
    assert west.payloads() == ["before", "lost with the disk", "new, at the same offset"]


def test_a_node_that_was_dumped_and_loaded_still_knows_what_came(tmp_path: Path, east: Node, west: Node) -> None:
    east.publish(1, 2)
    east.send_to(west)
    with brant.open(tmp_path / "loaded.db") as loaded:
        loaded.load(west.db.dump())
        assert node_name(loaded) == "west"
        assert origins(loaded, 0, 10) == origins(west.db, 0, 10)


def test_pruning_waits_for_the_bridge(east: Node, west: Node) -> None:
    bridge = east.bridge_to(west)
    east.publish(1, 2)
    assert east.db.stream("orders").prune(keep=0) == 0
    bridge.send()
    bridge.close()
    assert east.db.stream("orders").prune(keep=0) == 2


def test_an_event_that_was_pruned_over_there_is_not_published_again(east: Node, west: Node) -> None:
    east.publish(1, 2)
    east.send_to(west)
    assert west.db.stream("orders").prune(keep=0) == 2
    assert east.send_to(west, name="again", batch=1) == 2
    assert west.payloads() == []


def test_only_events_of_long_ago_that_were_pruned_are_forgotten(east: Node, west: Node) -> None:
    east.publish(*range(10))
    east.publish("kept", topic="news")
    east.send_to(west, ["orders", "news"])  # type: ignore[arg-type]
    assert forget_bridged(west.db, 0) == 0, "they are in the stream"
    assert west.db.stream("orders").prune(keep=4) == 6
    assert forget_bridged(west.db, 3600) == 0, "they are young"
    assert forget_bridged(west.db, 0) == 6
    assert len(origins(west.db, 0, 1000)) == 5
    east.send_to(west, name="again", batch=3)
    assert west.payloads() == [6, 7, 8, 9, 0, 1, 2, 3, 4, 5], "those that were forgotten are new ones"


def test_a_request_is_handled_when_it_is_answered_and_needs_no_worker(east: Node, west: Node) -> None:
    east.publish(1)
    east.send_to(west)
    (event,) = west.inbox.list_events()
    assert (event.status, event.event_type) == ("handled", "brant.events")
    assert [attempt.outcome for attempt in west.inbox.list_attempts()] == ["handled"]
    assert west.db.queue(QUEUE).stats().pending == 0


def test_a_request_that_is_replayed_publishes_nothing_twice(east: Node, west: Node) -> None:
    east.publish(1)
    east.send_to(west)
    (event,) = west.inbox.list_events()
    west.inbox.replay(event.id)
    drain_tasks(west.db, QUEUE)
    assert west.inbox.get_event(event.id).status == "handled"
    assert west.payloads() == [1]


def test_a_bridge_runs_on_and_each_commit_goes_out(east: Node, west: Node) -> None:
    async def test() -> None:
        running = asyncio.create_task(east.bridge_to(west).run_async())
        for number in range(5):
            east.publish(number)
            await until(west.db, lambda: west.payloads() == list(range(number + 1)))  # noqa: B023
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(test())


def _until_troubled(db: brant.Database, bridge: Bridge, troubled: threading.Event, mend: Callable[[], None]) -> None:
    """Run the bridge until something went wrong, mend it, and see that all has been sent then."""

    async def test() -> None:
        running = asyncio.create_task(bridge.run_async())
        assert await asyncio.to_thread(troubled.wait, PATIENCE_S)
        await asyncio.to_thread(mend)
        await until(db, lambda: running.done() or all(each.lag == 0 for each in db.stream("orders").consumers()))
        bridge.stop()
        await running

    run(test())


@pytest.mark.both_backends
def test_an_offset_that_can_not_be_saved_does_not_end_a_bridge(db: brant.Database, west: Node) -> None:
    troubles: list[Trouble] = []
    troubled = threading.Event()

    def note(trouble: Trouble) -> None:
        troubles.append(trouble)
        troubled.set()

    db.stream("orders").publish_many([1, 2])
    bridge = Bridge(db, "orders", west.url, SECRET, name="b", on_trouble=note, **LOCAL)
    with ExitStack() as refusal:
        refusal.enter_context(refusing(db, "BEFORE UPDATE", "_honker_stream_consumers", "no room"))
        _until_troubled(db, bridge, troubled, refusal.close)
    assert [(trouble.reason, trouble.permanent) for trouble in troubles] == [("no room", False)]
    assert west.payloads() == [1, 2]


def test_a_connection_that_is_lost_while_a_bridge_looks_for_more_does_not_end_it(
    east: Node, west: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubled = threading.Event()
    head = brant.Stream.head

    def lost_once(stream: brant.Stream) -> int:
        if not troubled.is_set():
            raise StorageError("the connection was lost")
        return head(stream)

    monkeypatch.setattr(brant.Stream, "head", lost_once)
    east.publish(1)
    bridge = east.bridge_to(west, on_trouble=lambda _: troubled.set())
    _until_troubled(east.db, bridge, troubled, lambda: east.publish(2))
    assert west.payloads() == [1, 2]


def test_a_file_that_was_replaced_ends_a_bridge(tmp_path: Path, east: Node, west: Node) -> None:
    running = in_thread(east.bridge_to(west).run)
    east.publish(1)
    wait_for(west.db, 1)
    (tmp_path / "east.db").rename(tmp_path / "moved.db")
    with pytest.raises(DatabaseReplaced):
        running.result(PATIENCE_S)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"topics": []}, "needs a topic"),
        ({"topics": "a\nb"}, "topic"),
        ({"to": "http://example.com/"}, "plain http"),
        ({"to": lambda payload: payload}, "one URL"),
        ({"secret": "env:BRANT_TEST_NOT_SET"}, "BRANT_TEST_NOT_SET is not set"),
        ({"node": "a node"}, "the name of a node"),
        ({"name": ""}, "name of a bridge"),
        ({"batch": 0}, "batch"),
    ],
)
def test_a_bridge_that_can_not_work_is_refused(db: brant.Database, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        Bridge(db, **{"topics": "orders", "to": "https://example.com/", "secret": SECRET, **changes})


def test_an_envelope_that_is_not_complete_is_refused_and_nothing_of_it_published(west: Node) -> None:
    whole = {"offset": 1, "key": None, "payload": 1, "created_at": 1.0}
    good: dict[str, Any] = {"type": "brant.events", "node": "east", "topic": "orders", "events": [whole]}
    provider = west.inbox.endpoints["bridge"].settings.provider
    assert provider is not None
    bad: list[Any] = [
        [],
        good | {"type": "other"},
        good | {"node": "a node"},
        good | {"node": None},
        good | {"topic": ""},
        good | {"topic": 7},
        good | {"events": []},
        good | {"events": [whole, {}]},
        *(
            good | {"events": [whole, whole | change]}
            for change in ({"offset": 0}, {"offset": True}, {"offset": 2**63})
        ),
        *(good | {"events": [whole, whole | change]} for change in ({"key": 1}, {"key": "\ud800"}, {"origin": ""})),
        good | {"events": [{name: value for name, value in whole.items() if name != "payload"}]},
        good | {"events": [whole | {"created_at": "then"}]},
    ]
    for document in bad:
        request = provider.sign(json.dumps(document).encode(), SECRET, west.db.clock.now())
        assert west.inbox.receive("bridge", request.body, request.headers).status_code == 401
    huge = json.dumps(good).replace('"payload": 1', '"payload": 1e999').encode()
    request = provider.sign(huge, SECRET, west.db.clock.now())
    assert west.inbox.receive("bridge", request.body, request.headers).status_code == 401
    assert west.payloads() == []
