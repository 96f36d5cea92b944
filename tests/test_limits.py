"""Rate limits: at most so many in each window of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import brant
from brant.testing import FakeClock
from tests.waiting import PATIENCE_S, in_thread, line_of, python

pytestmark = pytest.mark.both_backends

TAKES = """
import sys
import brant

db = brant.open(sys.argv[1])
print(sum(db.try_rate_limit("api", 50, 10**9) for _ in range(40)), flush=True)
"""


def _windows(db: brant.Database) -> list[tuple[int, int]]:
    rows = db.query("SELECT window_start, count FROM _honker_rate_limits ORDER BY window_start")
    return [(row["window_start"], row["count"]) for row in rows]


def test_a_limit_lets_so_many_through_and_counts_no_refusal(timed: brant.Database, clock: FakeClock) -> None:
    assert [timed.try_rate_limit("api", 3, 60) for _ in range(5)] == [True, True, True, False, False]
    assert _windows(timed) == [(clock.now() // 60 * 60, 3)]


def test_windows_begin_at_multiples_of_their_length(path: Path) -> None:
    clock = FakeClock(1_700_000_039.9)
    with brant.open(path, clock=clock) as db:
        assert db.try_rate_limit("api", 1, 20)
        assert not db.try_rate_limit("api", 1, 20)
        clock.advance(0.2)
        assert db.try_rate_limit("api", 1, 20)
        assert _windows(db) == [(1_700_000_020, 1), (1_700_000_040, 1)]


def test_limits_are_apart_by_name(db: brant.Database) -> None:
    assert db.try_rate_limit("a", 1, 10**9)
    assert db.try_rate_limit("b", 1, 10**9)
    assert not db.try_rate_limit("a", 1, 10**9)


def test_a_raised_limit_counts_what_was_let_through_before(timed: brant.Database) -> None:
    assert timed.try_rate_limit("api", 1, 60)
    assert not timed.try_rate_limit("api", 1, 60)
    assert timed.try_rate_limit("api", 2, 60)


@pytest.mark.guarantee("G1")
def test_what_is_rolled_back_was_not_let_through(timed: brant.Database) -> None:
    with pytest.raises(ZeroDivisionError), timed.transaction() as tx:
        assert timed.try_rate_limit("api", 1, 60, tx=tx)
        assert not timed.try_rate_limit("api", 1, 60, tx=tx)
        raise ZeroDivisionError
    assert timed.try_rate_limit("api", 1, 60)


def test_threads_together_stay_below_the_limit(db: brant.Database) -> None:
    def take() -> int:
        return sum(db.try_rate_limit("api", 50, 10**9) for _ in range(20))

    takers = [in_thread(take) for _ in range(5)]
    assert sum(taker.result(PATIENCE_S) for taker in takers) == 50


def test_processes_together_stay_below_the_limit(path: Path) -> None:
    brant.open(path).close()
    with python(TAKES, path) as one, python(TAKES, path) as two:
        assert int(line_of(one)) + int(line_of(two)) == 50


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize(
    ("limit", "per", "named"),
    [(0, 60, "limit"), (-1, 60, "limit"), (1.5, 60, "limit"), ("3", 60, "limit"), (3, 0, "per"), (3, 0.5, "per")],
)
def test_a_bad_limit_is_refused_and_nothing_is_counted(db: brant.Database, limit: Any, per: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named} must be"):
        db.try_rate_limit("api", limit, per)
    assert _windows(db) == []


@pytest.mark.parametrize("name", ["", "a\nb", 5])
def test_a_bad_name_is_refused(db: brant.Database, name: Any) -> None:
    with pytest.raises(brant.InvalidValue, match="limit name"):
        db.try_rate_limit(name, 1, 60)


def test_sweeping_forgets_old_windows_only(timed: brant.Database, clock: FakeClock) -> None:
    timed.try_rate_limit("api", 5, 1)
    clock.advance(3600)
    timed.try_rate_limit("api", 5, 1)
    assert timed.sweep_rate_limits() == 0
    clock.advance(1)
    assert timed.sweep_rate_limits() == 1
    assert timed.sweep_rate_limits(older_than_s=0) == 1
    assert _windows(timed) == []
