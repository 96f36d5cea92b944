"""The command that bridges streams: what it sends, what it says, and how it ends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import Run
from tests.inbox.nodes import SECRET, TO_LOCAL, bridging, port_of, serving_node, wait_for


@pytest.fixture
def west(tmp_path: Path) -> Path:
    folder = tmp_path / "west"
    folder.mkdir()
    return folder


def once(run_command: Run, to: str, *words: object, **environment: str) -> tuple[int, str]:
    ended = run_command(
        "bridge", "orders", "--to", to, "--secret-env", "BRIDGE_SECRET", "--once", *words, **environment
    )
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def test_once_sends_what_is_there_and_tells_by_its_exit_code(
    west: Path, brant_command: Run, store: brant.Database
) -> None:
    with serving_node(west) as (url, server), brant.open(west / ".brant.db") as arrived:
        store.stream("orders").publish_many([1, 2, 3])
        assert once(brant_command, url, *TO_LOCAL, BRIDGE_SECRET=SECRET) == (0, "Sent 3 events\n")
        assert once(brant_command, url, *TO_LOCAL, BRIDGE_SECRET=SECRET) == (2, "Sent 0 events\n")
        assert [event.payload for event in arrived.stream("orders").read()] == [1, 2, 3]
        assert server.stopped_by(signal.SIGTERM) == 0
        store.stream("orders").publish(4)
        code, told = once(brant_command, url, *TO_LOCAL, BRIDGE_SECRET=SECRET)
        assert code == 1
        assert "can't be reached: ConnectionRefusedError" in told
        assert "nothing is lost" in told


@pytest.mark.parametrize(
    ("to", "words", "environment", "why"),
    [
        ("https://example.com/", (), {}, "BRIDGE_SECRET is not set"),
        ("https://example.com/", (), {"BRIDGE_SECRET": "no base64!"}, "the secret must be base64"),
        ("http://example.com/", (), {"BRIDGE_SECRET": SECRET}, "--allow-http"),
        ("https://u:p@example.com/", (), {"BRIDGE_SECRET": SECRET}, "no user and password"),
        ("nonsense", (), {"BRIDGE_SECRET": SECRET}, "must begin with https://"),
        ("https://example.com/", ("--allow", "everywhere"), {"BRIDGE_SECRET": SECRET}, "allow takes addresses"),
        ("https://example.com/", ("--node", "a b"), {"BRIDGE_SECRET": SECRET}, "the name of a node"),
        ("https://example.com/", ("--ca", "missing.pem"), {"BRIDGE_SECRET": SECRET}, "--ca missing.pem"),
        ("https://127.0.0.1/", (), {"BRIDGE_SECRET": SECRET}, "it has to be allowed: allow, --allow"),
    ],
)
def test_what_can_not_work_is_one_line_that_says_why(
    brant_command: Run, store: brant.Database, to: str, words: tuple[str, ...], environment: dict[str, str], why: str
) -> None:
    store.stream("orders").publish(1)
    code, told = once(brant_command, to, *words, **environment)
    assert code == 1
    assert why in told
    assert told.count("\n") == 1
    assert SECRET not in told


def test_a_bridge_waits_for_the_other_side_says_so_and_ends_when_told(
    west: Path, tmp_path: Path, store: brant.Database
) -> None:
    with serving_node(west) as (url, server):
        assert server.stopped_by(signal.SIGTERM) == 0
    with brant.open(west / ".brant.db") as arrived, bridging(tmp_path, url) as bridge:
        store.stream("orders").publish("waits")
        waiting = bridge.error_line()
        assert "waiting topic=orders retry_in=1 error=" in waiting
        assert "ConnectionRefusedError" in waiting
        with serving_node(west, port_of(url)):
            wait_for(arrived, 1)
        assert bridge.stopped_by(signal.SIGTERM) == 0
        assert "brant bridge: stopped cleanly" in bridge.stderr.read()


def test_only_the_topics_that_were_named_are_taken(west: Path, brant_command: Run, store: brant.Database) -> None:
    store.stream("orders").publish(1)
    with serving_node(west, 0, "--topic", "news") as (url, _):
        code, told = once(brant_command, url, *TO_LOCAL, BRIDGE_SECRET=SECRET)
    assert code == 1
    assert "answered 401: the topic is none of those that are taken" in told


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name the module with the endpoints, as in app:inbox, or give --bridge"),
        (("--bridge", "BRANT_TEST_NOT_SET"), "BRANT_TEST_NOT_SET is not set"),
        (("--topic", "orders", "app:inbox"), "--topic and --node belong to --bridge"),
    ],
)
def test_a_server_that_has_nothing_to_receive_is_refused(brant_command: Run, words: tuple[str, ...], why: str) -> None:
    ended = brant_command("inbox", "serve", *words)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert why in ended.stderr
    assert ended.stderr.count("\n") == 1
