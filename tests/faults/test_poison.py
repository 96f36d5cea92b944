"""Jobs that take their process down: they cost their own attempts, then they are dead, and the others go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.tasks import envelope
from tests.cli.processes import running

APP = """
import os
import brant
from brant.worker import current_task

db = brant.open("app.db")
q = db.queue("q", visibility_timeout_s=3600)
ledger = os.open("ledger", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

@q.task("devour", retry_delay_s=0)
def devour():
    os.write(ledger, b"%d\\n" % current_task().attempt)
    eaten = []
    while True:
        eaten.append(bytearray(1_000_000))

@q.task("vanish", retry_delay_s=0)
def vanish():
    os.write(ledger, b"%d\\n" % current_task().attempt)
    os._exit(139)

@q.task("double")
def double(number):
    return [number * 2, current_task().attempt]
"""
ATTEMPTS = 4
GOOD = 12


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with brant.open(tmp_path / "app.db") as database:
        yield database


def enqueue(queue: brant.Queue, poison: str) -> tuple[int, list[int]]:
    """The poison, which comes first, and the others."""
    first = queue.enqueue(envelope(poison, (), {}), priority=1, max_attempts=ATTEMPTS)
    return first, [queue.enqueue(envelope("double", (number,), {})) for number in range(GOOD)]


def assert_dead_after_its_attempts(queue: brant.Queue, poison: int, directory: Path) -> None:
    assert [(letter.id, letter.attempts) for letter in queue.list_dead()] == [(poison, ATTEMPTS)]
    assert (directory / "ledger").read_text().split() == [str(attempt) for attempt in range(1, ATTEMPTS + 1)]
    assert queue.stats().total == 0


@pytest.mark.parametrize("poison", ["devour", "vanish"])
def test_in_a_process_of_its_own_it_costs_nobody_else_anything(tmp_path: Path, db: brant.Database, poison: str) -> None:
    queue = db.queue("q")
    bad, good = enqueue(queue, poison)
    words = ("worker", "app:db", "--isolate", "--memory", 300, "--concurrency", 2, "--drain", "--no-scheduler")
    with running(tmp_path, *words) as worker:
        assert worker.exit_code() == 0
    assert_dead_after_its_attempts(queue, bad, tmp_path)
    # At the first attempt each: the poison took down no process of theirs.
    assert [queue.get_result(job_id) for job_id in good] == [(True, [number * 2, 1]) for number in range(GOOD)]


@pytest.mark.guarantee("G5")
def test_without_a_process_of_its_own_it_takes_the_worker_down_as_often_as_it_has_attempts(
    tmp_path: Path, db: brant.Database
) -> None:
    queue = db.queue("q")
    bad, good = enqueue(queue, "vanish")
    codes = Counter[int]()
    while queue.stats().total:
        with running(tmp_path, "worker", "app:db", "--concurrency", 1, "--drain", "--no-scheduler") as worker:
            codes[worker.exit_code()] += 1
        with db.transaction() as tx:
            tx.execute("UPDATE _honker_live SET claim_expires_at = 1 WHERE state = 'processing'")
    assert codes[139] == ATTEMPTS
    assert set(codes) <= {0, 139}
    assert_dead_after_its_attempts(queue, bad, tmp_path)
    assert [queue.get_result(job_id) for job_id in good] == [(True, [number * 2, 1]) for number in range(GOOD)]
