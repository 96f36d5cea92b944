"""An inbox for each test, with the registry of tasks to itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import brant
import brant.tasks


@pytest.fixture(autouse=True)
def _no_tasks_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brant.tasks, "_process_wide", brant.tasks.Registry())


@pytest.fixture
def inbox(timed: brant.Database) -> Iterator[brant.Inbox]:
    """In the time of `clock`."""
    with brant.Inbox(timed) as made:
        yield made
