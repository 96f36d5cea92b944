"""No room to write: a typed error, nothing half-written, and everything works again when there is room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.errors import StorageFull, TransactionError
from tests.waiting import PATIENCE_S

BALLAST_BYTES = 700_000
MESSAGE = "x" * 4000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB that has a ballast on it, to be removed to make room."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small disk")
    try:
        (place / "ballast").write_bytes(b"\0" * BALLAST_BYTES)
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def write_until_full(queue: brant.Queue) -> list[int]:
    confirmed = []
    with pytest.raises(StorageFull, match="database or disk is full: no room to write"):
        while True:
            confirmed.append(queue.write(MESSAGE))
    return confirmed


def assert_intact(queue: brant.Queue, ids: list[int]) -> None:
    assert [message.id for message in queue.peek_generator()] == ids
    assert queue.db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


@pytest.mark.guarantee("G2")
def test_what_was_confirmed_is_there_and_writing_goes_on_when_there_is_room(small_disk: Path) -> None:
    with brant.open(small_disk / "app.db") as db:
        queue = db.queue("q")
        confirmed = write_until_full(queue)
        assert_intact(queue, confirmed)
        (small_disk / "ballast").unlink()
        confirmed.append(queue.write(MESSAGE))
        assert_intact(queue, confirmed)
    with brant.open(small_disk / "app.db") as db:
        assert_intact(db.queue("q"), confirmed)


def test_a_full_queue_can_be_drained_when_there_is_room(small_disk: Path) -> None:
    with brant.open(small_disk / "app.db") as db:
        queue = db.queue("q")
        confirmed = write_until_full(queue)
        (small_disk / "ballast").unlink()
        assert [message.id for message in queue.read_generator()] == confirmed


@pytest.mark.guarantee("G16")
def test_a_batch_that_does_not_fit_leaves_nothing(small_disk: Path) -> None:
    with brant.open(small_disk / "app.db") as db:
        queue = db.queue("q")
        queue.write("before")
        with pytest.raises(StorageFull):
            queue.enqueue_many([MESSAGE] * 2000)
        with pytest.raises(StorageFull):
            db.stream("s").publish_many([MESSAGE] * 2000)
        assert [*queue.peek_many()] == ["before"]
        assert db.stream("s").head() == 0
        assert queue.write("a small one still fits") > 0


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("jobs", [2_000, 12_000], ids=["found at the commit", "found in the block"])
def test_a_transaction_that_does_not_fit_leaves_nothing(small_disk: Path, jobs: int) -> None:
    with brant.open(small_disk / "app.db") as db:
        queue = db.queue("q")
        with pytest.raises(StorageFull), db.transaction() as tx:
            tx.execute("CREATE TABLE orders (id)")
            queue.write("in the transaction", tx=tx)
            queue.enqueue_many([MESSAGE] * jobs, tx=tx)
        assert queue.stats().pending == 0
        assert db.query("SELECT * FROM sqlite_schema WHERE name = 'orders'") == []
        assert queue.write("the next one works") > 0


@pytest.mark.guarantee("G16")
def test_a_transaction_that_the_disk_ended_takes_nothing_more(small_disk: Path) -> None:
    with brant.open(small_disk / "app.db") as db:
        queue = db.queue("q")
        with pytest.raises(TransactionError, match="ended inside the block"), db.transaction() as tx:
            with pytest.raises(StorageFull):
                queue.enqueue_many([MESSAGE] * 12_000, tx=tx)
            tx.execute("CREATE TABLE orders (id)")
        assert queue.stats().pending == 0
        assert db.query("SELECT * FROM sqlite_schema WHERE name = 'orders'") == []


@pytest.mark.guarantee("G5")
def test_a_job_whose_ack_finds_no_room_stays_claimed_and_is_acked_later(small_disk: Path) -> None:
    with brant.open(small_disk / "app.db") as db:
        queue = db.queue("q")
        queue.write("job")
        job = queue.claim_one("w")
        assert job is not None
        write_until_full(db.queue("other"))
        full = (small_disk / "rest").open("wb", buffering=0)
        with full, pytest.raises(OSError, match="No space"):
            while True:
                full.write(b"\0" * 512)
        with pytest.raises(StorageFull):
            while job.heartbeat():
                pass
        (small_disk / "ballast").unlink()
        assert job.ack()


def test_opening_on_a_full_disk_is_a_typed_error_and_works_when_there_is_room(small_disk: Path) -> None:
    filler = (small_disk / "filler").open("wb", buffering=0)
    with filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(b"\0" * 4096)
    with pytest.raises(StorageFull):
        brant.open(small_disk / "app.db")
    (small_disk / "ballast").unlink()
    with brant.open(small_disk / "app.db") as db:
        assert db.queue("q").write("message") > 0


WITH_A_LIMIT = """
import resource, signal, sys
import brant
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with brant.open(sys.argv[1]) as db:
    queue = db.queue("q")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    ids = []
    try:
        while True:
            ids.append(queue.write("x" * 4000))
    except brant.StorageError as error:
        print(type(error).__name__, "file size limit" in str(error))
    found = [message.id for message in queue.peek_generator()]
    print(found == ids, db.query("PRAGMA integrity_check"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    ids.append(queue.write("again"))
    print([message.id for message in queue.read_generator()] == ids)
"""


@pytest.mark.guarantee("G2")
def test_a_file_size_limit_is_a_storage_error_that_names_it(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_LIMIT, path], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout.splitlines() == ["StorageError True", "True [{'integrity_check': 'ok'}]", "True"], done.stderr
