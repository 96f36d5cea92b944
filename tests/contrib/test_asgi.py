"""A worker inside an application: runs while it does, stops softly with it, and fails loudly."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import brant
from brant import tasks
from brant.contrib.asgi import worker_lifespan
from brant.worker import WorkerEvent
from tests.looping import run


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_process_wide", tasks.Registry())


def test_tasks_run_while_the_application_does_and_wait_afterwards(db: brant.Database) -> None:
    @db.task("q")
    def double(n: int) -> int:
        return 2 * n

    async def lives() -> None:
        for n in (1, 2):
            async with worker_lifespan(db, {"q": 1})(None):
                assert await double(n).aget() == 2 * n
        double(3)

    run(lives())
    assert db.queue("q").stats().pending == 1


def test_what_runs_may_finish_when_the_application_stops(db: brant.Database) -> None:
    started, stopping = asyncio.Event(), asyncio.Event()
    ended = []

    @db.task("q")
    async def work() -> None:
        started.set()
        await stopping.wait()
        for _ in range(100):  # turns of the loop, in which the worker could have ended it
            await asyncio.sleep(0)
        ended.append(True)

    async def life() -> None:
        async with worker_lifespan(db)(None):
            work()
            await started.wait()
            stopping.set()  # the function goes on only after the block was left

    run(life())
    assert ended == [True]
    assert db.queue("q").stats().total == 0


def test_it_takes_the_options_of_a_worker(db: brant.Database) -> None:
    seen: list[str] = []

    def note(event: WorkerEvent) -> None:
        seen.append(event.kind)

    @db.task("q")
    def work() -> int:
        return 1

    async def life() -> None:
        async with worker_lifespan(db, observers=(note,), scheduler=False)(None):
            await work().aget()

    run(life())
    assert (seen[0], seen[-1]) == ("start", "stop")


def test_an_error_of_the_application_stops_the_worker_too(db: brant.Database) -> None:
    @db.task("q")
    def work() -> None: ...

    async def life() -> None:
        async with worker_lifespan(db)(None):
            raise KeyError("start-up failed")

    with pytest.raises(KeyError):
        run(life())


def test_a_worker_that_ends_by_itself_is_told_of_at_once_and_raised_at_the_end(path: Path, db: brant.Database) -> None:
    @db.task("q")
    def work() -> None: ...

    told = asyncio.Event()

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "has ended" in record.getMessage():
                told.set()

    handler = Telling()
    logging.getLogger("brant.worker").addHandler(handler)

    async def life() -> None:
        async with worker_lifespan(db, scheduler=False)(None):
            path.unlink()
            await told.wait()

    try:
        with pytest.raises(brant.BrantError):
            run(life())
    finally:
        logging.getLogger("brant.worker").removeHandler(handler)
    assert told.is_set(), "the application learned of it only when it stopped"
