"""The arithmetic of a read: shares and slices. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brant.pipeline.extents import Extent, deal, fair_shares, pack, slices_for

SIZES = st.lists(st.integers(0, 500), max_size=20)


def extents(sizes: list[int]) -> list[Extent]:
    return [Extent(f"t{number}", f"/{number}.db", 100, 100 + size) for number, size in enumerate(sizes)]


def rows(packed: list[list[Extent]]) -> list[tuple[str, int]]:
    return [
        (extent.tenant, offset) for part in packed for extent in part for offset in range(extent.after, extent.until)
    ]


@given(SIZES, st.integers(1, 10), st.none() | st.integers(1, 100))
def test_each_row_is_in_exactly_one_slice(sizes: list[int], slices: int, most: int | None) -> None:
    whole = extents(sizes)
    assert sorted(rows(pack(whole, slices, most))) == sorted(rows([whole]))


@given(SIZES, st.integers(1, 10), st.integers(1, 100))
def test_no_slice_is_larger_than_the_most(sizes: list[int], slices: int, most: int) -> None:
    assert all(sum(extent.size for extent in part) <= most for part in pack(extents(sizes), slices, most))


@given(SIZES, st.integers(1, 10))
def test_no_slice_is_empty(sizes: list[int], slices: int) -> None:
    assert all(sum(extent.size for extent in part) for part in pack(extents(sizes), slices))


def test_one_large_file_is_cut_into_like_slices() -> None:
    packed = pack([Extent("a", "/a.db", 0, 1000)], 4)
    assert [[(extent.after, extent.until) for extent in part] for part in packed] == [
        [(0, 250)],
        [(250, 500)],
        [(500, 750)],
        [(750, 1000)],
    ]


def test_many_small_files_share_slices_and_stay_whole() -> None:
    packed = pack(extents([10] * 200), 4)
    assert len(packed) == 4
    assert sum(len(part) for part in packed) == 200


def test_nothing_to_read_is_no_slice() -> None:
    assert pack(extents([0, 0]), 4) == []


def test_whole_files_are_dealt_to_slices() -> None:
    whole = extents([0] * 5)
    assert sorted(extent.tenant for part in deal(whole, 2) for extent in part) == ["t0", "t1", "t2", "t3", "t4"]
    assert len(deal(whole, 2)) == 2
    assert deal([], 2) == []


BACKLOGS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 10_000), max_size=12)


@given(BACKLOGS, st.integers(1, 5_000))
def test_shares_use_the_limit_and_pass_no_backlog(backlogs: dict[str, int], limit: int) -> None:
    shares = fair_shares(backlogs, limit)
    assert sum(shares.values()) == min(limit, sum(backlogs.values()))
    assert all(0 <= shares[tenant] <= backlog for tenant, backlog in backlogs.items())


@given(BACKLOGS, st.integers(1, 5_000))
def test_shares_are_in_proportion(backlogs: dict[str, int], limit: int) -> None:
    shares = fair_shares(backlogs, limit)
    part = min(1.0, limit / max(1, sum(backlogs.values())))
    assert all(abs(shares[tenant] - backlog * part) <= 1 for tenant, backlog in backlogs.items())


@pytest.mark.parametrize(
    ("rows", "cores", "least", "expected"),
    [(10, 8, None, 1), (1_000_000, 2, None, 2), (120_000, 8, None, 3), (10, 8, 4, 4), (10**7, 2, 6, 6)],
)
def test_slices_are_as_many_as_there_is_work_for(rows: int, cores: int, least: int | None, expected: int) -> None:
    assert slices_for(rows, cores, least) == expected
