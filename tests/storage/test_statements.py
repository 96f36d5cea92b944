"""Loading named SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from brant.statements import load_statements

SQL = """\
-- What is ready.
-- fragment: due
run_at <= :now

-- fragment: ready
state = 'pending' AND {{due}}

-- name: count
SELECT count(*)
FROM jobs WHERE {{ready}}
-- A comment may follow at once.
-- name: all
SELECT * FROM jobs
"""


def test_statements_by_name_with_their_fragments(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(SQL)
    (tmp_path / "b.sql").write_text("-- name: due\nSELECT 1 WHERE {{due}}\n")
    assert load_statements(str(tmp_path)) == {
        "count": "SELECT count(*)\nFROM jobs WHERE state = 'pending' AND run_at <= :now",
        "all": "SELECT * FROM jobs",
        "due": "SELECT 1 WHERE run_at <= :now",
    }


@pytest.mark.parametrize(
    ("sql", "error", "why"),
    [
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n", KeyError, "defined twice"),
        ("-- name: a\nSELECT {{missing}}\n", KeyError, "missing"),
        ("-- name: a\nSELECT 1,\n-- two\n2\n", ValueError, "'two'; put it above the header"),
        ("-- name: a\nSELECT 1, -- one\n2\n", ValueError, "'name: a'; put it above the header"),
        ("-- nam: a\nSELECT 1\n", ValueError, "'nam: a'; put it above the header"),
        ("SELECT 1\n", ValueError, "put it above the header"),
    ],
)
def test_what_would_be_misread_is_an_error(tmp_path: Path, sql: str, error: type[Exception], why: str) -> None:
    (tmp_path / "a.sql").write_text(sql)
    with pytest.raises(error, match=why):
        load_statements(str(tmp_path))
