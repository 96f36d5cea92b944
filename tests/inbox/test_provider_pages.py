"""The pages of the providers: made from the code, up to date, and right."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest

import brant
from brant.inbox import manual, providers
from brant.inbox.providers.base import Provider
from brant.inbox.verification import VERIFIED, verify
from tests.inbox.senders import NOW, SENDERS

FOLDER = Path(__file__).parents[2] / "docs" / "providers"
NOTES = manual.notes()
EACH = pytest.mark.parametrize("name", providers.names())


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text("utf-8")


def test_the_pages_are_as_the_code_makes_them() -> None:
    assert list(manual.stale(str(FOLDER))) == [], "run `make docs`"


def test_making_them_removes_the_page_of_a_provider_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("old")
    manual.main(str(tmp_path))
    assert {each.stem for each in tmp_path.iterdir()} == {"index", *providers.names()}


def test_notes_are_of_providers_that_exist() -> None:
    assert sorted(NOTES) == providers.names()


@EACH
def test_the_headers_are_those_that_the_provider_vouches_for(name: str) -> None:
    told = [header.strip() for header in NOTES[name].facts["Headers"].split(",") if header.strip()]
    assert told == list(SENDERS[name].headers)


@EACH
def test_a_handshake_is_told_of_where_there_is_one(name: str) -> None:
    has_handshake = providers.class_of(name).challenge is not Provider.challenge
    assert ("Handshake" in NOTES[name].facts) == has_handshake


@EACH
def test_the_test_request_of_a_page_is_verified(name: str) -> None:
    if NOTES[name].facts["Body"] == "-":
        return
    [command] = re.findall(r"^brant inbox sign .*$", page(name), re.MULTILINE)
    words = shlex.split(command)
    given = dict(word.split("=", 1) for option, word in itertools.pairwise(words) if option == "--option")
    provider = providers.provider(name, **{**SENDERS[name].options, **given})
    request = provider.sign(words[4].encode(), SENDERS[name].signing(), NOW)
    assert verify(provider, request, SENDERS[name].secrets(), NOW).state == VERIFIED


@EACH
def test_the_endpoint_of_a_page_can_be_registered(
    name: str, inbox: brant.Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{name.upper().replace('-', '_')}_SECRET", SENDERS[name].secret().decode() or "unused")
    monkeypatch.setenv("VERIFY_TOKEN", "a token")
    [code] = re.findall(r"```python\n(.*?)```", page(name), re.DOTALL)
    exec(code, {"inbox": inbox, "read_secret": lambda: None})
    assert inbox.endpoints[name].path == f"/hooks/{name}"
