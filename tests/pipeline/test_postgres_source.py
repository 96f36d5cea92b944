"""The source on Postgres: read in parallel, and never past a transaction that commits late."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

import brant
from brant.pipeline.arrow import read_extent
from tests.pipeline.reading import Follower, batch_reader, rows, slices
from tests.waiting import PATIENCE_S, in_thread

WRITERS, EACH = 4, 50


@contextmanager
def open_transaction(address: str) -> Iterator[psycopg.Connection]:
    """One of an application's own, which Brant takes part in; committed at the end of the block."""
    connection = psycopg.connect(address)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


def numbers(found: list[dict[str, Any]]) -> list[Any]:
    return [json.loads(str(row["payload"])) for row in found]


def test_ranges_of_offsets_are_read_side_by_side_and_each_event_once(address: str) -> None:
    with brant.open(address) as db:
        db.stream("a").publish_many(range(500))
        db.stream("b").publish_many(range(500, 1000))
    assert len(slices(address, minPartitions=4)) == 4
    assert sorted(numbers(rows(address, minPartitions=4, fetchSize=7))) == list(range(1000))
    assert numbers(rows(address, subscribe="b", endingOffsets=503)) == [500, 501]
    assert [row["offset"] for row in rows(address, subscribePattern="a|b", columns="offset")] == list(range(1, 1001))


def test_texts_arrive_as_they_are(address: str) -> None:
    texts = ["", '"quoted"', "a,b\tc\\n\nd", "é \U0001f426", "\\N", "x" * 300_000]
    with brant.open(address) as db:
        db.stream("odd").publish_many(texts, keys=[None, "", "k", ",", "\\N", "é"])
    found = rows(address)
    assert numbers(found) == texts
    assert [row["key"] for row in found] == [None, "", "k", ",", "\\N", "é"]
    assert {row["tenant"] for row in rows(address, tenantColumn="tenant")} == {
        psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    }


def test_payloads_larger_than_a_page_come_one_by_one(address: str) -> None:
    with brant.open(address) as db:
        db.stream("big").publish_many(["x" * 5_000 for _ in range(6)])
    reader = batch_reader(address)
    (part,) = slices(address)
    request = replace(reader.request(), batch_bytes=12_000)
    sizes = [batch.num_rows for extent in part.extents for batch in read_extent(request, extent)]
    assert sum(sizes) == 6
    assert max(sizes) <= 3


def test_another_schema_is_another_source(address: str) -> None:
    with brant.open(address, schema="Other") as db:
        db.stream("a").publish("there")
    other = f"{address}&brant_schema=Other"
    assert (rows(address), numbers(rows(other))) == ([], ["there"])
    assert next(iter(Follower(other).position)).endswith(".Other")


def test_what_is_no_lifecycle_event_is_a_row_of_nulls(address: str) -> None:
    with psycopg.connect(address) as connection:
        for payload in ("{", "3", '{"event": "odd", "at": "x", "job_id": 1e400, "queue": 7}'):
            connection.execute(
                "INSERT INTO brant._honker_stream (topic, payload) VALUES ('_brant:jobs', %s)", [payload]
            )
    assert [(row["event"], row["queue"], row["job_id"]) for row in rows(address, table="jobs")] == [
        (None, None, None),
        (None, None, None),
        ("odd", "7", None),
    ]


def test_times_that_no_timestamp_can_hold_do_not_stop_the_read(address: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute(
            "INSERT INTO brant._honker_stream (topic, payload, created_at) VALUES ('t', '1', 'infinity')"
        )
        connection.execute("INSERT INTO brant._honker_live (queue, payload, run_at) VALUES ('q', '1', 'infinity')")
    assert [row["created_at"] for row in rows(address)] == [None]
    assert [row["run_at"] for row in rows(address, table="queue")] == [None]


# Commits in another order


def test_a_stream_waits_for_a_transaction_that_took_its_offset_earlier(address: str) -> None:
    with brant.open(address) as db:
        db.stream("t").publish("before")
        follower = Follower(address)
        with open_transaction(address) as late:
            db.stream("t").publish("late", tx=late)
            db.stream("t").publish("after")
            assert numbers(follower.next()) == ["before"]
            assert numbers(rows(address)) == ["before"], "a batch read ends there too"
        assert numbers(follower.next()) == ["late", "after"]
        assert follower.next() == []


def test_a_transaction_of_another_topic_holds_up_only_who_reads_all_topics(address: str) -> None:
    with brant.open(address) as db, open_transaction(address) as late:
        db.stream("other").publish("late", tx=late)
        db.stream("t").publish("mine")
        assert numbers(rows(address, subscribe="t")) == ["mine"]
        assert rows(address) == []


def test_transactions_that_publish_nothing_hold_up_nobody(address: str) -> None:
    with brant.open(address) as db, open_transaction(address) as busy:
        db.queue("q").enqueue(1, tx=busy)
        db.stream("t").publish("mine")
        assert numbers(rows(address)) == ["mine"]


def test_notifications_wait_too(address: str) -> None:
    with brant.open(address) as db:
        follower = Follower(address, table="notifications")
        with db.transaction() as late:
            late.notify("c", "late")
            in_thread(_notify, address, "after").result(PATIENCE_S)
            assert follower.next() == []
        assert numbers(follower.next()) == ["late", "after"]


def _notify(address: str, payload: str) -> None:
    with brant.open(address) as db, db.transaction() as tx:
        tx.notify("c", payload)


def test_numbers_of_rolled_back_transactions_are_no_loss(address: str) -> None:
    with brant.open(address) as db:
        stream = db.stream("t")
        last = stream.publish(1)
        follower = Follower(address)
        follower.next()
        stream.prune(up_to=last)
        with pytest.raises(InterruptedError), db.transaction() as tx:
            stream.publish_many(range(3), tx=tx)
            raise InterruptedError
        stream.publish(2)
        assert numbers(follower.next()) == [2]


def test_a_database_that_was_put_back_is_told(address: str) -> None:
    with brant.open(address) as db:
        db.stream("t").publish_many(range(5))
    follower = Follower(address)
    follower.next()
    with psycopg.connect(address) as connection:
        connection.execute('DELETE FROM brant._honker_stream WHERE "offset" > 2')
        connection.execute("SELECT setval('brant._brant_stream_offsets', 2)")
    with pytest.raises(brant.pipeline.PipelineError, match="ends at 2 but was read up to 5: is it an older copy"):
        follower.next()


@pytest.mark.guarantee("G11")
@pytest.mark.parametrize("table", ["stream", "deliveries"])
def test_nothing_is_lost_or_repeated_beside_writers_of_mixed_transactions(address: str, table: str) -> None:
    if table == "deliveries":
        with brant.open(address) as db:
            brant.Inbox(db).endpoint("hooks", path="/hooks", provider="bearer", secrets=lambda: "hush")
    write = publish_at_random if table == "stream" else _receive_at_random
    follower = Follower(address, table=table)
    writers = [in_thread(write, address, number) for number in range(WRITERS)]
    column = "payload" if table == "stream" else "method"
    seen: list[str] = []
    while not all(writer.done() for writer in writers):
        seen += [row[column] for row in follower.next()]
    committed = [each for writer in writers for each in writer.result(PATIENCE_S)]
    while more := follower.next():
        seen += [row[column] for row in more]
    assert Counter(seen) == Counter(committed)


def publish_at_random(address: str, number: int) -> list[str]:
    return _write_at_random(address, number, "INSERT INTO brant._honker_stream (topic, payload) VALUES (%s, %s)")


def _receive_at_random(address: str, number: int) -> list[str]:
    return _write_at_random(
        address,
        number,
        "INSERT INTO brant.knocker_deliveries (endpoint_id, headers_json, query_json, body_blob, event_type, method) "
        "VALUES ((SELECT id FROM brant.knocker_endpoints), '', '', '', %s, %s)",
    )


def _write_at_random(address: str, number: int, statement: str) -> list[str]:
    """Transactions of one to some rows, short and long, one in five rolled back; gives what was committed."""
    chance = random.Random(number)
    committed: list[str] = []
    with psycopg.connect(address) as connection:
        for turn in range(EACH):
            mine = [f'"{number}-{turn}-{row}"' for row in range(chance.choice([1, 1, 3, 10]))]
            for each in mine:
                connection.execute(statement, [f"topic{chance.randrange(3)}", each])
                connection.execute("SELECT pg_sleep(%s)", [chance.choice([0, 0, 0, 0.01])])
            if chance.random() < 0.2:
                connection.rollback()
            else:
                connection.commit()
                committed += mine
    return committed
