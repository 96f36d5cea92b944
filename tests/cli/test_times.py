"""Times and ids as they are typed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import brant
from brant.cli.times import InvalidMessageId, InvalidTimestamp, message_id, timestamp
from brant.testing import FakeClock
from tests.cli.conftest import Run

SECOND = 1_000_000
DAY = 86_400 * SECOND
NEW_YEAR = 1_767_225_600 * SECOND  # 2026-01-01, UTC
LARGEST = (2**63 - 1) // 1000

READ_AS = {
    # Blanks around it.
    " 5 ": 5 * SECOND,
    "\t5s\n": 5 * SECOND,
    # With a unit.
    "5s": 5 * SECOND,
    "5ms": 5_000,
    "5ns": 0,
    "5000ns": 5,
    "1.5s": 1_500_000,
    "1.0000019s": 1_000_001,
    ".5s": 500_000,
    "5.s": 5 * SECOND,
    "1767225600s": NEW_YEAR,
    "1767225600000ms": NEW_YEAR,
    "1767225600000000000ns": NEW_YEAR,
    "9223372036854775807ns": LARGEST,
    # ISO 8601.
    "2026-01-01": NEW_YEAR,
    "20260101": NEW_YEAR,
    "2026-01-01T00:00:00Z": NEW_YEAR,
    "2026-01-01T00:00": NEW_YEAR,
    "2026-01-01 00:00:00": NEW_YEAR,
    "20260101T000000Z": NEW_YEAR,
    "2026-W01-4": NEW_YEAR,
    "2026-01-01T02:00:00+02:00": NEW_YEAR,
    "2025-12-31T19:00-05:00": NEW_YEAR,
    "2026-01-01T00:00:00.000001": NEW_YEAR + 1,
    "1970-01-01": 0,
    "1969-12-31": -DAY,
    "0001-01-01T00:00+14:00": -62_135_596_800 * SECOND - 14 * 3600 * SECOND,
    "2262-04-11T23:47:16Z": 9_223_372_036 * SECOND,
    # Whole numbers: Unix time of up to 11 digits in seconds, of up to 14 in milliseconds, then ids.
    "0": 0,
    "1767225600": NEW_YEAR,
    "99999999999": 99_999_999_999 * SECOND,
    "100000000000": 100_000_000_000 * 1000,
    "1767225600000": NEW_YEAR,
    "0001767225600": NEW_YEAR,
    "17592186044415": 17_592_186_044_415 * 1000,
    "17592186044416": 17_592_186_044_416,
    "1767225600000000": NEW_YEAR,
    "99999999999999999": 99_999_999_999_999_999,
    "100000000000000000": 100_000_000_000_000,
    "1767225600000000999": NEW_YEAR,
    "9223372036854775807": LARGEST,
    # Decimals, by the digits before the point.
    "1767225600.5": NEW_YEAR + 500_000,
    "1767225600.0000019": NEW_YEAR + 1,
    "100000000000.5": 100_000_000_000_500,
    "1767225600000.5": NEW_YEAR + 500,
    "1767225600000000000.9": NEW_YEAR,
    ".5": 500_000,
    "5.": 5 * SECOND,
}

REFUSED = {
    "": "empty string",
    "  ": "empty string",
    "1e9": "scientific notation not supported",
    "1E9s": "scientific notation not supported",
    "wednesday": "scientific notation not supported",
    "-5": "cannot be negative",
    "9223372036854775808": "exceeds maximum value",
    "9" * 39: "exceeds maximum value",
    "9" * 5000: "is too long",
    "9223372036854776000ns": "too far in future",
    "9223372037s": "too far in future",
    "9223372036854776000.5": "too far in future",
    "9999-12-31": "too far in future",
    "2262-04-12": "too far in future",
    "2026-01-01T00:00:00z": "is no ISO 8601 date or time",
    "2026-13-01": "is no ISO 8601 date or time",
    "20261301": "is no ISO 8601 date or time",
    "12345678": "is no ISO 8601 date or time",
    "Today": "is no ISO 8601 date or time",
    "5us": "use an id, Unix time, '5s', '5ms' or ISO 8601",
    "5m": "use an id",
    "5h": "use an id",
    "5S": "use an id",
    "s": "use an id",
    "now": "use an id",
    ".": "use an id",
    "1.2.3": "use an id",
    "1_000": "use an id",
    "+5": "use an id",
    "٣": "use an id",
    "0x10": "use an id",
    "-5s": "use an id",
    "-1.5": "use an id",
    "nan": "use an id",
    "inf": "use an id",
}


@pytest.mark.parametrize(("text", "micros"), READ_AS.items())
def test_a_time_is_read_as_microseconds(text: str, micros: int) -> None:
    assert timestamp(text) == micros


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=[text[:40] for text in REFUSED])
def test_what_is_no_time_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidTimestamp, match=r"^Invalid timestamp: ") as refused:
        timestamp(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1767225600000000", NEW_YEAR),
        ("0000000000000001", 1),
        ("1767225600000000000", NEW_YEAR),
        ("1767225600000000001", 0),
        ("9223372036854775807", 0),
    ],
)
def test_an_id_has_16_digits_or_19(text: str, number: int) -> None:
    assert message_id(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "176722560000000",
        "17672256000000000",
        "176722560000000000",
        "9223372036854775808",
        "17672256000000000000",
        " 1767225600000000",
        "-767225600000000",
        "1767225600000.00",
        "٣" * 16,
    ],
)
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(InvalidMessageId, match=r"^Invalid message id "):
        message_id(text)


# Through the command


def test_times_select_messages(brant_command: Run, store: brant.Database) -> None:
    queue = store.queue("q")
    ids = queue.write_many(["a", "b", "c"])
    assert brant_command("peek", "q", "--all", "--after", "0").stdout == "a\nb\nc\n"
    assert brant_command("peek", "q", "--all", "--after", "1969-12-31", "--before", "2200-01-01").stdout == "a\nb\nc\n"
    assert brant_command("peek", "q", "--all", "--after", f"{ids[0] * 1000}").stdout == "b\nc\n"
    assert (
        brant_command("peek", "q", "--all", "--before", f"{ids[2] // SECOND}.{ids[2] % SECOND:06}").stdout == "a\nb\n"
    )
    assert brant_command("read", "q", "--all", "--after", "99999999999").returncode == 2


@pytest.mark.parametrize("command", ["read", "peek"])
@pytest.mark.parametrize("option", ["--after", "--before"])
def test_a_bad_time_is_refused_before_the_database_is_made(
    brant_command: Run, command: str, option: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    refused = brant_command(command, "q", option, "soon", cwd=empty)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "brant: error: Invalid timestamp: 'soon'; use an id, Unix time, '5s', '5ms' or ISO 8601\n"
    assert list(empty.iterdir()) == []


def test_ids_never_go_back_and_are_never_used_again(brant_command: Run, tmp_path: Path) -> None:
    with brant.open(tmp_path / ".brant.db", clock=FakeClock(time.time() + 10**6)) as ahead:
        newest = ahead.queue("q").write("x")
    assert brant_command("delete", "--all").returncode == 0
    assert brant_command("write", "q", "y").returncode == 0
    assert brant_command("peek", "q", "-t").stdout == f"{newest + 1}\ty\n"
