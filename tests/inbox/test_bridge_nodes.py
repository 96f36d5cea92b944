"""Bridges as users run them: two shells, real HTTP, real crashes."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.inbox import Bridge
from tests.cli.processes import Running
from tests.inbox.nodes import LOCAL, SECRET, bridging, port_of, serving_node, wait_for
from tests.looping import run, until
from tests.waiting import PATIENCE_S

KILLS = int(os.environ.get("BRANT_INBOX_KILLS", "6"))
KEYS = 7


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "east", tmp_path / "west"
    for folder in made:
        folder.mkdir()
    return made


def opened(folder: Path) -> brant.Database:
    return brant.open(folder / ".brant.db")


def by_key(db: brant.Database, topic: str = "orders") -> dict[str | None, list[Any]]:
    found: dict[str | None, list[Any]] = defaultdict(list)
    for event in db.stream(topic).read(limit=-1):
        found[event.key].append(event.payload)
    return dict(found)


def kill(command: Running) -> None:
    command.process.kill()
    command.process.wait(PATIENCE_S)


@pytest.mark.guarantee("G28")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whichever_side_is_killed_every_event_arrives_once_and_in_order(folders: tuple[Path, Path]) -> None:
    east, west = folders
    numbers = itertools.count()
    stop = threading.Event()

    def publish() -> None:
        with opened(east) as db:
            for number in numbers:
                if stop.wait(0.002):
                    return
                db.stream("orders").publish({"number": number}, key=f"k{number % KEYS}")

    producer = threading.Thread(target=publish, daemon=True)
    with opened(west) as arrived, ExitStack() as servers, ExitStack() as bridges:
        url, server = servers.enter_context(serving_node(west))
        port = port_of(url)
        bridge = bridges.enter_context(bridging(east, url, "orders", "--batch", 5))
        producer.start()
        for turn in range(KILLS):
            wait_for(arrived, arrived.stream("orders").head() + 30)
            if turn % 2:
                kill(bridge)
                bridge = bridges.enter_context(bridging(east, url, "orders", "--batch", 5 + turn))
            else:
                kill(server)
                _, server = servers.enter_context(serving_node(west, port))
        stop.set()
        producer.join()
        with opened(east) as db:
            wait_for(arrived, len(db.stream("orders").read(limit=-1)))
            assert by_key(arrived) == by_key(db)
            assert len(by_key(db)) == KEYS


@pytest.mark.guarantee("G28")
def test_both_directions_at_once_come_to_rest(folders: tuple[Path, Path]) -> None:
    east, west = folders
    with (
        opened(east) as one,
        opened(west) as other,
        serving_node(east) as (to_east, _),
        serving_node(west) as (to_west, _),
    ):
        one.stream("orders").publish_many([f"east {n}" for n in range(200)], [f"e{n % 3}" for n in range(200)])
        with bridging(east, to_west), bridging(west, to_east):
            other.stream("orders").publish_many([f"west {n}" for n in range(200)], [f"w{n % 3}" for n in range(200)])
            wait_for(one, 400)
            wait_for(other, 400)

            async def at_rest() -> None:
                for db in (one, other):
                    await until(db, lambda db=db: all(each.lag == 0 for each in db.stream("orders").consumers()))  # type: ignore[misc]

            run(at_rest())
        assert by_key(one) == by_key(other)
        assert [len(db.stream("orders").read(limit=-1)) for db in (one, other)] == [400, 400]
        for db in (one, other):
            with brant.Inbox(db) as inbox:
                assert all(event.status == "handled" for event in inbox.list_events())


@pytest.mark.parametrize("point", ["inbox.before_commit", "inbox.after_commit"])
def test_a_receiver_that_dies_around_its_commit_has_all_of_a_request_or_nothing(
    folders: tuple[Path, Path], point: str
) -> None:
    east, west = folders
    with opened(east) as db:
        db.stream("orders").publish_many(range(10))
        with serving_node(west, BRANT_FAILPOINT=f"{point}:kill") as (url, server):
            bridge = Bridge(db, "orders", url, SECRET, name="b", **LOCAL)
            with pytest.raises(brant.BrantError):
                bridge.send()
            bridge.close()
            assert server.exit_code() == -signal.SIGKILL
        with opened(west) as arrived:
            assert len(arrived.stream("orders").read()) == (0 if point == "inbox.before_commit" else 10)
            with serving_node(west) as (url, _):
                again = Bridge(db, "orders", url, SECRET, name="b", **LOCAL)
                assert again.send() == 10
                again.close()
            assert [event.payload for event in arrived.stream("orders").read()] == list(range(10))
