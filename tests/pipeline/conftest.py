"""One Spark for each test process, and files with events for it to read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import brant
from tests.servers import Server

MASTER, REMOTE = "BRANT_TEST_MASTER", "BRANT_TEST_REMOTE"

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Spark that starts on a busy machine takes its time."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session", autouse=True)
def cache_home(pytestconfig: pytest.Config) -> Iterator[Path]:
    """What is made once for Spark is kept in the checkout, for this run and the next; child processes find it too."""
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("spark").absolute()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", os.fspath(folder))
        yield folder


@pytest.fixture(scope="session")
def spark(cache_home: Path) -> Iterator[SparkSession]:
    """The session as users get it. Tests share it: change no setting of it, and give queries names of their own.

    The environment can name a cluster or a Connect server for it.
    """
    from brant.pipeline import session

    made = session("brant tests", master=os.environ.get(MASTER), remote=os.environ.get(REMOTE))
    yield made
    made.stop()


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    """Of a database on a server, where Brant's tables are there already, and empty."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def make_events(tmp_path: Path) -> Callable[..., Path]:
    """`make_events("a.db", orders=["x", {"n": 1}])` publishes them in order and gives the file's path."""

    def make(name: str = "app.db", **topics: Sequence[object]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with brant.open(path) as db:
            for topic, payloads in topics.items():
                stream = db.stream(topic)
                for payload in payloads:
                    stream.publish(payload)
        return path

    return make


@pytest.fixture
def tenants(make_events: Callable[..., Path], tmp_path: Path) -> Path:
    """A folder of three tenants with 3, 2 and 1 orders."""
    for name, count in (("ann", 3), ("bob", 2), ("cy", 1)):
        make_events(f"tenants/{name}.db", orders=[{"tenant": name, "n": n} for n in range(count)])
    return tmp_path / "tenants"
