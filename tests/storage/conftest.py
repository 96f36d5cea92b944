"""A database on a server for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Server


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    """Where Brant's tables are there already, and empty."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def bare_address(postgres_server: Server) -> Iterator[str]:
    """Of a database that Brant has never seen."""
    with postgres_server.new_database() as url:
        yield url
