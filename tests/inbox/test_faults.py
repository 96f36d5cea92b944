"""Crashes and crowds: nothing that was confirmed is lost, nothing happens twice that must happen once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

import brant
from tests.inbox.tiny import QUEUE, jobs, send, status, tiny, work
from tests.looping import run, until
from tests.waiting import PATIENCE_S, in_thread, line_of, python
from tests.worker.observing import running

pytestmark = pytest.mark.both_backends

RECEIVE = """
import sys
import brant
from tests.inbox.tiny import signed, tiny
db = brant.open(sys.argv[1])
endpoint = tiny(brant.Inbox(db))
print("ready", flush=True)
sys.stdin.readline()
body = b'{"id": "e1", "type": "t"}'
for _ in range(int(sys.argv[2])):
    answer = endpoint.receive(body, signed(body))
    print(answer.status_code, answer.event_id, flush=True)
"""

WORK = """
import sys
import brant
from tests.inbox.tiny import tiny
db = brant.open(sys.argv[1])
inbox = brant.Inbox(db)
endpoint = tiny(inbox)
@endpoint.handle()
def handle(event, tx):
    tx.execute("INSERT INTO ledger VALUES (?)", [event.id])
print("ready", flush=True)
import asyncio
asyncio.run(inbox.worker(2, drain=True).run())
"""


def make(path: Path) -> None:
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        tiny(inbox)
        with db.transaction() as tx:
            tx.execute("CREATE TABLE ledger (event INTEGER)")


def killed_at(point: str, program: str, *args: object) -> str:
    """Run it until it kills itself there; gives what it had printed."""
    environment = {**os.environ, "BRANT_FAILPOINT": f"{point}:kill"}
    command = [sys.executable, "-c", program, *map(str, args)]
    ended = subprocess.run(
        command, input="go\n", capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == -9, ended.stderr
    return ended.stdout


def wait_for_the_dead(path: Path | str) -> None:
    """What a process that was killed had sent is done, or undone: a server goes on for a moment."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'brant' LIMIT 1"
    if isinstance(path, str):
        with psycopg.connect(path, autocommit=True) as looking:
            assert any(looking.execute(asked).fetchone() is None for _ in range(50_000))


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def whole(path: Path | str) -> bool:
    if isinstance(path, str):
        return True  # a server's files are its own
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    finally:
        connection.close()


@pytest.mark.guarantee("G29")
def test_a_kill_inside_the_transaction_of_receive_leaves_nothing(path: Path) -> None:
    make(path)
    assert killed_at("inbox.before_commit", RECEIVE, path, 1) == "ready\n"
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        assert (inbox.list_events(), inbox.list_deliveries(), jobs(inbox)) == ([], [], 0)
        send(tiny(inbox), "e1")
    assert whole(path)


@pytest.mark.guarantee("G29")
def test_a_kill_between_the_commit_and_the_answer_leaves_all_and_a_redelivery_is_a_duplicate(path: Path) -> None:
    make(path)
    assert killed_at("inbox.after_commit", RECEIVE, path, 1) == "ready\n"
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        endpoint = tiny(inbox)
        [event] = inbox.list_events()
        assert jobs(inbox) == 1
        assert send(endpoint, "e1") == event.id
        assert jobs(inbox) == 1
    assert whole(path)


@pytest.mark.parametrize("point", ["claim.after", "handler.before", "handler.after"])
@pytest.mark.guarantee("G31")
def test_a_kill_of_the_worker_leaves_the_event_to_another_and_one_effect(path: Path, point: str) -> None:
    make(path)
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        send(tiny(inbox), "e1")
    killed_at(point, WORK, path)
    with brant.open(path) as db, brant.Inbox(db, lease_s=60) as inbox:
        endpoint = tiny(inbox)
        endpoint.add_handler(lambda event, tx: tx.execute("INSERT INTO ledger VALUES (?)", [event.id]))
        [event] = inbox.list_events()
        if event.status == "received":
            with db.transaction() as tx:  # the lease of the dead one is over
                tx.execute("UPDATE _honker_live SET claim_expires_at = 1")
            assert work(inbox) == {"success": 1}
        assert status(inbox, event.id) == "handled"
        assert len(db.query("SELECT * FROM ledger")) == 1
        assert jobs(inbox) == 0


@pytest.mark.guarantee("G30")
def test_the_same_event_twenty_times_from_four_processes_is_one_event_and_one_effect(path: Path) -> None:
    make(path)
    with ExitStack() as stack:
        crew = [stack.enter_context(python(RECEIVE, path, 5)) for _ in range(4)]
        assert [line_of(process) for process in crew] == ["ready"] * 4
        for process in crew:
            go(process)
        answers = {line_of(process) for process in crew for _ in range(5)}
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        [event] = inbox.list_events()
        assert answers == {f"204 {event.id}"}
        assert len(inbox.list_deliveries(event_id=event.id)) == 20
        assert jobs(inbox) == 1
        endpoint = tiny(inbox)
        endpoint.add_handler(lambda event, tx: tx.execute("INSERT INTO ledger VALUES (?)", [event.id]))
        work(inbox)
        assert db.query("SELECT event FROM ledger") == [{"event": event.id}]


def test_a_burst_is_handled_once_each_by_several_workers(path: Path) -> None:
    make(path)
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        endpoint = tiny(inbox)
        endpoint.add_handler(lambda event, tx: tx.execute("INSERT INTO ledger VALUES (?)", [event.id]))
        sent = [in_thread(lambda part: [send(endpoint, f"{part}-{n}") for n in range(125)], part) for part in range(4)]
        with running(db, QUEUE, slots=4), running(db, QUEUE, slots=4):
            ids = [event_id for each in sent for event_id in each.result(PATIENCE_S)]
            _until_done(inbox)
        assert sorted(row["event"] for row in db.query("SELECT event FROM ledger")) == sorted(ids)
        assert inbox.counts() == {"in": {"handled": 500}}


def _until_done(inbox: brant.Inbox) -> None:
    run(until(inbox.db, lambda: inbox.counts() == {"in": {"handled": 500}}))


def test_an_idle_worker_wakes_on_the_commit_of_another_process(path: Path) -> None:
    make(path)
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        endpoint = tiny(inbox)
        endpoint.add_handler(lambda event, tx: None)
        with running(db, QUEUE, slots=1) as worker, python(RECEIVE, path, 1) as sender:
            assert line_of(sender) == "ready"
            go(sender)
            worker.wait("success")
        [event] = inbox.list_events()
        assert event.status == "handled"


FORK = """
import os, sys
import brant
from tests.inbox.tiny import signed, tiny
db = brant.open(sys.argv[1])
endpoint = tiny(brant.Inbox(db))
assert endpoint.receive(b"1", signed(b"1")).status_code == 204
child = os.fork()
answer = endpoint.receive(b"2", signed(b"2")).status_code
if child == 0:
    os._exit(answer == 503)
print(answer, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_after_a_fork_the_child_is_told_to_make_its_own_and_does_not_hang(path: Path) -> None:
    with python(FORK, path) as parent:
        assert line_of(parent) == "204 1"


# Eight senders in one process; a line for each answer, on the disk before the next request.
SENDERS = """
import os, sys, threading
import brant
from tests.inbox.tiny import signed, tiny
endpoint = tiny(brant.Inbox(brant.open(sys.argv[1])))
ledger = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
def send(name):
    for number in range(1_000_000):
        body = f'{{"id": "{os.getpid()}-{name}-{number}", "type": "t"}}'.encode()
        answer = endpoint.receive(body, signed(body))
        assert answer.status_code == 204, answer
        os.write(ledger, f"{os.getpid()}-{name}-{number}\\n".encode())
        if (name, number) == (0, 3):
            print("warm", flush=True)
for name in range(8):
    threading.Thread(target=send, args=(name,)).start()
"""


def test_whenever_senders_are_killed_each_success_is_stored_once_and_handled_once(path: Path, tmp_path: Path) -> None:
    make(path)
    ledger = tmp_path / "answered"
    kills = 2 if "://" in str(path) else 5
    for _ in range(kills):
        with python(SENDERS, path, ledger) as process:
            assert line_of(process) == "warm"
            os.kill(process.pid, signal.SIGKILL)
    wait_for_the_dead(path)
    answered = [line for line in ledger.read_text().splitlines() if line.count("-") == 2]
    with brant.open(path) as db, brant.Inbox(db) as inbox:
        endpoint = tiny(inbox)
        endpoint.add_handler(lambda event, tx: tx.execute("INSERT INTO ledger VALUES (?)", [event.id]))
        stored = [row["dedupe_key"] for row in db.query("SELECT dedupe_key FROM knocker_events")]
        assert len(stored) == len(set(stored)) == len(db.query("SELECT 1 FROM knocker_deliveries")) == jobs(inbox)
        assert set(answered) <= set(stored)
        assert len(answered) >= kills * 4
        work(inbox)
        assert (
            len(db.query("SELECT DISTINCT event FROM ledger")) == len(db.query("SELECT * FROM ledger")) == len(stored)
        )
    assert whole(path)
