"""The sink on Postgres: rows and mark in one transaction, whoever else writes as the same query."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import psycopg
import pytest

import brant
from tests.pipeline.driving import IS_AT_LENGTH
from tests.pipeline.sinking import QUERY, FakeCheckpoint, append, payloads, plan_stream, run_batch, run_task
from tests.pipeline.test_sink_kills import Application, Copier
from tests.waiting import PATIENCE_S, in_thread

MARKS = "SELECT batch, rows FROM brant._brant_spark_commits"


@pytest.fixture
def checkpoint(tmp_path: Path) -> FakeCheckpoint:
    made = FakeCheckpoint(tmp_path / "checkpoint")
    for batch in range(3):
        made.plan(batch)
    return made


@pytest.mark.guarantee("G25")
@pytest.mark.parametrize("batch", [0, 1], ids=["first", "later"])
def test_of_two_committers_of_one_batch_the_second_waits_and_writes_nothing(
    address: str, checkpoint: FakeCheckpoint, batch: int
) -> None:
    run_batch(address, checkpoint, 0, ["0"]) if batch else append(
        "value string", {"value": []}, path=address, topic="t"
    )
    writer = plan_stream("value string", path=address, topic="t", checkpointLocation=checkpoint.folder)
    part = run_task(writer, "value string", {"value": ["new"]}, QUERY)
    with psycopg.connect(address) as other:
        other.execute("LOCK TABLE brant._honker_stream IN SHARE MODE")  # both are held up before they write
        committers = [in_thread(writer.commit, [part], batch) for _ in range(2)]
    for committer in committers:
        committer.result(PATIENCE_S)
    assert payloads(address) == ["0"] * batch + ["new"]


def test_the_marks_are_in_the_schema_of_brants_tables(address: str, checkpoint: FakeCheckpoint) -> None:
    run_batch(address, checkpoint, 0, ["a", "b"])
    with psycopg.connect(address) as connection:
        assert connection.execute(MARKS).fetchall() == [(0, 2)]


def test_who_may_not_make_tables_can_write_once_they_are_there(address: str) -> None:
    options = {"topic": "t", "txnAppId": "app"}
    append("value string", {"value": ["a"]}, path=address, txnVersion=0, **options)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS brant_writer")
        connection.execute("CREATE ROLE brant_writer LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA brant TO brant_writer")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA brant TO brant_writer")
        connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA brant TO brant_writer")
    append(
        "value string",
        {"value": ["b"]},
        path=address.replace("//postgres:@", "//brant_writer@"),
        txnVersion=1,
        **options,
    )
    assert payloads(address) == ["a", "b"]


def test_jobs_of_a_batch_are_there_with_their_options(address: str) -> None:
    append("payload string, priority int", {"payload": ["1", "2"], "priority": [0, 5]}, path=address, queue="mail")
    with brant.open(address) as db:
        assert [job.payload for job in db.queue("mail").claim_batch("w", 2)] == [2, 1]


class CopierOnServer(Copier):
    """Copies a stream within a database on a server."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self._words = [address, address, str(self.checkpoint)]

    def last_batch(self) -> int:
        with psycopg.connect(self._words[0]) as connection:
            if connection.execute("SELECT to_regclass('brant._brant_spark_commits')").fetchone() == (None,):
                return -1
            (last,) = connection.execute(
                "SELECT coalesce(max(batch), -1) FROM brant._brant_spark_commits"
            ).fetchone() or (-1,)
        return int(last)


@pytest.mark.guarantee("G25")
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("BRANT_DRIVER_KILLS" not in os.environ, reason="takes long; make test-slow runs it")
def test_killed_drivers_lose_no_event_and_write_none_twice_on_a_server(address: str, tmp_path: Path) -> None:
    copier = CopierOnServer(tmp_path, address)
    application = Application(address, address)  # type: ignore[arg-type]
    try:
        if IS_AT_LENGTH:
            copier.die_at("sink.before_commit")
            assert copier.last_batch() == -1
        copier.die_at("sink.after_commit")
        assert (copier.last_batch(), copier.noted_by_spark()) == (0, set())
        if IS_AT_LENGTH:
            for _ in range(int(os.environ["BRANT_DRIVER_KILLS"])):
                copier.die_after(copier.last_batch, 1.5)
    finally:
        application.stop()
    copier.finish()
    with brant.open(address) as db:
        assert Counter(event.payload for event in db.stream("copied").read(limit=-1)) == Counter(
            range(application.published)
        )
        assert db.queue("own").stats().pending == application.enqueued
