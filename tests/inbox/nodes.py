"""Nodes that are bridged: databases with an inbox that a real server serves, in this process or in one of its own."""

from __future__ import annotations

import base64
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

import brant
from brant.inbox import Bridge, receive_bridge
from tests.cli.processes import Running, running
from tests.looping import run, until

SECRET = "whsec_" + base64.b64encode(b"known to both sides of a bridge.").decode()
LOCAL: dict[str, Any] = {"allow": "127.0.0.0/8", "allow_http": True}
TO_LOCAL = ("--allow", "127.0.0.0/8", "--allow-http")


@dataclass
class Node:
    """A database, and where others send to it."""

    name: str
    db: brant.Database
    inbox: brant.Inbox
    url: str

    def bridge_to(self, other: Node, topics: str = "orders", **options: Any) -> Bridge:
        return Bridge(self.db, topics, other.url, SECRET, **{**LOCAL, "name": f"to-{other.name}", **options})

    def send_to(self, other: Node, topics: str = "orders", **options: Any) -> int:
        """Send what is there; tells how many events."""
        bridge = self.bridge_to(other, topics, **options)
        try:
            return bridge.send()
        finally:
            bridge.close()

    def publish(self, *payloads: object, key: str | None = None, topic: str = "orders") -> None:
        self.db.stream(topic).publish_many(payloads, [key] * len(payloads))

    def payloads(self, topic: str = "orders") -> list[Any]:
        return [event.payload for event in self.db.stream(topic).read(limit=-1)]


@contextmanager
def node(folder: Path, name: str, **options: Any) -> Iterator[Node]:
    """In a file of its own; served by uvicorn in a thread of this process."""
    with brant.open(folder / f"{name}.db") as db, node_of(db, name, **options) as made:
        yield made


@contextmanager
def node_of(db: brant.Database, name: str, **options: Any) -> Iterator[Node]:
    with brant.Inbox(db) as inbox:
        endpoint = receive_bridge(inbox, options.pop("secrets", SECRET), node=name, **options)
        with served(inbox) as url:
            yield Node(name, db, inbox, f"{url}{endpoint.path}")


@contextmanager
def served(inbox: brant.Inbox) -> Iterator[str]:
    config = uvicorn.Config(inbox.asgi(), http="h11", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def serving_node(folder: Path, port: int = 0, *words: object, **environment: str) -> Iterator[tuple[str, Running]]:
    """`brant inbox serve --bridge` on the folder's own database; gives where to send to."""
    serve = ("inbox", "serve", "--bridge", "BRIDGE_SECRET", "--node", folder.name, "--port", port, *words)
    with running(folder, *serve, BRIDGE_SECRET=SECRET, **environment) as command:
        banner = command.error_line()
        assert "url=http://" in banner, banner + command.stderr.read()
        yield f"{banner.partition('url=')[2].split()[0]}/bridge", command


@contextmanager
def bridging(folder: Path, to: str, *words: object) -> Iterator[Running]:
    """`brant bridge` of the folder's own database, until the end of the block."""
    command = ("bridge", *(words or ("orders",)), "--to", to, "--secret-env", "BRIDGE_SECRET", *TO_LOCAL)
    with running(folder, *command, BRIDGE_SECRET=SECRET) as started:
        banner = started.error_line()
        assert "brant bridge: pid=" in banner, banner + started.stderr.read()
        yield started


def wait_for(db: brant.Database, count: int, topic: str = "orders") -> None:
    """Until so many events are in the stream."""

    async def test() -> None:
        await until(db, lambda: len(db.stream(topic).read(limit=-1)) >= count)

    run(test())


def port_of(url: str) -> int:
    found = re.search(r":(\d+)/", url)
    assert found is not None
    return int(found[1])
