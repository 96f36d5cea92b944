"""A forked child: it is told to open the database anew, and does its parent no harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import brant
from tests.test_open_close import run
from tests.waiting import PATIENCE_S, python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Each program forks while the database is in use; CHILD runs in the child, and its output comes first.
PROGRAM = """
import gc, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import brant
from brant.errors import DatabaseClosed

def refused(*calls):
    for call in calls:
        try:
            call()
        except DatabaseClosed as error:
            assert "another process" in str(error), error
        else:
            raise AssertionError("not refused")

db = brant.open(sys.argv[1])
queue, stream = db.queue("q"), db.stream("s")
job_id = queue.enqueue("before")
claims, listener = queue.claim("w"), db.listen("c")
job = next(claims)
db.query("SELECT 1")
"""
AFTER = """
_, status = os.waitpid(child, 0)
assert status == 0, status
for n in range(50):
    queue.enqueue(n)
assert job.ack()
db.notify("c", "still here")
print(next(listener).payload, queue.stats().pending, db.query("PRAGMA integrity_check"))
"""
UNHARMED = "still here 50 [{'integrity_check': 'ok'}]\n"


def forked(child: str, end: str) -> str:
    body = "\n".join(f"    {line}" for line in child.strip().splitlines())
    return f"{PROGRAM}\nchild = os.fork()\nif child == 0:\n{body}\n    sys.stdout.flush()\n    {end}\n{AFTER}"


REFUSES = """
refused(
    lambda: queue.enqueue(1), lambda: queue.claim_one("w"), lambda: db.query("SELECT 1"), lambda: stream.read(),
    lambda: next(claims), lambda: next(listener), lambda: job.ack(), lambda: db.listen("c"),
    lambda: db.transaction().__enter__(),
)
print("refused")
"""


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"], ids=["_exit", "exit"])
def test_a_child_is_refused_and_its_parent_unharmed(path: Path, end: str) -> None:
    assert run(forked(REFUSES, end), path) == "refused\n" + UNHARMED


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"], ids=["_exit", "exit"])
def test_a_child_may_close_drop_and_open_anew(path: Path, end: str) -> None:
    child = """
db.close()
del db, queue, stream, claims, listener, job
gc.collect()
with brant.open(sys.argv[1]) as own:
    print(own.queue("theirs").enqueue("from the child") > 0)
"""
    assert run(forked(child, end), path) == "True\n" + UNHARMED
    with brant.open(path) as db:
        assert db.queue("theirs").stats().pending == 1


THEN_DIES = """
import signal, subprocess
touch = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM _honker_live'); c.close()"
subprocess.run([sys.executable, "-c", touch, sys.argv[1]], check=True)
print(len(queue.enqueue_many(range(50))), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_commits_after_a_fork_survive_another_program_and_a_kill(path: Path) -> None:
    # Had the child dropped the locks, the other program would have unlinked the log, and the commits with it.
    with python(forked("pass", "sys.exit(0)") + THEN_DIES, path) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert (output, process.returncode) == (UNHARMED + "50\n", -9)
    with brant.open(path) as db:
        assert db.queue("q").stats().pending == 100


CHILD_OUTLIVES_PARENT = """
parent_closed, child_told = os.pipe()
child_ready, parent_told = os.pipe()
if os.fork() == 0:
    own = brant.open(sys.argv[1])
    theirs = own.queue("theirs")
    theirs.enqueue("before")
    os.write(parent_told, b"ready")
    os.read(parent_closed, 1)
    print(len([theirs.enqueue(n) for n in range(50)]), flush=True)
    os.kill(os.getpid(), 9)
os.read(child_ready, 5)
db.close()
os.write(child_told, b"!")
print("closed", os.wait()[1])
"""


@pytest.mark.guarantee("G2")
def test_commits_of_a_child_survive_the_close_of_its_parent_and_a_kill(path: Path) -> None:
    assert run(PROGRAM + CHILD_OUTLIVES_PARENT, path) == "50\nclosed 9\n"
    with brant.open(path) as db:
        assert db.queue("theirs").stats().pending == 51
        assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


FORKS_WHILE_A_THREAD_WRITES = """
import threading
inside, done = threading.Event(), threading.Event()
def write():
    with db.transaction() as tx:
        tx.notify("c", "from the thread")
        inside.set()
        done.wait()
thread = threading.Thread(target=write)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    try:
        brant.open(sys.argv[1])
    except brant.StorageError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
done.set()
thread.join()
print(next(listener).payload)
"""


def test_a_child_of_a_busy_parent_is_told_that_it_can_not_open_the_file(path: Path) -> None:
    refusal, payload = run(PROGRAM + FORKS_WHILE_A_THREAD_WRITES, path).splitlines()
    assert "in use when this process was forked" in refusal
    assert payload == "from the thread"


def test_a_grandchild_may_open_anew_too(path: Path) -> None:
    child = """
grandchild = os.fork()
if grandchild == 0:
    with brant.open(sys.argv[1]) as own:
        own.queue("theirs").enqueue("from the grandchild")
    os._exit(0)
print(os.waitpid(grandchild, 0)[1])
"""
    assert run(forked(child, "sys.exit(0)"), path) == "0\n" + UNHARMED


FORKS_INSIDE_A_TRANSACTION = """
def child_of_a_transaction():
    with db.transaction() as tx:
        tx.execute("CREATE TABLE orders (id)")
        queue.enqueue("in the transaction", tx=tx)
        child = os.fork()
        if child == 0:
            refused(lambda: tx.execute("INSERT INTO orders VALUES (2)"), lambda: queue.enqueue(1, tx=tx))
            {leave}
        assert os.waitpid(child, 0)[1] == 0
        tx.execute("INSERT INTO orders VALUES (1)")
    return os.getpid()

parent = os.getpid()
try:
    child_of_a_transaction()
except DatabaseClosed:
    assert os.getpid() != parent
if os.getpid() != parent:
    sys.exit(0)
print(db.query("SELECT * FROM orders"), queue.stats().pending, db.query("PRAGMA integrity_check"))
"""


@pytest.mark.parametrize("leave", ["return os.getpid()", "sys.exit(0)", "os._exit(0)"])
def test_a_child_that_leaves_the_block_of_its_parent_ends_nothing(path: Path, leave: str) -> None:
    program = PROGRAM + FORKS_INSIDE_A_TRANSACTION.format(leave=leave)
    assert run(program, path) == "[{'id': 1}] 1 [{'integrity_check': 'ok'}]\n"


def test_a_child_that_exits_leaves_a_temporary_database_to_its_parent() -> None:
    program = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import brant
db = brant.open(":memory:")
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
db.queue("q").write("message")
print(os.path.exists(db.path), db.queue("q").peek())
"""
    assert run(program) == "True message\n"


def test_a_child_that_opens_for_itself_has_watchers_of_its_own(path: Path) -> None:
    child = """
with brant.open(sys.argv[1]) as own:
    events = own.update_events()
    own.notify("c", "from the child")
    print(events.wait(30))
"""
    assert run(forked(child, "sys.exit(0)"), path).startswith("True\n")
