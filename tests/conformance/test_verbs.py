"""This suite leaves no verb out."""

from __future__ import annotations

import ast
from pathlib import Path

from brant.storage.base import Statements
from brant.storage.session import Session
from tests.conformance.conftest import READING

VERBS = {name for name in dir(Session) if not name.startswith("_")} - set(dir(Statements))


def called_on_a_session(source: str) -> set[str]:
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {
        call.attr
        for call in calls
        if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) and call.value.id == "session"
    }


def test_every_verb_of_a_session_is_called_by_a_conformance_test() -> None:
    called = {
        name for file in Path(__file__).parent.glob("test_*.py") for name in called_on_a_session(file.read_text())
    }
    assert called >= VERBS, f"without a conformance test: {sorted(VERBS - called)}"


def test_what_is_called_on_a_reader_is_a_verb() -> None:
    assert READING <= VERBS


def test_a_call_that_is_only_spoken_of_does_not_count() -> None:
    assert called_on_a_session("session.ack(1)\n'session.retry()'\nother.fail()") == {"ack"}
