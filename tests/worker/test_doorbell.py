"""A bench that has nothing to do takes the commits of others together; what is for itself it hears at once."""

from __future__ import annotations

import time

import pytest

import brant
from brant.worker import doorbell
from brant.worker.doorbell import Doorbell


@pytest.fixture
def bell(db: brant.Database, monkeypatch: pytest.MonkeyPatch) -> Doorbell:
    monkeypatch.setattr(doorbell, "_SOON_S", 3600.0)
    monkeypatch.setattr(doorbell, "_REST_S", 3600.0)  # who rests is not heard of again
    return Doorbell(db._storage)


def hear(db: brant.Database, bell: Doorbell, *, found_nothing: bool) -> None:
    db.notify("elsewhere", 1)
    assert bell.wait_again(10, found_nothing=found_nothing)


def test_the_first_commits_are_heard_at_once_and_many_in_vain_together(
    db: brant.Database, bell: Doorbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        hear(db, bell, found_nothing=True)
    monkeypatch.setattr(doorbell, "_REST_S", 0.05)
    for _ in range(10):
        hear(db, bell, found_nothing=True)
    began = time.monotonic()
    hear(db, bell, found_nothing=True)
    assert time.monotonic() - began >= 0.05


def test_whoever_finds_something_never_rests(db: brant.Database, bell: Doorbell) -> None:
    for _ in range(20):
        hear(db, bell, found_nothing=False)


def test_a_ring_ends_the_rest(db: brant.Database, bell: Doorbell, monkeypatch: pytest.MonkeyPatch) -> None:
    tire(db, bell, monkeypatch)
    bell.ring()
    assert bell.wait_again(0, found_nothing=True)


def test_after_a_while_without_commits_the_next_is_heard_at_once(
    db: brant.Database, bell: Doorbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    tire(db, bell, monkeypatch)
    monkeypatch.setattr(doorbell, "_SOON_S", 0.0)
    hear(db, bell, found_nothing=True)


def tire(db: brant.Database, bell: Doorbell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next time it rests."""
    with monkeypatch.context() as patch:
        patch.setattr(doorbell, "_REST_S", 0.0)
        for _ in range(10):
            hear(db, bell, found_nothing=True)
