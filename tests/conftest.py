"""Fixtures: a real file for each test, with real time or with time that the test moves."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from brant.testing import FakeClock

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell: the commands under test would inherit that and be deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def db(path: Path) -> Iterator[brant.Database]:
    """A database in real time."""
    with brant.open(path) as database:
        yield database


@pytest.fixture
def timed(path: Path, clock: FakeClock) -> Iterator[brant.Database]:
    """A database whose time is `clock`."""
    with brant.open(path, clock=clock) as database:
        yield database
