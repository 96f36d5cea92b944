"""brant inbox endpoints, events, deliveries, attempts, show, stats."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

import brant
from tests.inbox.commands import assert_refused, filled, inbox_command, objects
from tests.inbox.tiny import send, tiny


@pytest.fixture
def ids(tmp_path: Path) -> dict[str, int]:
    return filled(tmp_path)


def found(folder: Path, *words: object) -> list[int]:
    return [each["id"] for each in objects(folder, *words)]


def test_endpoints(tmp_path: Path, ids: dict[str, int]) -> None:
    with brant.open(tmp_path / ".brant.db") as db, brant.Inbox(db) as inbox:
        inbox.pause("news")
    listed = inbox_command(tmp_path, "endpoints").stdout.decode().splitlines()
    assert [line.split("\t")[:4] for line in listed] == [
        ["news", "/news", "tiny", "paused"],
        ["orders", "/orders", "tiny", "open"],
    ]
    assert [each["enabled"] for each in objects(tmp_path, "endpoints")] == [False, True]


def test_events_are_lines_of_columns_newest_first(tmp_path: Path, ids: dict[str, int]) -> None:
    lines = [line.split("\t") for line in inbox_command(tmp_path, "events").stdout.decode().splitlines()]
    assert [(int(line[0]), *line[1:4]) for line in lines] == [
        (ids["waiting"], "news", "story", "received"),
        (ids["dead"], "orders", "unknown", "dead"),
        (ids["again"], "orders", "paid", "handled"),
        (ids["paid"], "orders", "paid", "handled"),
    ]


def test_events_by_filter(tmp_path: Path, ids: dict[str, int]) -> None:
    assert found(tmp_path, "events", "--status", "dead") == [ids["dead"]]
    assert found(tmp_path, "events", "--endpoint", "news") == [ids["waiting"]]
    assert found(tmp_path, "events", "--type", "paid") == [ids["again"], ids["paid"]]
    assert found(tmp_path, "events", "--endpoint", "orders", "--status", "received") == []
    assert len(found(tmp_path, "events", "--since", "2020-01-31")) == 4
    assert found(tmp_path, "events", "--until", "2020-01-31") == []


def test_events_page_by_page(tmp_path: Path, ids: dict[str, int]) -> None:
    first = inbox_command(tmp_path, "events", "--limit", 3)
    assert len(first.stdout.splitlines()) == 3
    assert first.stderr.decode() == f"brant: there are older ones; --before {ids['again']} shows the next\n"
    last = inbox_command(tmp_path, "events", "--limit", 3, "--before", ids["again"])
    assert (last.stdout.split(b"\t")[0], last.stderr) == (str(ids["paid"]).encode(), b"")


def test_a_full_last_page_promises_no_more(tmp_path: Path, ids: dict[str, int]) -> None:
    assert inbox_command(tmp_path, "events", "--limit", len(ids)).stderr == b""


def test_no_events_is_exit_code_2(tmp_path: Path, ids: dict[str, int]) -> None:
    ended = inbox_command(tmp_path, "events", "--endpoint", "nobody")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, b"", b"")


def test_bodies_come_only_when_asked_for(tmp_path: Path, ids: dict[str, int]) -> None:
    assert all("body" not in each for each in objects(tmp_path, "events"))
    with_bodies = objects(tmp_path, "events", "--body")
    assert json.loads(with_bodies[0]["body"]) == {"id": "e4", "type": "story"}
    assert inbox_command(tmp_path, "events", "--body", "--limit", 1).stdout.endswith(b'{"id": "e4", "type": "story"}\n')


def test_deliveries_by_filter(tmp_path: Path, ids: dict[str, int]) -> None:
    assert len(found(tmp_path, "deliveries")) == 5
    (refused,) = objects(tmp_path, "deliveries", "--orphaned", "--body")
    assert (refused["event_id"], refused["signature_valid"]) == (None, False)
    assert base64.b64decode(refused["body_base64"]) == b"\xff forged"
    assert found(tmp_path, "deliveries", "--unverified") == [refused["id"]]
    assert len(found(tmp_path, "deliveries", "--verified", "--endpoint", "orders")) == 3
    assert [each["event_id"] for each in objects(tmp_path, "deliveries", "--event", ids["paid"])] == [ids["paid"]]


def test_attempts_by_filter(tmp_path: Path, ids: dict[str, int]) -> None:
    assert [each["event_id"] for each in objects(tmp_path, "attempts")] == [ids["dead"], ids["again"], ids["paid"]]
    (died,) = objects(tmp_path, "attempts", "--outcome", "dead")
    assert "no handler" in died["error"]
    assert len(found(tmp_path, "attempts", "--event", ids["paid"])) == 1


def test_show_tells_all_about_an_event(tmp_path: Path, ids: dict[str, int]) -> None:
    (shown,) = objects(tmp_path, "show", ids["dead"])
    assert (shown["status"], shown["event_type"]) == ("dead", "unknown")
    assert [name.lower() for name, _ in shown["headers"]] == ["x-tiny"]
    assert [each["event_id"] for each in shown["deliveries"]] == [ids["dead"]]
    assert [each["outcome"] for each in shown["attempts"]] == ["dead"]
    lines = inbox_command(tmp_path, "show", ids["dead"]).stdout.decode().splitlines()
    assert "status\tdead" in lines
    assert 'body\t{"id": "e3", "type": "unknown"}' in lines


def test_show_gives_the_bytes_of_a_body(tmp_path: Path, ids: dict[str, int]) -> None:
    (refused,) = found(tmp_path, "deliveries", "--orphaned")
    assert inbox_command(tmp_path, "show", "--delivery", refused, "--raw").stdout == b"\xff forged"
    assert objects(tmp_path, "show", "--delivery", refused)[0]["event_ids"] == []


def test_what_is_not_there_is_exit_code_2(tmp_path: Path, ids: dict[str, int]) -> None:
    ended = inbox_command(tmp_path, "show", 10**9)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr == b"brant: there is no event 1000000000\n"


def test_show_needs_one_thing_to_show(tmp_path: Path, ids: dict[str, int]) -> None:
    assert_refused(inbox_command(tmp_path, "show"), "name an event by its id")
    assert_refused(inbox_command(tmp_path, "show", 1, "--delivery", 1), "name an event by its id")


def test_stats(tmp_path: Path, ids: dict[str, int]) -> None:
    news, orders = objects(tmp_path, "stats")
    assert (orders["endpoint"], orders["handled"], orders["dead"], orders["lag_s"]) == ("orders", 2, 1, None)
    assert (news["received"], news["handled"]) == (1, 0)
    assert news["lag_s"] >= 0
    only = inbox_command(tmp_path, "stats", "--endpoint", "orders").stdout.decode()
    assert only.rstrip("\n").split("\t") == ["orders", "0", "0", "2", "0", "1", "0", ""]


def test_stats_of_what_was_refused(tmp_path: Path, ids: dict[str, int]) -> None:
    (refused,) = objects(tmp_path, "stats", "--rejects")
    assert (refused["endpoint"], refused["status"], refused["count"]) == ("orders", 401, 1)
    assert objects(tmp_path, "stats", "--rejects", "--endpoint", "news") == []


def test_looking_makes_no_inbox_and_no_file(tmp_path: Path) -> None:
    assert_refused(inbox_command(tmp_path, "events"), "there is no database")
    assert list(tmp_path.iterdir()) == []
    with brant.open(tmp_path / ".brant.db") as db:
        assert_refused(inbox_command(tmp_path, "events"), "there is no inbox")
        assert not db.query("SELECT name FROM sqlite_schema WHERE name LIKE 'knocker%'")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["events", "--status", "lost"], "invalid choice"),
        (["events", "--since", "whenever"], "Invalid timestamp"),
        (["events", "--limit", "5000"], "limit must be from 1 to 1000"),
        (["events", "--before", "x"], "is no id"),
        (["attempts", "--outcome", "received"], "invalid choice"),
        (["deliveries", "--verified", "--unverified"], "not allowed with"),
    ],
)
def test_bad_words_are_refused_in_one_line(tmp_path: Path, ids: dict[str, int], words: list[str], why: str) -> None:
    assert_refused(inbox_command(tmp_path, *words), why)


def test_text_of_senders_can_not_move_the_cursor(tmp_path: Path) -> None:
    with brant.open(tmp_path / ".brant.db") as db, brant.Inbox(db) as inbox:
        send(tiny(inbox), "e1", r"a\u001b[2J\tb\nc")
    (line,) = inbox_command(tmp_path, "events").stdout.decode().splitlines()
    assert line.split("\t")[2] == "a [2J b c"
