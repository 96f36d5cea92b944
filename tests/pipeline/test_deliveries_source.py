"""Deliveries and attempts as streams, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.pipeline import PipelineError
from brant.pipeline.tables import TABLES
from tests.pipeline.hooks import RETRY_SOON, Receiver
from tests.pipeline.reading import Follower, rows


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path / "app.db")
    yield made
    made.close()


def ids(found: list[dict[str, object]]) -> list[object]:
    return [row["id"] for row in found]


def test_a_stream_waits_for_an_inbox_and_takes_each_delivery_once(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    brant.open(path).close()
    follower = Follower(path, table="deliveries", maxOffsetsPerTrigger=2)
    assert (follower.next(), follower.position) == ([], {})
    hooks = Receiver(path)
    shop = hooks.endpoint()
    for number in range(3):
        hooks.send(shop, str(number))
    assert [ids(follower.next()) for _ in range(3)] == [[1, 2], [3], []]
    hooks.close()


def test_ids_grow_in_the_order_of_the_commits_and_a_rollback_leaves_no_gap(hooks: Receiver) -> None:
    shop = hooks.endpoint()
    with pytest.raises(ConnectionError), hooks.db.transaction() as tx:
        shop.ingest(b"rolled back", [("Authorization", "Bearer hush-hush-hush")], tx=tx)
        raise ConnectionError
    follower = Follower(hooks.path, table="deliveries")
    hooks.send(shop, "first")
    assert ids(follower.next()) == [1]


def test_rows_that_retention_took_before_they_were_read_are_an_error_unless_it_is_allowed(hooks: Receiver) -> None:
    shop = hooks.endpoint(max_orphans=1)
    strict, lenient = (Follower(hooks.path, table="deliveries", failOnDataLoss=fail) for fail in ("true", "false"))
    hooks.send(shop, "first")
    assert ids(strict.next()) == ids(lenient.next()) == [1]
    hooks.send(shop, "guess", valid=False)
    hooks.send(shop, "guess again", valid=False)
    with pytest.raises(PipelineError, match=r"1 deliveries were removed before they were read; .*failOnDataLoss=false"):
        strict.next()
    assert ids(lenient.next()) == [3]


def test_endpoints_can_be_chosen_in_pages_and_with_large_bodies(hooks: Receiver) -> None:
    ann, bob, cy = (hooks.endpoint(name, retry=RETRY_SOON) for name in ("ann", "bob", "cy"))
    bodies = [b"a" * 300_000, b"b", b"c", b"d" * 300_000]
    for endpoint, body in zip((ann, bob, cy, ann), bodies, strict=True):
        hooks.send(endpoint, body)
    hooks.failing = {"b"}
    hooks.work()
    for engine in ("adbc", "sqlite3"):
        found = rows(hooks.path, table="deliveries", subscribe="ann,bob", fetchSize=1, engine=engine)
        assert sorted((row["id"], row["body"]) for row in found) == [(1, bodies[0]), (2, bodies[1]), (4, bodies[3])]
        assert [row["id"] for row in rows(hooks.path, table="deliveries", startingOffsets=3, engine=engine)] == [3, 4]
        tried = rows(hooks.path, table="attempts", subscribePattern="b.*", engine=engine)
        assert [(row["event_id"], row["outcome"], row["error"]) for row in tried] == [
            (2, "failed", "ConnectionError: the warehouse is away")
        ]
    follower = Follower(hooks.path, table="attempts", subscribe="ann,cy", maxOffsetsPerTrigger=1)
    assert [ids(follower.next()) for _ in range(4)] == [[1], [3], [4], []]


def test_of_many_files_those_without_an_inbox_are_passed_over(tmp_path: Path) -> None:
    brant.open(tmp_path / "none.db").close()
    some = Receiver(tmp_path / "some.db")
    some.send(some.endpoint(), "first")
    some.send(some.inbox.endpoints["shop"], "x", valid=False)
    for table, count in (("deliveries", 2), ("events", 1), ("attempts", 0), ("rejects", 1)):
        assert len(rows(tmp_path, table=table)) == count, table
    (reject,) = rows(tmp_path, table="rejects")
    assert (reject["tenant"], reject["status"], reject["reason"], reject["count"]) == (
        "some", 401, "the token is not the right one", 1,
    )  # fmt: skip
    some.close()


def test_all_tables_of_the_inbox_may_be_missing() -> None:
    assert {name for name, table in TABLES.items() if table.optional} == {"deliveries", "events", "attempts", "rejects"}
