"""The installed command, run as a user runs it: in an empty directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import brant

Run = Callable[..., "subprocess.CompletedProcess[str]"]
COMMAND = str(Path(sys.executable).parent / "brant")


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without settings of Brant's own, and with these; output is buffered as it is for users."""
    settings = ("BRANT_", "BROKER_", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if not name.startswith(settings)} | extra


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
def store(tmp_path: Path) -> Iterator[brant.Database]:
    """The database that the command finds in its directory."""
    with brant.open(tmp_path / ".brant.db") as database:
        yield database
