"""Fixtures: a real database for each test, with real time or with time that the test moves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock
from tests.servers import Server, running_server

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell: the commands under test would inherit that and be deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # by nohup: likewise


# A Spark that lives for seconds spends more on compiling its code well than it gains by that.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

BOTH_BACKENDS = [pytest.param("sqlite", id=pytest.HIDDEN_PARAM), "postgres"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked `both_backends` run once more, on Postgres."""
    if "database_kind" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_backends"):
        metafunc.parametrize("database_kind", BOTH_BACKENDS, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Not those that are about files only, each of which says why it is."""
    for item in items:
        for mark in item.iter_markers("files_only"):
            if not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: files_only needs a reason")
    needless = [item for item in items if _is_on_postgres(item) and item.get_closest_marker("files_only")]
    if needless:
        config.hook.pytest_deselected(items=needless)
        items[:] = [item for item in items if item not in set(needless)]


def _is_on_postgres(item: pytest.Item) -> bool:
    chosen = getattr(item, "callspec", None)
    return chosen is not None and chosen.params.get("database_kind") == "postgres"


@pytest.fixture
def database_kind(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def path(request: pytest.FixtureRequest, database_kind: str) -> Iterator[Path]:
    """Where the database of the test is: a file, or (for `both_backends`) an address, which `brant.open` takes too."""
    if database_kind == "sqlite":
        yield request.getfixturevalue("tmp_path") / "app.db"
        return
    server: Server = request.getfixturevalue("postgres_server")
    with server.database() as address:
        yield address  # type: ignore[misc]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A Postgres of this process of tests."""
    with running_server() as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def db(path: Path) -> Iterator[brant.Database]:
    """A database in real time."""
    with brant.open(path) as database:
        yield database


@pytest.fixture
def timed(path: Path, clock: FakeClock) -> Iterator[brant.Database]:
    """A database whose time is `clock`."""
    with brant.open(path, clock=clock) as database:
        yield database
