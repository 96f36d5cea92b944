"""Honker's own library on a file that Brant uses too: each in a process of its own, as they must be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import brant
from tests.waiting import PATIENCE_S, in_thread

# Honker brings another SQLite library along: two of them on one file in one process lose each other's locks.
PROGRAM = """
import json, sys
import honker
db = honker.open(sys.argv[1])
queue = db.queue("q")
def sql(text):
    with db.transaction() as tx:
        return list(tx.query("SELECT " + text)[0].values())[0]
"""


@pytest.fixture(autouse=True)
def _honker_is_installed() -> None:
    pytest.importorskip("honker")


def honker(path: Path, body: str) -> Any:
    """What the program prints, which is JSON."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + body, path], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "null")


@pytest.mark.guarantee("G17")
def test_jobs_of_honker_are_run_by_brant(path: Path) -> None:
    ids = honker(path, 'print(json.dumps([queue.enqueue({"n": n}) for n in range(3)]))')
    with brant.open(path) as db:
        jobs = db.queue("q").claim_batch("ours", 9)
        assert [(job.id, job.payload) for job in jobs] == [(job_id, {"n": n}) for n, job_id in enumerate(ids)]
        assert db.queue("q").ack_batch(ids, "ours") == 3
        assert db.queue("q").enqueue("new") > ids[-1]


@pytest.mark.guarantee("G17")
def test_jobs_of_brant_are_run_by_honker(path: Path) -> None:
    with brant.open(path) as db:
        queue = db.queue("q")
        ids = [queue.enqueue({"n": 1}), queue.write("text"), queue.enqueue([2], unique_key="k")]
        claimed = honker(
            path,
            """
jobs = queue.claim_batch("theirs", 9)
print(json.dumps([[job.id, job.payload, job.ack()] for job in jobs]))
""",
        )
        assert sorted(claimed) == [[ids[0], {"n": 1}, True], [ids[1], "text", True], [ids[2], [2], True]]
        assert queue.stats().total == 0
        assert queue.enqueue([2], unique_key="k") != ids[2]


@pytest.mark.guarantee("G4")
@pytest.mark.guarantee("G17")
def test_each_respects_a_lease_of_the_other(path: Path) -> None:
    with brant.open(path) as db:
        queue = db.queue("q")
        queue.enqueue("ours")
        mine = queue.claim_one("ours")
        assert mine is not None
        assert honker(path, 'print(json.dumps([job.id for job in queue.claim_batch("theirs", 9)]))') == []
        queue.enqueue("theirs")
        (taken,) = honker(path, 'print(json.dumps([job.id for job in queue.claim_batch("theirs", 9)]))')
        assert queue.claim_one("ours") is None
        assert not queue.ack(taken, "ours")
        assert mine.ack()


@pytest.mark.guarantee("G9")
def test_a_waiter_of_brant_is_woken_by_a_commit_of_honker(path: Path) -> None:
    with brant.open(path) as db:
        claims = db.queue("q").claim("ours", idle_poll_s=None)
        job = in_thread(next, claims)
        honker(path, 'queue.enqueue("wake up")')
        assert job.result(PATIENCE_S).payload == "wake up"
        claims.close()


@pytest.mark.guarantee("G17")
def test_streams_results_locks_and_schedules_are_shared(path: Path) -> None:
    with brant.open(path) as db:
        db.stream("s").publish({"e": 1}, key="k")
        db.queue("q").save_result(7, {"ok": True}, ttl=60)
        db.scheduler().add(name="nightly", queue="q", schedule="0 3 * * *", payload=[1], expires=9.5)
        with db.lock("backup", owner="ours"):
            seen = honker(
                path,
                """
print(json.dumps({
    "events": json.loads(sql("honker_stream_read_since('s', 0, 9)")),
    "result": queue.get_result(7),
    "lock": sql("honker_lock_acquire('backup', 'theirs', 60)"),
    "schedules": [row["name"] for row in json.loads(sql("honker_scheduler_list()"))],
    "saved": sql("honker_stream_save_offset('reader', 's', 1)"),
    "published": sql("honker_stream_publish('s', NULL, '2')"),
}))
""",
            )
        assert [(event["offset"], event["key"], event["payload"]) for event in seen["events"]] == [(1, "k", '{"e": 1}')]
        assert (seen["result"], seen["lock"], seen["schedules"]) == ([True, {"ok": True}], 0, ["nightly"])
        assert db.stream("s").get_offset("reader") == seen["saved"] == 1
        assert [event.payload for event in db.stream("s").read(after=1)] == [2]
