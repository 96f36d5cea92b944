"""Each test has the registry of tasks to itself."""

from __future__ import annotations

import pytest

import brant.tasks


@pytest.fixture(autouse=True)
def _no_tasks_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brant.tasks, "_process_wide", brant.tasks.Registry())
