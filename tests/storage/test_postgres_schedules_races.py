"""A schedule on Postgres fires once at each of its times, however many schedulers there are."""

from __future__ import annotations

from itertools import chain

import pytest

from brant.storage.base import Storage
from brant.storage.schedules import Fire
from brant.testing import FakeClock
from tests.storage.side_by_side import Clients, clients
from tests.waiting import PATIENCE_S, in_thread

__all__ = ["clients"]

NOW = 1_700_000_000
SCHEDULERS = 8


def register(storage: Storage, name: str = "s") -> None:
    with storage.transaction() as session:
        session.register_schedule(name, "q", "@every 60s", "1", tz="UTC")


def tick(storage: Storage, clock: FakeClock) -> list[Fire]:
    with storage.transaction() as session:
        return session.tick(clock.now())


def next_fire(storage: Storage) -> int:
    with storage.reading() as session:
        schedule = session.get_schedule("s")
    assert schedule is not None
    return schedule.next_fire_at


@pytest.mark.guarantee("G13")
def test_each_time_fires_once_however_many_schedulers_tick(clients: Clients, clock: FakeClock) -> None:
    storage = clients.new()
    names = [f"s{number}" for number in range(10)]
    for name in names:
        register(storage, name)
    for _ in range(5):
        clock.advance(60)
        fired = clients.at_once(SCHEDULERS, lambda own, _: tick(own, clock))
        assert sorted(fire.name for fire in chain.from_iterable(fired)) == names
    with storage.reading() as session:
        assert session.queue_counts("q").pending == 50


@pytest.mark.guarantee("G13")
def test_a_fire_that_is_rolled_back_is_made_by_the_next(clients: Clients, clock: FakeClock) -> None:
    storage = clients.new()
    register(storage)
    clock.advance(60)
    failing = clients.begin()
    assert len(failing.session.tick(clock.now())) == 1
    assert tick(storage, clock) == []
    failing.roll_back()
    assert len(tick(storage, clock)) == 1


@pytest.mark.guarantee("G13")
@pytest.mark.parametrize("change", ["register", "update"])
def test_who_changes_a_schedule_while_it_fires_does_not_turn_it_back(
    clients: Clients, clock: FakeClock, change: str
) -> None:
    storage = clients.new()
    register(storage)
    clock.advance(60)

    def update() -> None:
        with storage.transaction() as session:
            session.update_schedule("s", priority=5)

    firing = clients.begin()
    assert len(firing.session.tick(clock.now())) == 1
    changing = in_thread(register, storage) if change == "register" else in_thread(update)
    clients.wait_until_blocked()
    firing.commit()
    changing.result(PATIENCE_S)
    assert next_fire(storage) == NOW + 120
    assert tick(storage, clock) == []
