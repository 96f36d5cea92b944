"""Webhooks: received with their signatures checked, handled, and over HTTP from the server's own command."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import brant
from bench.inbox_floor import InboxFloor
from bench.inbox_http import Client, serving, serving_bare, signed, slow_syncs
from bench.measure import Case, Work
from brant.inbox import Endpoint, Event

NAME = "webhooks"
SLOTS = (4, 16)
CONNECTIONS = (1, 64)
_ROUNDS = 5
_GOAL, _GROUP_COMMIT_GOAL = 0.6, 10.0
_SLOW_SYNC_MS = 5
# Three times what Knocker publishes for its best runs (3,460 received and 3,282 handled a second, normal sync), where
# one row in a transaction of its own is said to reach 47,000.
_RECEIVED_AGAINST_A_ROW, _HANDLED_AGAINST_A_ROW = 3 * 3460 / 47_000, 3 * 3282 / 47_000


class Latencies:
    """How long each call took, over all rounds."""

    def __init__(self) -> None:
        self._of: dict[str, list[float]] = {}

    def timed(self, name: str, call: Callable[[], object]) -> None:
        begun = time.perf_counter()
        call()
        self._of.setdefault(name, []).append(time.perf_counter() - begun)

    def lines(self) -> list[str]:
        return [_line(name, statistics.quantiles(times, n=100)) for name, times in self._of.items() if len(times) > 1]


def _line(name: str, cuts: list[float]) -> str:
    return f"{name}: p50 {cuts[49] * 1000:.2f} ms, p99 {cuts[98] * 1000:.2f} ms"


@contextmanager
def cases(folder: Path, count: int, latencies: Latencies) -> Iterator[list[Case]]:
    """Rates are requests or events a second; the server ends with the block."""
    place = folder / "inbox"
    place.mkdir()
    with ExitStack() as stack:
        found = [_receive_case(stack, place, sync, count, latencies) for sync in ("full", "normal")]
        found += [_drain_case(stack, place, slots, count) for slots in SLOTS]
        rows = InboxFloor(place / "rows.db", "normal")
        against_rows = [
            _against_rows(found[1], rows, _RECEIVED_AGAINST_A_ROW),
            _against_rows(found[3], rows, _HANDLED_AGAINST_A_ROW),
        ]
        yield [*found, *against_rows, *_http_cases(stack, place, count)]


def _against_rows(case: Case, rows: InboxFloor, least: float) -> Case:
    name = f"{case.name}, against one row"
    prepare = {contender: work for contender, work in case.prepare.items() if contender == "brant"}
    return Case(name, case.count, case.brant, rows.insert, round(least, 2), prepare=prepare, rounds=_ROUNDS)


def _receive_case(stack: ExitStack, place: Path, sync: str, count: int, latencies: Latencies) -> Case:
    name = f"{NAME}: receive, verified, {sync} sync"
    endpoint = _endpoint(stack, place / f"receive-{sync}.db", sync)
    numbers = itertools.count()
    requests: list[tuple[bytes, list[tuple[str, str]]]] = []

    def send(count: int) -> None:
        requests[:] = [signed(next(numbers)) for _ in range(count)]

    def receive(count: int) -> None:
        for body, headers in requests[:count]:
            latencies.timed(name, lambda body=body, headers=headers: endpoint.receive(body, headers))  # type: ignore[misc]

    floor = InboxFloor(place / f"receive-{sync}-floor.db", sync)
    count = count // 2 if sync == "full" else count
    return Case(name, count, receive, floor.receive, _GOAL, prepare={"brant": send}, rounds=_ROUNDS)


def _drain_case(stack: ExitStack, place: Path, slots: int, count: int) -> Case:
    endpoint = _endpoint(stack, place / f"drain-{slots}.db", "normal")
    floor = InboxFloor(place / f"drain-{slots}-floor.db", "normal")
    inbox, numbers = endpoint.inbox, itertools.count()

    @endpoint.handle()
    def note(event: Event, tx: brant.Transaction) -> None:
        tx.execute("INSERT INTO ledger VALUES (?)", [event.id])

    def fill(count: int) -> None:
        with inbox.db.transaction() as tx:
            for _ in range(count):
                body, headers = signed(next(numbers))
                endpoint.ingest(body, headers, tx=tx)

    def drain(count: int) -> None:  # noqa: ARG001
        asyncio.run(inbox.worker(slots, drain=True, scheduler=False).run())

    prepare: dict[str, Work] = {"brant": fill, "floor": floor.fill}
    name = f"{NAME}: handle, {slots} slots"
    count = count // slots * slots
    return Case(name, count, drain, partial(floor.handle, batch=slots), _GOAL, prepare=prepare, rounds=_ROUNDS)


def _http_cases(stack: ExitStack, place: Path, count: int) -> list[Case]:
    """By keep-alive connections, against the floor with full sync; then many of them against one.

    How much a shared commit is worth depends on what a sync costs: on a disk whose sync takes less time than a request,
    nothing could make ten times of it.
    """
    numbers = itertools.count()

    def clients(address: tuple[str, int]) -> dict[int, Work]:
        return {many: Client(address, many, numbers).send for many in CONNECTIONS}

    send = clients(stack.enter_context(serving(place)))
    bare = clients(stack.enter_context(serving_bare(place)))
    floor = InboxFloor(place / "http-floor.db", "full")
    one, many = CONNECTIONS
    few = count // 4
    name = f"{NAME}: HTTP, full sync"
    cases = [
        Case(f"{name}, {one} connection", few, send[one], floor.receive, _GOAL, rounds=_ROUNDS),
        Case(f"{name}, {one} connection, against a bare app", few, send[one], bare[one], _GOAL, rounds=_ROUNDS),
        Case(f"{name}, {many} connections", count, send[many], floor.receive, _GOAL, rounds=_ROUNDS),
        Case(
            f"{name}, {many} connections against {one}",
            count,
            send[many],
            send[one],
            _GROUP_COMMIT_GOAL,
            rounds=_ROUNDS,
        ),
    ]
    if (library := slow_syncs(place)) is not None:
        slow = clients(stack.enter_context(serving(place / "slow", slowly=library, sync_ms=_SLOW_SYNC_MS)))
        title = f"{name} of {_SLOW_SYNC_MS} ms, {many} connections against {one}"
        cases.append(Case(title, 2 * count, slow[many], slow[one], _GROUP_COMMIT_GOAL, rounds=3))
    return cases


def _endpoint(stack: ExitStack, path: Path, sync: str) -> Endpoint:
    db = stack.enter_context(brant.open(path))
    with db.transaction() as tx:
        tx.execute("CREATE TABLE ledger (event INTEGER)")
    inbox = stack.enter_context(brant.Inbox(db, synchronous=sync))
    return inbox.endpoint("hooks", provider="github", secrets="hush")
