"""A real standby, which has no transactions of its own and knows nothing of the locks of those it follows."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

import brant
from brant.errors import BrantError
from tests.servers import from_wheel, stop

pytestmark = pytest.mark.skipif("BRANT_TEST_POSTGRES" in os.environ, reason="needs a server of its own")


@pytest.fixture(scope="module")
def standby() -> Iterator[str]:
    """The address of one, made as from a backup: a copy of a server that was stopped."""
    with ExitStack() as stack:
        data = Path(tempfile.mkdtemp(prefix="brant-primary-"))
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        primary = from_wheel(data)
        primary.ensure_pgdata_inited()
        primary.start()
        with brant.open(primary.get_uri()) as db:
            db.stream("orders").publish_many([1, 2])
            db.notify("news", 1)
            db.queue("q").enqueue(1)
        copy = data.with_name(f"{data.name}-copy")
        owner = data.stat()
        stop(primary)
        shutil.copytree(data, copy)
        (copy / "standby.signal").touch()
        for path in (copy, *copy.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        copy.chmod(0o700)
        follower = from_wheel(copy)
        follower.start()
        stack.callback(follower.cleanup)
        yield follower.get_uri()


@pytest.mark.parametrize(
    "call", ["honker_stream_read_since('orders', 0, 10)", "_brant_read_notifications('news', 0, 10)"]
)
def test_what_could_pass_over_late_events_is_refused(standby: str, call: str) -> None:
    with psycopg.connect(standby) as connection:
        assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
        with pytest.raises(psycopg.Error, match="standby"):
            connection.execute(f"SELECT brant.{call}".encode())


def test_tables_can_be_read_there(standby: str) -> None:
    with psycopg.connect(standby) as connection:
        assert connection.execute("SELECT count(*) FROM brant._honker_stream").fetchone() == (2,)


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.queue("q").enqueue(2),
        lambda db: db.stream("orders").read(),
        lambda db: db.queue("q").claim_one("w"),
    ],
    ids=["enqueue", "read", "claim"],
)
def test_a_database_opened_there_says_what_it_is(standby: str, use: Callable[[brant.Database], object]) -> None:
    with pytest.raises(BrantError, match=r"standby|read-only"), brant.open(standby) as db:
        use(db)
