"""A server that crashes and comes back, while there is work."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import brant
import brant.tasks
from brant.errors import StorageError
from tests.servers import Server, running_server
from tests.waiting import PATIENCE_S, in_thread
from tests.worker.observing import running

pytestmark = pytest.mark.skipif("BRANT_TEST_POSTGRES" in os.environ, reason="restarts its server")
JOBS = 200


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One that no other test uses."""
    with running_server() as own:
        yield own


def in_the_end(call: Callable[[], object]) -> None:
    """As a client does that wants its work to be there."""
    for _ in range(400):
        try:
            call()
        except StorageError:
            threading.Event().wait(0.05)
        else:
            return
    raise AssertionError("the server did not come back")


def test_workers_and_listeners_resume_by_themselves_and_nothing_is_lost(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brant.tasks, "_process_wide", brant.tasks.Registry())
    assert server.restart is not None
    ran: Counter[int] = Counter()
    some_ran, all_ran = threading.Event(), threading.Event()
    with server.database() as address, brant.open(address) as db:
        queue = db.queue("q", visibility_timeout_s=2, max_attempts=10)

        @queue.task(name="count")
        def count(number: int) -> None:
            ran[number] += 1
            if len(ran) > JOBS // 4:
                some_ran.set()
            if len(ran) == JOBS:
                all_ran.set()

        listener = db.listen("c", fallback_poll_s=None)
        with running(db, "q", 2):
            for number in range(JOBS):
                if number == JOBS // 2:
                    assert some_ran.wait(PATIENCE_S)
                    server.restart()
                in_the_end(lambda number=number: count(number))  # type: ignore[misc]
            assert all_ran.wait(PATIENCE_S)
            server.restart()
            heard = in_thread(listener.get, PATIENCE_S)
            in_the_end(lambda: db.notify("c", "back again"))
            assert heard.result(PATIENCE_S) is not None
        assert set(ran) == set(range(JOBS))
        assert max(ran.values()) <= 3
