"""enqueue, claim, ack, retry, fail, heartbeat, cancel."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import brant
from tests.cli.conftest import COMMAND, Run, clean_environment

pytestmark = pytest.mark.both_backends
same_on_both = pytest.mark.files_only("what is tested happens before or after the database")

SETTLING = ("ack", "retry", "fail", "heartbeat")


@pytest.fixture
def queue(db: brant.Database) -> brant.Queue:
    return db.queue("q")


def row_of(queue: brant.Queue, job_id: object) -> dict[str, Any]:
    row = queue.get_job(int(str(job_id)))
    assert row is not None
    return row


def claimed(brant_command: Run, *options: object) -> dict[str, Any]:
    found = brant_command("claim", "q", "--json", *options)
    assert found.returncode == 0, found.stderr
    job: dict[str, Any] = json.loads(found.stdout)
    return job


# enqueue


def test_enqueue_prints_the_id_of_a_job_that_python_reads(brant_command: Run, queue: brant.Queue) -> None:
    added = brant_command("enqueue", "q", '{"to": "ann", "n": [1, null]}')
    assert (added.returncode, added.stderr) == (0, "")
    job = queue.claim_one("w")
    assert job is not None
    assert (f"{job.id}\n", job.payload) == (added.stdout, {"to": "ann", "n": [1, None]})


@pytest.mark.parametrize("words", [(), ("-",)])
def test_enqueue_reads_standard_input(brant_command: Run, queue: brant.Queue, words: tuple[str, ...]) -> None:
    assert brant_command("enqueue", "q", *words, stdin='"naïve 😀"\n').returncode == 0
    assert queue.read() == "naïve 😀"


@same_on_both
@pytest.mark.parametrize("payload", ["{", "text", "", "NaN", "[" * 100_000, "b\udcff"])
def test_a_payload_that_is_not_json_is_one_line_of_error_and_writes_nothing(
    brant_command: Run, queue: brant.Queue, payload: str
) -> None:
    refused = brant_command("enqueue", "q", payload)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("brant: error: the payload is not ")
    assert refused.stderr.count("\n") == 1
    assert not queue.exists()


def test_every_option_of_enqueue_is_stored(brant_command: Run, queue: brant.Queue) -> None:
    before = time.time()
    options = ("--priority", "-4", "--delay", "90.5", "--expires", "300.5", "--max-attempts", "7")
    row = row_of(queue, brant_command("enqueue", "q", "1", *options).stdout)
    assert (row["priority"], row["max_attempts"]) == (-4, 7)
    assert before + 90.5 <= row["run_at"] <= time.time() + 90.5
    assert before + 300.5 <= row["expires_at"] <= time.time() + 300.5


@same_on_both
@pytest.mark.parametrize("at", ["2100-01-02T03:04:05", "2100-01-02T04:04:05+01:00", "4102542245", "4102542245.0"])
def test_run_at_takes_iso_and_unix_times(brant_command: Run, queue: brant.Queue, at: str) -> None:
    assert row_of(queue, brant_command("enqueue", "q", "1", "--run-at", at).stdout)["run_at"] == 4_102_542_245


def test_a_unique_key_answers_with_the_job_that_holds_it(brant_command: Run, queue: brant.Queue) -> None:
    options = ("--unique-key", "k", "--unique-for", "60")
    first = brant_command("enqueue", "q", "1", *options).stdout
    assert queue.read() == "1"
    assert brant_command("enqueue", "q", "2", *options).stdout == first
    assert not queue.exists()


@same_on_both
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("enqueue", "q", "1", "--delay", "soon"), "'soon' is no number of seconds"),
        (("enqueue", "q", "1", "--delay", "nan"), "'nan' is no number of seconds"),
        (("enqueue", "q", "1", "--delay", "1", "--run-at", "2100-01-01"), "not allowed with"),
        (("enqueue", "q", "1", "--run-at", "tomorrow"), "Invalid timestamp"),
        (("enqueue", "q", "1", "--priority", "high"), "'high' is no whole number"),
        (("enqueue", "q", "1", "--max-attempts", "0"), "'0' is no whole number of at least 1"),
        (("enqueue", "q", "1", "--unique-for", "5"), "unique_key"),
        (("enqueue", "a b", "1"), "Invalid queue name"),
        (("claim", "q", "--lease", "0"), "more than 0 seconds"),
        (("claim", "q", "-n", "-1"), "'-1' is no whole number of at least 1"),
        (("ack", "first", "1-77"), "'first' is no id"),
        (("ack", "1", "77"), "'77' is no token; give the one that 'brant claim' printed"),
        (("ack", "1", "1-xyz"), "'1-xyz' is no token"),
        (("cancel", "-3"), "'-3' is no id"),
    ],
)
def test_bad_arguments_are_one_line_that_says_what_is_wrong(
    brant_command: Run, queue: brant.Queue, words: tuple[str, ...], hint: str
) -> None:
    refused = brant_command(*words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("brant: error: ")
    assert hint in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not queue.exists()


# claim


def test_claim_prints_id_token_and_payload(brant_command: Run, queue: brant.Queue) -> None:
    text, other = queue.write("one\ttab"), queue.enqueue({"a": 1})
    lines = [line.split("\t", 2) for line in brant_command("claim", "q", "-n", "5").stdout.splitlines()]
    assert [(line[0], line[2]) for line in lines] == [(str(text), "one\ttab"), (str(other), '{"a":1}')]
    assert all(set(line[1]) <= set("0123456789abcdef-") for line in lines)


def test_claim_tells_everything_as_json(brant_command: Run, queue: brant.Queue) -> None:
    job_id = queue.enqueue({"a": "é"}, priority=2, max_attempts=5)
    first = queue.claim_one("w")
    assert first is not None
    first.retry(0, "boom")
    before = time.time()
    job = claimed(brant_command, "--lease", "30.5", "--worker", "me and you")
    assert before + 30.5 <= job.pop("lease_expires_at") <= time.time() + 30.5
    assert job == {
        "id": job_id,
        "token": f"2-{b'me and you'.hex()}",
        "payload": {"a": "é"},
        "attempts": 2,
        "max_attempts": 5,
        "priority": 2,
        "queue": "q",
        "last_error": "boom",
    }
    assert row_of(queue, job_id)["worker_id"] == "me and you"


def test_claim_finds_nothing_in_an_empty_queue(brant_command: Run) -> None:
    for words in (("claim", "q"), ("claim", "q", "--wait", "0.1")):
        nothing = brant_command(*words)
        assert (nothing.returncode, nothing.stdout, nothing.stderr) == (2, "", "")


def test_claim_waits_for_a_job_to_become_due(brant_command: Run, queue: brant.Queue) -> None:
    job_id = queue.enqueue(1, delay=0.5)
    assert claimed(brant_command, "--wait", "30")["id"] == job_id


def test_a_waiting_claim_is_woken_by_a_commit(tmp_path: Path, queue: brant.Queue) -> None:
    command = [COMMAND, "claim", "q", "--wait", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=clean_environment()) as waiting:
        job_id = queue.write("at last")
        out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out.split("\t")[0], out.split("\t")[2]) == (0, str(job_id), "at last\n")


def test_jobs_that_can_not_be_printed_are_given_back(tmp_path: Path, queue: brant.Queue) -> None:
    ids = [queue.write("one"), queue.write("two")]
    reader, writer = os.pipe()
    os.close(reader)
    command = [COMMAND, "claim", "q", "-n", "2"]
    broken = subprocess.run(command, stdout=writer, cwd=tmp_path, env=clean_environment(), timeout=30, check=False)
    os.close(writer)
    assert broken.returncode == 1
    given_back = queue.claim_batch("w", 2)
    assert [(job.id, job.max_attempts - job.attempts) for job in given_back] == [(ids[0], 2), (ids[1], 2)]


@same_on_both
def test_the_help_of_claim_says_what_a_token_is(brant_command: Run) -> None:
    shown = brant_command("claim", "--help")
    assert shown.returncode == 0
    assert "identifies this claim" in " ".join(shown.stdout.split())


# ack, retry, fail, heartbeat


def test_ack_ends_the_job(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("done")
    job = claimed(brant_command)
    settled = brant_command("ack", job["id"], job["token"])
    assert (settled.returncode, settled.stdout, settled.stderr) == (0, "", "")
    assert not queue.exists()
    assert queue.list_dead() == []


def test_retry_puts_the_job_back_with_a_reason(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("later")
    job = claimed(brant_command)
    before = time.time()
    settled = brant_command("retry", job["id"], job["token"], "--delay", "20.5", "--error", "not yet: naïve")
    assert settled.returncode == 0
    row = row_of(queue, job["id"])
    assert row["state"] == "pending"
    assert before + 20.5 <= row["run_at"] <= time.time() + 20.5
    assert [error.error for error in queue.errors(job["id"])] == ["not yet: naïve"]


def test_retry_without_attempts_left_is_a_dead_letter(brant_command: Run, queue: brant.Queue) -> None:
    queue.enqueue("once", max_attempts=1)
    job = claimed(brant_command)
    assert brant_command("retry", job["id"], job["token"], "--error", "no more").returncode == 0
    assert [letter.last_error for letter in queue.list_dead()] == ["no more"]


def test_fail_makes_a_dead_letter(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("bad")
    job = claimed(brant_command)
    assert brant_command("fail", job["id"], job["token"], "--error", "malformed").returncode == 0
    assert [(letter.id, letter.last_error) for letter in queue.list_dead()] == [(job["id"], "malformed")]


def test_heartbeat_moves_the_end_of_the_lease(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("long")
    job = claimed(brant_command, "--lease", "5")
    before = time.time()
    assert brant_command("heartbeat", job["id"], job["token"], "--extend", "500.5").returncode == 0
    assert before + 500.5 <= row_of(queue, job["id"])["claim_expires_at"] <= time.time() + 500.5


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("verb", SETTLING)
def test_a_late_call_is_refused_also_from_a_namesake(brant_command: Run, queue: brant.Queue, verb: str) -> None:
    queue.write("twice")
    late = claimed(brant_command, "--worker", "w", "--lease", "0.1")
    holder = claimed(brant_command, "--worker", "w", "--wait", "30")
    assert holder["attempts"] == late["attempts"] + 1
    before = row_of(queue, late["id"])
    refused = brant_command(verb, late["id"], late["token"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"brant: the claim of job {late['id']} is lost")
    assert row_of(queue, late["id"]) == before
    assert brant_command(verb, holder["id"], holder["token"]).returncode == 0


def test_a_call_for_a_job_that_never_was_is_refused(brant_command: Run) -> None:
    assert brant_command("ack", "1234567890123456", "1-77").returncode == 2


def test_python_settles_what_the_shell_claimed(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("shared")
    job = claimed(brant_command, "--worker", "w")
    assert queue.ack(job["id"], "w", attempt=job["attempts"])
    assert brant_command("ack", job["id"], job["token"]).returncode == 2


# cancel


def test_cancel_removes_a_job_and_ends_its_claim(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("unwanted")
    job = claimed(brant_command)
    assert brant_command("cancel", job["id"]).returncode == 0
    assert not queue.exists()
    assert brant_command("ack", job["id"], job["token"]).returncode == 2
    again = brant_command("cancel", job["id"])
    assert (again.returncode, again.stdout) == (2, "")
    assert str(job["id"]) in again.stderr


def test_cancel_leaves_dead_letters_alone(brant_command: Run, queue: brant.Queue) -> None:
    queue.write("bad")
    job = queue.claim_one("w")
    assert job is not None
    job.fail("boom")
    assert brant_command("cancel", job.id).returncode == 2
    assert queue.get_dead(job.id) is not None
