"""The installed command, run as a user runs it: in an empty directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import brant
from tests.servers import Server

Run = Callable[..., "subprocess.CompletedProcess[str]"]
COMMAND = str(Path(sys.executable).parent / "brant")


_backend: dict[str, str] = {}


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without settings of Brant's own, and with these; output is buffered as it is for users."""
    settings = ("BRANT_", "BROKER_", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if not name.startswith(settings)} | _backend | extra


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path, database_kind: str) -> Iterator[Path]:
    """Where the command looks by itself; or, for `both_backends`, a database of a server."""
    if database_kind == "sqlite":
        yield tmp_path / ".brant.db"
        return
    server: Server = request.getfixturevalue("postgres_server")
    with server.database() as address:
        yield address  # type: ignore[misc]


@pytest.fixture(autouse=True)
def _server_in_the_environment(
    request: pytest.FixtureRequest, database_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_kind == "postgres":
        monkeypatch.setitem(_backend, "BRANT_BACKEND", "postgres")
        monkeypatch.setitem(_backend, "BRANT_BACKEND_TARGET", request.getfixturevalue("path"))


@pytest.fixture
def brant_command(tmp_path: Path) -> Run:
    """Runs `brant` with these words; `stdin` is text, other keywords are variables of the environment."""

    def run(
        *words: object, stdin: str | None = None, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *map(str, words)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            cwd=cwd or tmp_path,
            env=clean_environment(**environment),
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def store(path: Path) -> Iterator[brant.Database]:
    """The database that the command finds."""
    with brant.open(path) as database:
        yield database
