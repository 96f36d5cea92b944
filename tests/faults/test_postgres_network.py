"""Connections that are lost in silence: each call ends in time, with an error that says so, and all goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

import brant
import brant.tasks
from brant.errors import StorageError
from tests.faults.swallowing import Network, network_before, socket_of
from tests.servers import Server
from tests.waiting import PATIENCE_S, in_thread
from tests.worker.observing import running

CALLS: dict[str, Callable[[brant.Database], object]] = {
    "enqueue": lambda db: db.queue("q").enqueue(1),
    "claim": lambda db: db.queue("q").claim_one("w"),
    "publish": lambda db: db.stream("s").publish(1),
    "notify": lambda db: db.notify("c", 1),
    "limit": lambda db: db.try_rate_limit("l", 1000, 60),
    "stats": lambda db: db.queue("q").stats(),
    "read": lambda db: db.stream("s").read(),
    "query": lambda db: db.query("SELECT 1"),
    "transaction": lambda db: written_in_a_transaction(db),
}


def written_in_a_transaction(db: brant.Database) -> None:
    with db.transaction() as tx:
        tx.query("SELECT 1")


@pytest.fixture
def through(postgres_server: Server) -> Iterator[tuple[Network, str]]:
    with postgres_server.database() as address:
        if not socket_of(address):
            pytest.skip("the server has no socket to stand in front of")
        with network_before(address) as (network, url):
            yield network, f"{url}?brant_timeout=0.2&connect_timeout=2"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brant.storage.postgres.connecting._GRACE_S", 0.1)
    monkeypatch.setattr("brant.storage.postgres.connecting.PROMPT_S", 0.3)


def used(db: brant.Database) -> None:
    """Have it make the connections that its calls use."""
    for call in CALLS.values():
        call(db)


def test_each_call_ends_with_an_error_that_says_so(through: tuple[Network, str]) -> None:
    network, address = through
    with brant.open(address, busy_timeout_ms=100) as db:
        used(db)
        network.fall_silent()
        calls = {name: in_thread(call, db) for name, call in CALLS.items()}
        for name, call in calls.items():
            error = call.exception(PATIENCE_S)
            assert isinstance(error, StorageError), name
            assert "answer" in str(error) or "lost during the commit" in str(error), name
        network.come_back()
        used(db)


@pytest.mark.parametrize("name", list(CALLS))
def test_a_call_on_a_connection_that_was_lost_while_nobody_used_it_works_or_says_so(
    through: tuple[Network, str], name: str
) -> None:
    network, address = through
    with brant.open(address, busy_timeout_ms=100) as db:
        used(db)
        assert network.lose_connections() >= 2
        error = in_thread(CALLS[name], db).exception(PATIENCE_S)
        assert error is None or isinstance(error, StorageError)
        # All of those that were lost are replaced: nobody has to find the next one.
        used(db)


def test_a_worker_goes_on_after_its_connections_were_lost(
    through: tuple[Network, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brant.tasks, "_process_wide", brant.tasks.Registry())
    network, address = through
    ran: list[int] = []
    rounds = [threading.Event() for _ in range(3)]
    with brant.open(address, busy_timeout_ms=100) as db:
        queue = db.queue("q", visibility_timeout_s=1, max_attempts=100)

        @queue.task(name="note")
        def note(number: int) -> None:
            ran.append(number)
            rounds[number].set()

        with running(db, "q", 2), brant.open(address, busy_timeout_ms=100) as producer:
            for number, done in enumerate(rounds):
                in_the_end(lambda number=number: producer.queue("q").enqueue(note_call(number)))  # type: ignore[misc]
                assert done.wait(PATIENCE_S)
                network.lose_connections()
    assert set(ran) == {0, 1, 2}


def note_call(number: int) -> dict[str, object]:
    return brant.tasks.envelope("note", (number,), {})


def in_the_end(call: Callable[[], object]) -> None:
    """As a client does that wants its work to be there."""
    try:
        call()
    except StorageError:
        call()


def test_who_listens_hears_again_after_the_connection_for_that_was_lost(
    through: tuple[Network, str], postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brant.storage.postgres.wake.SAFETY_S", 0.2)
    network, address = through
    with brant.open(address) as db, brant.open(address, busy_timeout_ms=100) as other:
        listener = db.listen("c", fallback_poll_s=None)
        network.lose_connections()
        in_the_end(lambda: other.notify("c", "still there"))
        heard = in_thread(listener.get, PATIENCE_S).result(PATIENCE_S)
    assert heard is not None
    assert heard.payload == "still there"
