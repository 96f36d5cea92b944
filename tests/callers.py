"""The connections that applications bring along: each begins, writes, commits and rolls back in its own way."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker


class Caller(NamedTuple):
    tx: object
    execute: Callable[[str], object]
    commit: Callable[[], object]
    rollback: Callable[[], object]


class Undone(Exception):
    """Ends a Django block that shall roll back."""


class ShopSession(Session):
    """As applications derive their own."""


@contextmanager
def sqlite3_default(path: Path) -> Iterator[Caller]:
    with closing(sqlite3.connect(path)) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def sqlite3_explicit(path: Path) -> Iterator[Caller]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def sqlite3_autocommit_off(path: Path) -> Iterator[Caller]:
    options: dict[str, Any] = {"autocommit": False}
    with closing(sqlite3.connect(path, **options)) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def sqlite3_rows(path: Path) -> Iterator[Caller]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def sqlite3_dict_rows(path: Path) -> Iterator[Caller]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True)
        }
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def engine_for(path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_connection(path: Path) -> Iterator[Caller]:
    with engine_for(path) as engine, engine.connect() as connection:

        def execute(sql: str) -> object:
            return connection.execute(sqlalchemy.text(sql))

        yield Caller(connection, execute, connection.commit, connection.rollback)


def of_session(session: Any) -> Caller:
    return Caller(session, lambda sql: session.execute(sqlalchemy.text(sql)), session.commit, session.rollback)


@contextmanager
def sqlalchemy_session(path: Path) -> Iterator[Caller]:
    with engine_for(path) as engine, Session(engine) as session:
        yield of_session(session)


@contextmanager
def sqlalchemy_derived_session(path: Path) -> Iterator[Caller]:
    with engine_for(path) as engine, ShopSession(engine) as session:
        yield of_session(session)


@contextmanager
def sqlalchemy_scoped_session(path: Path) -> Iterator[Caller]:
    with engine_for(path) as engine:
        scoped = scoped_session(sessionmaker(engine))
        try:
            yield of_session(scoped)
        finally:
            scoped.remove()


@contextmanager
def django_connection(path: Path) -> Iterator[Any]:
    """Django's connection to the file, outside a block."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
        django.setup()
    from django.db import connection, connections

    if hasattr(connections._connections, "default"):
        del connections["default"]
    connections.settings["default"]["NAME"] = str(path)
    try:
        yield connection
    finally:
        connections.close_all()


@contextmanager
def django_atomic(path: Path) -> Iterator[Caller]:
    from django.db import transaction

    with django_connection(path) as connection:
        block = transaction.atomic()
        block.__enter__()

        def execute(sql: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(sql)

        yield Caller(
            connection,
            execute,
            lambda: block.__exit__(None, None, None),
            lambda: block.__exit__(Undone, Undone(), None),
        )


CALLERS: list[Any] = [
    sqlite3_default,
    sqlite3_explicit,
    pytest.param(
        sqlite3_autocommit_off,
        marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 brought the autocommit attribute"),
    ),
    sqlite3_rows,
    sqlite3_dict_rows,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_derived_session,
    sqlalchemy_scoped_session,
    django_atomic,
]
Opened = Callable[[Path], AbstractContextManager[Caller]]
