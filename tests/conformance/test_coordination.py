"""Locks, rate limits and results."""

from __future__ import annotations

import pytest

from brant.storage.session import Session
from brant.testing import FakeClock

NOW = 1_700_000_000

# Locks


@pytest.mark.guarantee("G15")
def test_a_lock_has_one_holder(session: Session) -> None:
    assert session.acquire_lock("l", "a", 60)
    assert not session.acquire_lock("l", "b", 60)
    assert session.acquire_lock("other", "b", 60)
    assert session.lock_holder("l") == ("a", NOW + 60)


def test_acquiring_again_succeeds_and_does_not_prolong(session: Session, clock: FakeClock) -> None:
    session.acquire_lock("l", "a", 60)
    clock.advance(30)
    assert session.acquire_lock("l", "a", 60)
    assert session.lock_holder("l") == ("a", NOW + 60)


@pytest.mark.guarantee("G15")
@pytest.mark.parametrize(("ttl", "held_for"), [(60, 60.25), (2.5, 2.25)])
def test_a_lock_is_held_for_its_whole_time_and_then_free(
    session: Session, clock: FakeClock, ttl: float, held_for: float
) -> None:
    clock.advance(0.5)
    session.acquire_lock("l", "a", ttl)
    clock.advance(held_for)
    assert not session.acquire_lock("l", "b", 60)
    clock.advance(0.25)
    assert session.acquire_lock("l", "b", 60)


@pytest.mark.guarantee("G15")
def test_a_lock_is_renewed_only_by_its_holder_and_only_while_it_is_held(session: Session, clock: FakeClock) -> None:
    session.acquire_lock("l", "a", 60)
    clock.advance(59)
    assert not session.renew_lock("l", "b", 60)
    assert session.renew_lock("l", "a", 60)
    assert session.lock_holder("l") == ("a", NOW + 119)
    clock.advance(60)
    assert not session.renew_lock("l", "a", 60)
    assert not session.renew_lock("unknown", "a", 60)


def test_only_the_holder_releases_a_lock(session: Session) -> None:
    session.acquire_lock("l", "a", 60)
    assert not session.release_lock("l", "b")
    assert session.release_lock("l", "a")
    assert not session.release_lock("l", "a")
    assert session.lock_holder("l") is None


def test_locks_that_ran_out_are_swept(session: Session, clock: FakeClock) -> None:
    session.acquire_lock("short", "a", 10)
    session.acquire_lock("long", "a", 60)
    clock.advance(10)
    assert session.sweep_locks() == 1
    assert session.lock_holder("short") is None
    assert session.lock_holder("long") is not None


# Rate limits


def test_a_window_takes_as_many_as_its_limit(session: Session, clock: FakeClock) -> None:
    clock.advance(10 - NOW % 10)
    assert [session.try_rate_limit("r", 2, 10) for _ in range(3)] == [True, True, False]
    assert session.try_rate_limit("other", 1, 10)
    clock.advance(9.75)
    assert not session.try_rate_limit("r", 2, 10)
    clock.advance(0.25)
    assert session.try_rate_limit("r", 2, 10)


def test_what_was_refused_does_not_count(session: Session) -> None:
    assert [session.try_rate_limit("r", 1, 10) for _ in range(3)] == [True, False, False]
    assert session.try_rate_limit("r", 2, 10)


def test_old_windows_are_swept(session: Session, clock: FakeClock) -> None:
    session.try_rate_limit("r", 1, 1)
    clock.advance(60)
    session.try_rate_limit("r", 1, 1)
    assert session.sweep_rate_limits(60) == 0
    assert session.sweep_rate_limits(59) == 1
    assert not session.try_rate_limit("r", 1, 1)


# Results


def test_a_result_needs_no_job_and_is_replaced_by_a_newer_one(session: Session) -> None:
    assert session.get_result(7) == (False, None)
    session.save_result(7, '"old"', 0)
    session.save_result(7, '"new"', 0)
    assert session.get_result(7) == (True, '"new"')


@pytest.mark.parametrize(("ttl", "kept_for"), [(60, 60.25), (2.5, 2.25)])
def test_a_result_is_kept_for_its_whole_time(session: Session, clock: FakeClock, ttl: float, kept_for: float) -> None:
    clock.advance(0.5)
    session.save_result(7, "1", ttl)
    clock.advance(kept_for)
    assert session.get_result(7) == (True, "1")
    clock.advance(0.25)
    assert session.get_result(7) == (False, None)


def test_a_result_without_a_time_is_kept(session: Session, clock: FakeClock) -> None:
    session.save_result(7, "1", 10)
    session.save_result(7, "2", 0)
    clock.advance(10**9)
    assert session.sweep_results() == 0
    assert session.get_result(7) == (True, "2")


def test_results_whose_time_is_over_are_swept(session: Session, clock: FakeClock) -> None:
    session.save_result(7, "1", 10)
    session.save_result(8, "1", 60)
    clock.advance(10)
    assert session.sweep_results() == 1
    assert session.sweep_results() == 0
    assert session.get_result(8) == (True, "1")
