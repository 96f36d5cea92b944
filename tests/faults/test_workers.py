"""Workers that are killed, stopped, starved and misled: every job runs, and no two copies of it at once."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import random
import secrets
import signal
import sqlite3
import sys
import threading
from collections import Counter, defaultdict
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

import brant
import brant.tasks
from brant.clock import Clock
from brant.tasks import envelope
from brant.worker import Worker, bench
from tests.faults.actors import Ledger
from tests.faults.test_kill import kill
from tests.faults.worker_actors import TABLES, open_tasks, work
from tests.waiting import PATIENCE_S, line_of, python
from tests.worker.observing import Heard, running

KILLS = int(os.environ.get("BRANT_KILLS", "60"))
WAKE_UPS = int(os.environ.get("BRANT_WAKE_UPS", "400"))
WAKE_UPS_EACH = 400
WORKERS = 4
JOBS_PER_KILL = 10
LONGEST_PAUSE_S = 0.2


@pytest.fixture(autouse=True)
def _no_tasks_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brant.tasks, "_process_wide", brant.tasks.Registry())


def start_worker(path: Path, ledgers: Path) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["brant.opening", "brant.worker", "tests.faults.worker_actors"])
    process = context.Process(target=work, args=(path, ledgers), daemon=True)
    process.start()
    return process


def kill_while_working(path: Path, ledgers: Path, chance: random.Random) -> list[int]:
    """Gives the ids of the jobs, all of which are settled."""
    db, queue = open_tasks(path)
    ids = []
    crew = [start_worker(path, ledgers) for _ in range(WORKERS)]
    try:
        for _ in range(KILLS):
            calls = [envelope("note", (chance.uniform(0, 0.02),), {}) for _ in range(JOBS_PER_KILL)]
            ids += queue.enqueue_many(calls)
            died = wait([process.sentinel for process in crew], chance.uniform(0, LONGEST_PAUSE_S))
            assert not died, [process for process in crew if process.sentinel in died]
            place = chance.randrange(WORKERS)
            kill(crew[place])
            crew[place] = start_worker(path, ledgers)
        commits = db.update_events()
        while queue.stats().total:
            assert commits.wait(PATIENCE_S), "nobody goes on with what the dead have left"
    finally:
        for process in crew:
            kill(process)
        db.close()
    return ids


def assert_no_two_at_once(lines: list[str]) -> None:
    ends = {tuple(run): float(at) for *run, kind, at in map(str.split, lines) if kind == "end"}
    starts = defaultdict(list)
    for *run, kind, at in map(str.split, lines):
        if kind == "start":
            starts[run[0]].append((float(at), tuple(run)))
    for runs in starts.values():
        runs.sort()
        for (_, earlier), (later_start, later) in itertools.pairwise(runs):
            # One without an end was killed.
            assert ends.get(earlier, 0) <= later_start, (earlier, later)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_workers_lose_no_job_and_no_job_has_two_runs_at_once(path: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("BRANT_SEED") or secrets.randbits(32))
    print(f"again by BRANT_SEED={seed}")
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    with brant.open(path) as db, db.transaction() as tx:
        for table in TABLES:
            tx.execute(table)
    ids = kill_while_working(path, ledgers, random.Random(seed))

    lines = Ledger.read(ledgers, "ran")
    runs = Counter(int(line.split()[0]) for line in lines if " start " in line)
    assert set(runs) == set(ids)
    assert_no_two_at_once(lines)
    with brant.open(path) as db:
        effects = Counter(row["job_id"] for row in db.query("SELECT job_id FROM effects"))
        assert effects == Counter(job_id for job_id in ids if job_id % 2)
        assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert db.queue("tasks").list_dead() == []
    print(f"{len(ids)} jobs, {runs.total()} runs")


ZOMBIE = """
import sys
import brant
db = brant.open(sys.argv[1])
q = db.queue("q", visibility_timeout_s=0.5)

@q.task("work")
def work():
    print("started", flush=True)
    sys.stdin.readline()
    return "the zombie"

def tell(event):
    if event.kind in ("lost", "success"):
        print(event.kind, flush=True)

db.run_workers_sync(concurrency=1, scheduler=False, observers=(tell,))
"""


def test_a_worker_that_slept_through_its_lease_settles_nothing(path: Path) -> None:
    with brant.open(path) as db, python(ZOMBIE, path) as zombie:
        q = db.queue("q", visibility_timeout_s=0.5)
        answer = q.task("work")(lambda: "the second")()
        assert line_of(zombie) == "started"
        zombie.send_signal(signal.SIGSTOP)
        with running(db) as crew:
            assert answer.get(PATIENCE_S) == "the second"
            assert [event.attempt for event in crew.wait("success")] == [2]
        zombie.send_signal(signal.SIGCONT)
        tell(zombie, "end")
        assert line_of(zombie) == "lost"
        assert q.get_result(answer.id) == (True, "the second")
        assert q.stats().total == 0


HOLDS_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""


def tell(process: Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def test_a_coroutine_is_ended_when_its_lease_cannot_be_renewed_in_time(path: Path) -> None:
    # A renewal may wait for the lock for a minute, the lease is half a second: its end must not wait with it.
    with brant.open(path, busy_timeout_ms=60_000) as db:
        q = db.queue("q", visibility_timeout_s=0.5)
        ended = threading.Event()

        @q.task("work")
        async def work_once() -> str:
            if ended.is_set():
                return "again"
            try:
                await asyncio.sleep(10 * PATIENCE_S)
            finally:
                ended.set()
            return "never"

        answer = work_once()
        with running(db) as crew:
            crew.wait("start")
            with python(HOLDS_THE_LOCK, path) as holder:
                assert line_of(holder) == "locked"
                assert ended.wait(PATIENCE_S)
                tell(holder, "let go")
                _ = answer.get(PATIENCE_S)
        assert q.get_result(answer.id) == (True, "again")


@pytest.fixture
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wake-up that is lost is then never made up for."""
    monkeypatch.setattr(bench, "_SAFETY_POLL_S", 1e6)


class BetweenLookAndWait(Clock):
    """Does something once, when a worker has looked and found nothing, and does not wait yet."""

    def __init__(self) -> None:
        self.then: Any = None

    def now(self) -> float:
        if self.then is not None and sys._getframe(1).f_code.co_name == "due_in":
            then, self.then = self.then, None
            then()
        return super().now()


@pytest.mark.usefixtures("no_safety_poll")
@pytest.mark.parametrize("same_process", [True, False])
def test_a_job_that_comes_between_the_look_and_the_wait_starts_at_once(path: Path, same_process: bool) -> None:
    clock = BetweenLookAndWait()
    with brant.open(path, clock=clock) as db, brant.open(path) as other:
        task = db.queue("q").task("sum")(lambda: 1)
        task.enqueue(delay=10_000)  # a look at what is yet to come ends with a look at the clock
        ids: list[int] = []
        enqueue = (db if same_process else other).queue("q").enqueue
        clock.then = lambda: ids.append(enqueue(envelope("sum", (), {})))
        with running(db) as crew:
            crew.wait("success")
        assert [event.job_id for event in crew.heard.all("success")] == ids


@pytest.mark.usefixtures("no_safety_poll")
@pytest.mark.parametrize("part", range(max(1, WAKE_UPS // WAKE_UPS_EACH)))
def test_no_wake_up_is_lost_at_random_moments(path: Path, part: int) -> None:
    chance = random.Random(os.environ.get("BRANT_SEED"))
    with brant.open(path) as db, brant.open(path) as other:
        task = db.queue("q").task("sum")(lambda: 1)
        queues = [db.queue("q"), other.queue("q")]
        with running(db, slots=1) as crew:
            assert task().get(PATIENCE_S) == 1
            for trial in range(WAKE_UPS_EACH):
                pause = threading.Event()
                pause.wait(chance.uniform(0, 0.003))
                chance.choice(queues).enqueue(envelope("sum", (), {}))
                crew.wait("success", trial + 2)


POISON = """
import os, sys
import brant
db = brant.open(sys.argv[1])
q = db.queue("q", visibility_timeout_s=0.3)
q.task("poison", retries=3)(lambda: os._exit(139))
q.task("good")(lambda n: n)
db.run_workers_sync(concurrency=1, scheduler=False, drain=True)
"""


def test_a_job_that_kills_its_process_dies_after_its_attempts_and_the_others_are_done(path: Path) -> None:
    with brant.open(path) as db:
        q = db.queue("q", visibility_timeout_s=0.3)
        poison = q.task("poison", retries=3)(lambda: None).enqueue(priority=1)
        good_task = q.task("good")(lambda n: n)
        good = [good_task(n) for n in range(20)]
        codes = []
        while q.stats().total:
            with python(POISON, path) as process:
                codes.append(process.wait(PATIENCE_S))
        assert Counter(codes)[139] == 3
        assert set(codes) <= {0, 139}
        assert [answer.get(1) for answer in good] == list(range(20))
        with pytest.raises(brant.TaskFailed, match="max attempts exceeded") as failed:
            poison.get(1)
        assert failed.value.attempts == 3


def test_of_fifty_idle_workers_one_claims(path: Path) -> None:
    jobs, workers = 20, 50
    begins: list[str] = []

    async def work_together(db: brant.Database, crew: list[Worker]) -> None:
        await asyncio.gather(*(worker.run() for worker in crew))

    with brant.open(path) as db, brant.open(path) as producer:
        db.queue("q").task("sum")(lambda: 1)
        heard = Heard()
        crew = [db.worker({"q": 1}, scheduler=False, observers=(heard,)) for _ in range(workers)]
        thread = threading.Thread(target=lambda: asyncio.run(work_together(db, crew)))
        thread.start()
        note_transactions(db, begins)
        for job in range(1, jobs + 1):
            producer.queue("q").enqueue(envelope("sum", (), {}))
            heard.wait("success", job)
        for worker in crew:
            worker.stop()
        thread.join(PATIENCE_S)
    # For each job at most two to claim it, and one to settle it.
    assert jobs * 2 <= len(begins) <= jobs * 3


def note_transactions(db: brant.Database, begins: list[str]) -> None:
    writer: sqlite3.Connection = db._storage._writer  # type: ignore[attr-defined]
    writer.set_trace_callback(lambda sql: begins.append(sql) if sql.startswith("BEGIN") else None)


def test_what_a_worker_did_not_know_is_kept_for_one_that_does(db: brant.Database) -> None:
    q = db.queue("q")
    task = q.task("new")(lambda: "known now")
    answer = task()
    garbage = q.enqueue("garbage")
    with running(db, registry=brant.tasks.Registry()) as crew:
        crew.wait("dead", 2)
    reasons = {letter.id: str(letter.last_error) for letter in q.list_dead()}
    assert reasons[answer.id].startswith("unknown task: 'new'")
    assert reasons[garbage].startswith("raw (non-decorated) payload")
    assert q.requeue_dead(answer.id) == 1
    with running(db):
        assert answer.get(PATIENCE_S) == "known now"
    assert [letter.id for letter in q.list_dead()] == [garbage]
