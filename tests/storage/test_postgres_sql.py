"""How SQL and addresses are made ready for the server."""

from __future__ import annotations

import pytest

from brant.config import without_password
from brant.errors import InvalidValue
from brant.storage.postgres.address import Address
from brant.storage.postgres.sql import in_schema, statements_of, with_numbers


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("SELECT ?, ?", "SELECT $1, $2"),
        ("SELECT '?' || \"a?\" || ?", "SELECT '?' || \"a?\" || $1"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', $1"),
        (r"SELECT E'\'?', ?", r"SELECT E'\'?', $1"),
        ("SELECT $$?$$, $tag$ $$ ? $tag$, ?", "SELECT $$?$$, $tag$ $$ ? $tag$, $1"),
        ("SELECT 1 -- ?\n, ?", "SELECT 1 -- ?\n, $1"),
        ("SELECT /* ? */ ?", "SELECT /* ? */ $1"),
        ("SELECT '{}'::jsonb ?? ?", "SELECT '{}'::jsonb ? $1"),
        ("SELECT 1", "SELECT 1"),
        ("SELECT ?2, ?1, ?2", "SELECT $2, $1, $2"),
        ("SELECT ?10, '?1', ?", "SELECT $10, '?1', $11"),
        ("SELECT ?, ?1, ?", "SELECT $1, $1, $2"),
        ("SELECT '{}'::jsonb ??1", "SELECT '{}'::jsonb ?1"),
    ],
)
def test_a_question_mark_of_the_users_is_a_parameter_unless_it_is_quoted_or_doubled(written: str, sent: str) -> None:
    assert with_numbers(written) == sent


def test_a_parameter_that_is_used_twice_is_sent_once() -> None:
    statement = statements_of("brant")["cancel"]
    assert statement.params == ("id",)
    assert statement.sql.startswith('DELETE FROM "brant"._honker_live WHERE id = $1 ')
    extending = statements_of("brant")["extend"]
    assert len(set(extending.params)) == len(extending.params)


def test_another_schema_takes_the_place_of_the_default_one() -> None:
    assert in_schema("SELECT brant.f('brant.ids') FROM brant.t", 'my"own') == (
        'SELECT "my""own".f(\'"my""own".ids\') FROM "my""own".t'
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/app", "postgresql://me@host/app"),
        ("postgres://me:secret@host:5433/app?sslmode=require", "postgresql://me@host:5433/app"),
        ("postgresql:///app?host=/run/pg&password=secret", "postgresql:///app?host=/run/pg"),
        ("postgresql://me:secret@host/app?brant_schema=jobs", "postgresql://me@host/app?brant_schema=jobs"),
        ("postgresql://me:se%40cret@a,b/app", "postgresql://me@/app?host=a,b"),
    ],
)
def test_an_address_is_told_without_its_password(url: str, shown: str) -> None:
    assert str(Address(url)) == shown
    assert "secret" not in without_password(url)
    assert "cret" not in without_password(url)


def test_what_is_brants_in_an_address_is_not_for_the_driver() -> None:
    address = Address("postgresql://host/app?brant_schema=jobs&brant_notify=0&brant_timeout=3&application_name=a%20b")
    assert (address.schema, address.notify, address.timeout_s) == ("jobs", False, 3)
    assert "brant" not in address.conninfo
    assert "application_name='a b'" in address.for_connection(connect_timeout=5)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://host/app?brant_schem=x", "does not know"),
        ("postgresql://host/app?brant_notify=maybe", "1 or 0"),
        ("postgresql://host/app?brant_timeout=soon", "seconds"),
        ("postgresql://host/app?brant_timeout=0", "seconds"),
        ("postgresql://host/app?brant_schema=pg_mine", "pg_"),
        ("postgresql://host/app?nonsense=1", "can't be read"),
        ("postgresql://[::1/app", "can't be read"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused_without_its_secrets(url: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as caught:
        Address(url.replace("//", "//me:secret@"))
    assert "secret" not in str(caught.value)
