"""How the columns of a DataFrame become events and jobs, and which of them are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import brant
from brant.pipeline.errors import PipelineError
from tests.pipeline.sinking import append, payloads, plan_batch, plan_stream, run_task
from tests.waiting import PATIENCE_S, in_thread

NOON = datetime(2026, 5, 31, 12, 0, 0, 250_000, UTC)


def test_a_payload_is_json_text_that_is_kept_as_it_is(path: Path) -> None:
    texts = ['{"n": 1,  "big": 12345678901234567890, "x": 1.10}', '"é"', "null", "[]"]
    append("payload string", {"payload": texts}, path=path, topic="t")

    with brant.open(path) as db:
        assert [event.payload_text for event in db.stream("t").read()] == texts


def test_a_value_is_plain_text_as_brant_write_takes_it(path: Path) -> None:
    append("value string", {"value": ["ship it", '{"n": 1}', "", "zero\0byte"]}, path=path, queue="q")

    with brant.open(path) as db:
        assert db.queue("q").read_many(10) == ["ship it", '{"n": 1}', "", "zero\0byte"]


def test_keys_go_with_their_events(path: Path) -> None:
    append("value string, key string", {"value": ["a", "b", "c"], "key": ["1", None, "x\0y"]}, path=path, topic="t")

    with brant.open(path) as db:
        assert [(event.payload, event.key) for event in db.stream("t").read()] == [
            ("a", "1"),
            ("b", None),
            ("c", "x\0y"),
        ]


def test_a_column_tells_the_topic_and_each_topic_keeps_its_order(path: Path) -> None:
    columns = {"value": ["a1", "b1", "a2", "b2"], "topic": ["a", "b", "a", "b"]}
    append("value string, topic string", columns, path=path)

    assert payloads(path, "a") == ["a1", "a2"]
    assert payloads(path, "b") == ["b1", "b2"]


def test_the_option_goes_before_the_column(path: Path) -> None:
    append("value string, topic string", {"value": ["a"], "topic": ["other"]}, path=path, topic="t")

    assert payloads(path, "t") == ["a"]
    assert payloads(path, "other") == []


def test_rows_of_a_stream_can_be_written_as_they_were_read(path: Path) -> None:
    schema = "offset bigint, topic string, key string, payload string, created_at timestamp, tenant string"
    columns: dict[str, list[Any]] = {
        "offset": [7],
        "topic": ["t"],
        "key": ["k"],
        "payload": ["1"],
        "created_at": [NOON],
        "tenant": ["app"],
    }
    append(schema, columns, path=path)
    append(schema, columns, path=path, queue="q")

    assert payloads(path) == [1]
    with brant.open(path) as db:
        assert db.queue("q").stats().pending == 1


def test_jobs_take_their_options_from_columns_and_keep_their_order(path: Path) -> None:
    schema = "payload string, queue string, priority int, run_at timestamp, max_attempts int, expires_at double"
    columns: dict[str, list[Any]] = {
        "payload": ["1", "2", "3"],
        "queue": ["q", "q", "other"],
        "priority": [5, None, 0],
        "run_at": [NOON, None, None],
        "max_attempts": [9, None, 1],
        "expires_at": [None, 4_000_000_000.5, None],
    }
    append(schema, columns, path=path)

    with brant.open(path) as db:
        first, second, third = db.query("SELECT * FROM _honker_live ORDER BY id")
        assert (first["queue"], first["priority"], first["max_attempts"]) == ("q", 5, 9)
        assert (first["run_at"], first["expires_at"]) == (NOON.timestamp(), None)
        assert (second["priority"], second["max_attempts"], second["expires_at"]) == (0, 3, 4_000_000_000.5)
        assert second["run_at"] <= second["created_at"] + 1
        assert (third["queue"], third["max_attempts"]) == ("other", 1)


def test_jobs_with_different_options_stay_in_line(path: Path) -> None:
    values = [str(n) for n in range(20)]
    columns: dict[str, list[Any]] = {"value": values, "max_attempts": [1 + n % 2 for n in range(20)]}
    append("value string, max_attempts int", columns, path=path, queue="q")

    with brant.open(path) as db:
        assert [job.payload for job in db.queue("q").claim_batch("w", 20)] == values


def test_who_waits_for_an_event_is_woken(path: Path) -> None:
    with brant.open(path) as db, db.stream("t").subscribe() as feed:
        waiting = in_thread(next, feed)
        append("value string", {"value": ["a"]}, path=path, topic="t")

        assert waiting.result(PATIENCE_S).payload == "a"


def test_jobs_are_told_of_in_the_lifecycle_events(path: Path) -> None:
    with brant.open(path) as db:
        db.queue("q").record_events()
    append("value string", {"value": ["a", "b"]}, path=path, queue="q")

    with brant.open(path) as db:
        assert [event.payload["event"] for event in db.job_events().read()] == ["enqueued", "enqueued"]


def test_a_batch_lands_in_partition_order(path: Path) -> None:
    writer = plan_batch("value string", path=path, topic="t")
    parts = [run_task(writer, "value string", {"value": [f"{task}-{n}" for n in range(3)]}) for task in range(3)]
    writer.commit(parts)

    assert payloads(path) == [f"{task}-{n}" for task in range(3) for n in range(3)]


def test_huge_payloads_arrive_whole(path: Path) -> None:
    texts = [letter * 10_000_000 for letter in "abc"]
    append("value string", {"value": texts}, path=path, topic="t")

    assert payloads(path) == texts


@pytest.mark.parametrize(
    ("schema", "options", "told"),
    [
        ("id bigint", {"topic": "t"}, r"no column payload or value among id; .*to_json\(struct"),
        ("payload string, value string", {"topic": "t"}, "payload and value are both there"),
        ("payload struct<n:int>", {"topic": "t"}, "payload is struct<n:int> and must be JSON text"),
        ("value binary", {"topic": "t"}, "value is binary and must be a string: use cast"),
        ("value string, key bigint", {"topic": "t"}, "key is bigint and must be a string"),
        ("value string, priority string", {"queue": "q"}, "priority is string and must be a whole number"),
        ("value string, run_at timestamp_ntz", {"queue": "q"}, "run_at is timestamp_ntz and must be a timestamp"),
        ("value string, expires_at date", {"queue": "q"}, "expires_at is date and must be a timestamp"),
        ("value string, topic int", {}, "topic is int and must be a string"),
        ("value string", {}, "where to"),
        ("value string", {"table": "stream"}, "which topic"),
        ("value string", {"table": "queue"}, "which queue"),
        ("value string", {"topic": "t", "queue": "q"}, "not topic"),
        ("value string, colour string", {"topic": "t"}, "no place for the column colour: drop it"),
        ("value string, priority int", {"topic": "t"}, "no place for the column priority"),
        ("value string", {"topic": "a\nb"}, "1 to 512 printable characters"),
        ("value string", {"queue": "q" * 513}, "Invalid queue name"),
        ("value string", {"topic": ""}, "1 to 512 printable characters"),
        ("value string", {"table": "dead", "topic": "t"}, "option 'table' must be one of stream, queue"),
        ("value string", {"topik": "t"}, "unknown option 'topik'; did you mean 'topic'"),
        ("value string", {"topic": "t", "inlineMaxBytes": "many"}, "inlineMaxBytes.*whole number"),
        ("value string", {"topic": "t", "txnAppId": "a"}, "txnAppId and txnVersion belong together"),
        ("value string", {"topic": "t", "txnVersion": "1"}, "txnAppId and txnVersion belong together"),
        ("value string", {"topic": "t", "txnAppId": " ", "txnVersion": "1"}, "txnAppId is empty"),
        ("value string", {"topic": "t", "txnAppId": "a", "txnVersion": "-1"}, "txnVersion.*at least 0"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_task_runs(
    path: Path, schema: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PipelineError, match=told):
        plan_batch(schema, path=path, **options)
    assert not path.exists()


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("s3://bucket/app.db", "not a file of this machine"),
        ("", "which database"),
        (".", "stands for many files"),
        ("tenants/*.db", "stands for many files"),
        ("missing/app.db", "there is no folder"),
    ],
)
def test_a_place_that_is_no_database_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match=told):
        plan_batch("value string", path=place, topic="t")


def test_only_appending_is_offered(path: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r'use \.mode\("append"\)'):
        plan_batch("value string", True, path=path, topic="t")
    with pytest.raises(PipelineError, match=r'use \.outputMode\("append"\)'):
        plan_stream("value string", True, path=path, topic="t", checkpointLocation=tmp_path)


def test_a_query_needs_its_checkpoint_as_an_option(path: Path) -> None:
    with pytest.raises(PipelineError, match="checkpointLocation"):
        plan_stream("value string", path=path, topic="t")


def test_a_query_counts_its_batches_itself(path: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="txnVersion is for batch writes"):
        plan_stream("value string", path=path, topic="t", checkpointLocation=tmp_path, txnVersion=1)


@pytest.mark.parametrize(
    ("schema", "columns", "told"),
    [
        ("payload string", {"payload": ["1", "ship it"]}, "row 2 .* not JSON: .*name the column value for plain text"),
        ("payload string", {"payload": ["NaN"]}, "NaN is no value of JSON"),
        ("payload string", {"payload": [""]}, "not JSON"),
        ("payload string", {"payload": ["[" * 100_000]}, "nested too deeply"),
        ("payload string", {"payload": ["1", None]}, r"row 2 .* has no payload \(NULL\)"),
        ("value string", {"value": [None]}, r"row 1 .* has no value \(NULL\)"),
        ("value string, topic string", {"value": ["a"], "topic": [None]}, r"has no topic \(NULL\)"),
        ("value string, topic string", {"value": ["a"], "topic": [" \n"]}, "printable characters"),
        ("value string, queue string", {"value": ["a"], "queue": [""]}, "Invalid queue name"),
    ],
)
def test_a_row_that_cannot_be_stored_fails_its_task(
    path: Path, schema: str, columns: dict[str, list[Any]], told: str
) -> None:
    target = {} if "topic" in schema or "queue" in schema else {"topic": "t"}
    with pytest.raises(PipelineError, match=told):
        append(schema, columns, path=path, **target)
    assert not path.exists()


@pytest.mark.parametrize(
    ("schema", "columns", "told"),
    [
        ("value string, max_attempts int", {"value": ["a", "b"], "max_attempts": [1, -1]}, "max_attempts must be"),
        ("value string, run_at double", {"value": ["a", "b"], "run_at": [1.0, float("nan")]}, "run_at must be"),
    ],
)
def test_an_option_of_a_job_that_makes_no_sense_leaves_nothing_behind(
    path: Path, schema: str, columns: dict[str, list[Any]], told: str
) -> None:
    with pytest.raises(brant.InvalidValue, match=told):
        append(schema, columns, path=path, queue="q")
    with brant.open(path) as db:
        assert db.queue("q").stats().total == 0
