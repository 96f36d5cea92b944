"""Opening a database on a server: what is made, and what is refused with which words."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import brant
from brant.errors import InvalidValue, StorageError
from brant.opening import remove
from brant.storage.postgres import connecting
from tests.servers import Server

OWN_SERVER = "BRANT_TEST_POSTGRES" not in os.environ


def as_user(address: str, name: str, password: str = "secret") -> str:
    host = urlsplit(address).netloc.rpartition("@")[2]
    return urlunsplit(urlsplit(address)._replace(netloc=f"{name}:{password}@{host}"))


def test_an_address_opens_a_database_that_works(bare_address: str) -> None:
    with brant.open(bare_address) as db:
        db.queue("q").enqueue({"n": 1})
        with db.transaction() as tx:
            tx.execute("CREATE TABLE orders (id INTEGER, note TEXT)")
            tx.execute("INSERT INTO orders VALUES (?, ?)", [1, "what?"])
        assert db.query("SELECT note FROM orders WHERE id = ?", [1]) == [{"note": "what?"}]
    with brant.open(bare_address.replace("postgresql://", "postgres://"), create=False) as db:
        assert db.queue("q").stats().pending == 1
        assert "secret" not in repr(db)


def test_two_schemas_of_one_database_know_nothing_of_each_other(bare_address: str) -> None:
    with brant.open(bare_address) as first, brant.open(bare_address, schema='Other "jobs"') as second:
        first.queue("q").enqueue(1)
        assert (first.queue_names(), second.queue_names()) == (["q"], [])
        second.queue("q").enqueue(2)
        job = second.queue("q").claim_one("w")
        assert job is not None
        assert job.payload == 2
    with psycopg.connect(bare_address) as connection:
        schemas = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ 'rant|jobs' ORDER BY 1")
        assert schemas.fetchall() == [('Other "jobs"',), ("brant",)]


def test_those_who_open_a_new_database_at_once_all_can(bare_address: str) -> None:
    failures: list[BaseException] = []

    def use() -> None:
        try:
            with brant.open(bare_address) as db:
                db.queue("q").enqueue(1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with brant.open(bare_address) as db:
        assert db.queue("q").stats().pending == 6


def test_a_database_that_must_be_there_is_not_made(bare_address: str) -> None:
    with pytest.raises(StorageError, match=r"there is no database at .*no schema 'brant'"):
        brant.open(bare_address, create=False)
    with psycopg.connect(bare_address) as connection:
        assert connection.execute("SELECT to_regnamespace('brant')").fetchone() == (None,)


def test_the_tables_of_a_newer_version_are_refused(address: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE brant._brant_meta SET value = '999' WHERE key = 'schema_version'")
    try:
        with pytest.raises(StorageError, match=r"newer Brant \(tables of version 999.*upgrade Brant"):
            brant.open(address)
    finally:
        with psycopg.connect(address) as connection:
            connection.execute("UPDATE brant._brant_meta SET value = '1' WHERE key = 'schema_version'")


def test_a_server_that_is_too_old_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "MINIMUM_VERSION", 990_000)
    with pytest.raises(StorageError, match="Brant needs Postgres 14 or later"):
        brant.open(address)


@pytest.mark.skipif(not OWN_SERVER, reason="needs a user of its own")
def test_a_wrong_password_is_told_in_one_sentence_without_it(postgres_server: Server, bare_address: str) -> None:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS brant_password")
        connection.execute("CREATE ROLE brant_password LOGIN PASSWORD 'right'")
    with pytest.raises(StorageError, match="refused the user or the password; check both") as caught:
        brant.open(as_user(bare_address, "brant_password"))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.skipif(not OWN_SERVER, reason="needs a user of its own")
def test_a_user_without_rights_is_told_what_is_missing(postgres_server: Server, bare_address: str) -> None:
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS brant_guest")
        connection.execute("CREATE ROLE brant_guest LOGIN")
    with pytest.raises(StorageError, match="permission denied for database") as caught:
        brant.open(as_user(bare_address, "brant_guest"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"path": "/nowhere"}, "there is no such database on the server; create it first"),
        ({"query": "host=/tmp/no/such/folder"}, "no server answers there"),
        ({"netloc": "me:secret@127.0.0.1:1", "query": ""}, "no server answers there"),
        ({"netloc": "me:secret@no-such-host.invalid", "query": ""}, "there is no host of that name"),
    ],
)
def test_a_wrong_address_is_told_in_one_sentence(address: str, change: dict[str, str], why: str) -> None:
    with pytest.raises(StorageError, match=why) as caught:
        brant.open(urlunsplit(urlsplit(address)._replace(**change)))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_kind_of_server_and_a_schema_of_a_file_are_refused(tmp_path: str) -> None:
    with pytest.raises(InvalidValue, match="'mysql' databases are not supported"):
        brant.open("mysql://host/app")
    with pytest.raises(InvalidValue, match="schema= is for databases on a server"):
        brant.open(f"{tmp_path}/app.db", schema="jobs")


def test_removing_drops_the_schema_and_nothing_else(bare_address: str) -> None:
    with brant.open(bare_address) as db, db.transaction() as tx:
        tx.execute("CREATE TABLE mine (id INTEGER)")
    assert remove(bare_address)
    with psycopg.connect(bare_address) as connection:
        assert connection.execute("SELECT to_regnamespace('brant')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    with pytest.raises(StorageError, match="nothing of Brant's"):
        remove(bare_address)


def test_removing_leaves_the_tables_that_others_put_into_the_schema(bare_address: str) -> None:
    with brant.open(bare_address) as db, db.transaction() as tx:
        tx.execute("CREATE TABLE brant.mine (id INTEGER)")
    assert not remove(bare_address)
    with psycopg.connect(bare_address) as connection:
        left = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'brant'::regnamespace")
        assert left.fetchall() == [("mine",)]
    with brant.open(bare_address) as db:
        assert db.queue_names() == []


def test_a_file_is_opened_without_the_driver_of_the_server(tmp_path: str) -> None:
    program = f"import sys, brant; brant.open({str(tmp_path)!r} + '/app.db').close(); print('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
