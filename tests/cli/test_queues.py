"""list, stats, exists, alias, pause, resume."""

from __future__ import annotations

import json
from typing import Any

import pytest

import brant
from tests.cli.conftest import Run


@pytest.fixture
def filled(store: brant.Database) -> brant.Database:
    """a: two pending. b: one pending, one delayed, one claimed. c: drained."""
    store.queue("a").write_many(["1", "2"])
    store.queue("b").enqueue("leased")
    assert store.queue("b").claim_one("w") is not None
    store.queue("b").enqueue("later", delay=3600)
    store.queue("b").write("3")
    store.queue("c").write("x")
    store.queue("c").read()
    return store


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def as_object(queue: str, pending: int, claimed: int) -> dict[str, Any]:
    total = pending + claimed
    return {"queue": queue, "pending": pending, "claimed": claimed, "total": total, "exists": total > 0}


# list


@pytest.mark.usefixtures("filled")
def test_list_shows_pending_messages_by_name(brant_command: Run) -> None:
    assert brant_command("list").stdout == "a: 2\nb: 2\n"
    assert objects(brant_command("list", "--json").stdout) == [as_object("a", 2, 0), as_object("b", 2, 1)]


@pytest.mark.usefixtures("filled")
def test_list_with_stats_shows_drained_queues_and_claims(brant_command: Run) -> None:
    lines = "a: 2\nb: 2 (3 total, 1 claimed)\nc: 0\n\nTotal claimed messages: 1/5\n"
    assert brant_command("list", "--stats").stdout == lines
    expected = [as_object("a", 2, 0), as_object("b", 2, 1), as_object("c", 0, 0)]
    assert objects(brant_command("list", "--stats", "--json").stdout) == expected


@pytest.mark.usefixtures("filled")
def test_the_total_of_claims_knows_no_filter(brant_command: Run) -> None:
    shown = brant_command("list", "--stats", "--prefix", "a").stdout
    assert shown == "a: 2\n\nTotal claimed messages: 1/5\n"


def test_without_claims_there_is_no_total(brant_command: Run, store: brant.Database) -> None:
    store.queue("a").write("x")
    assert brant_command("list", "--stats").stdout == "a: 1\n"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--prefix", "job"), ["job", "job.a", "job.b"]),
        (("--prefix", "job."), ["job.a", "job.b"]),
        (("--prefix", ""), ["Job", "job", "job.a", "job.b", "other"]),
        (("-p", "job*"), ["job", "job.a", "job.b"]),
        (("--pattern", "job.?"), ["job.a", "job.b"]),
        (("-p", "*[!b]"), ["job.a", "other"]),
        (("-p", "[Jj]ob"), ["Job", "job"]),
        (("-p", "zzz"), []),
    ],
)
def test_list_some(brant_command: Run, store: brant.Database, words: tuple[str, ...], names: list[str]) -> None:
    for name in ("other", "job.b", "job", "Job", "job.a"):
        store.queue(name).write("x")
    shown = brant_command("list", *words)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.partition(":")[0] for line in shown.stdout.splitlines()] == names


@pytest.mark.parametrize(
    "words", [("--prefix", ".x"), ("--prefix", "a b"), ("-p", ".x*"), ("--pattern=-a?",), ("-p", "a b")]
)
def test_no_name_begins_so(brant_command: Run, words: tuple[str, ...]) -> None:
    refused = brant_command("list", *words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("brant: error: Invalid queue prefix")


# stats and exists


@pytest.mark.parametrize(
    ("queue", "line", "pending", "claimed"),
    [
        ("a", "a: 2", 2, 0),
        ("b", "b: 2 (3 total, 1 claimed)", 2, 1),
        ("c", "c: 0", 0, 0),
        ("unknown", "unknown: 0", 0, 0),
    ],
)
@pytest.mark.usefixtures("filled")
def test_stats_and_exists(brant_command: Run, queue: str, line: str, pending: int, claimed: int) -> None:
    shown = brant_command("stats", queue)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"{line}\n", "")
    assert objects(brant_command("stats", queue, "--json").stdout) == [as_object(queue, pending, claimed)]
    exists = pending + claimed > 0
    told = brant_command("exists", queue)
    assert (told.returncode, told.stdout) == (0 if exists else 2, "")
    told = brant_command("exists", queue, "--json")
    assert (told.returncode, objects(told.stdout)) == (0 if exists else 2, [{"queue": queue, "exists": exists}])


# alias


def test_an_alias_stands_for_a_queue_where_it_is_used(brant_command: Run, store: brant.Database) -> None:
    assert brant_command("alias", "add", "t", "tasks").returncode == 0
    assert brant_command("write", "@t", "1").returncode == 0
    assert brant_command("write", "t", "2").returncode == 0
    assert (store.queue("tasks").peek_many(), store.queue("t").peek_many()) == (["1"], ["2"])
    assert json.loads(brant_command("stats", "@t", "--json").stdout)["queue"] == "tasks"
    assert json.loads(brant_command("exists", "@t", "--json").stdout)["queue"] == "tasks"
    assert brant_command("move", "@t", "done").stdout == "1\n"
    assert brant_command("move", "t", "@t").stdout == "2\n"
    assert brant_command("read", "@t").stdout == "2\n"
    assert brant_command("delete", "@t").returncode == 0
    assert store.queue_names() == ["done", "t"]


def test_aliases_are_listed_by_name_and_forgotten(brant_command: Run, store: brant.Database) -> None:
    assert brant_command("alias", "list").stdout == ""
    for alias, target in (("z", "q"), ("a", "q"), ("m", "r")):
        store.add_alias(alias, target)
    assert brant_command("alias", "list").stdout == "a -> q\nm -> r\nz -> q\n"
    assert brant_command("alias", "list", "--target", "q").stdout == "a -> q\nz -> q\n"
    store.queue("q").write("stays")
    assert brant_command("alias", "remove", "a").returncode == 0
    assert list(store.list_aliases()) == ["m", "z"]
    assert store.queue("q").peek_many() == ["stays"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("alias", "add", "a", "other"), "the alias 'a' exists already; remove it first"),
        (("alias", "add", "x", "x"), "the alias 'x' would stand for itself"),
        (("alias", "add", "x", "a"), "Cannot target another alias: 'a' is one; name a queue"),
        (("alias", "add", "@x", "q"), "Invalid queue name '@x'"),
        (("alias", "add", "x", "@a"), "Invalid queue name '@a'"),
        (("alias", "remove", "x"), "alias 'x' does not exist"),
        (("alias", "remove", "@a"), "alias '@a' does not exist"),
        (("read", "@x"), "Alias 'x' is not defined"),
        (("read", "@"), "Alias name cannot be empty"),
        (("write", "@@a", "x"), "Alias '@a' is not defined"),
    ],
)
def test_what_an_alias_can_not_be(brant_command: Run, store: brant.Database, words: tuple[str, ...], why: str) -> None:
    store.add_alias("a", "q")
    refused = brant_command(*words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"brant: error: {why}")
    assert store.list_aliases() == {"a": "q"}


@pytest.mark.parametrize(("before", "after"), [((), ()), (("-q",), ()), ((), ("-q",)), ((), ("--quiet",))])
def test_an_alias_over_a_queue_with_messages_is_warned_of(
    brant_command: Run, store: brant.Database, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    store.queue("busy").write("x")
    done = brant_command(*before, "alias", "add", "busy", "q", *after)
    warning = "brant: warning: there is also a queue named 'busy', with messages\n"
    assert (done.returncode, done.stderr) == (0, "" if before or after else warning)
    assert store.list_aliases() == {"busy": "q"}


# pause and resume


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(brant_command: Run, store: brant.Database) -> None:
    store.queue("q").write("x")
    store.add_alias("nick", "q")
    assert brant_command("pause", "@nick").stderr == "Paused q: it hands out nothing until 'brant resume q'\n"
    assert brant_command("read", "q").returncode == 2
    assert brant_command("peek", "q").stdout == "x\n"
    assert brant_command("resume", "@nick").stderr == "Resumed q\n"
    assert brant_command("read", "q").stdout == "x\n"
    again = brant_command("resume", "q")
    assert (again.returncode, again.stderr) == (0, "q was not paused\n")


# batches


def test_batches_are_shown_with_their_counts(brant_command: Run, store: brant.Database) -> None:
    queue = store.queue("q")
    with store.batch(note="first") as settled:
        queue.enqueue(1, batch=settled)
    assert brant_command("read", "q").returncode == 0
    waiting = store.batch(then=("done", None))
    queue.enqueue_many([1, 2], batch=waiting)
    lines = brant_command("batches").stdout.splitlines()
    assert sorted(lines) == sorted(
        [f"{settled.id}: settled, 1 total, 1 succeeded", f"{waiting.id}: open, 2 total, 2 pending"]
    )
    shown = {found["id"]: found for found in objects(brant_command("batches", "--json").stdout)}
    assert shown[settled.id]["note"] == "first"
    assert shown[waiting.id]["counts"] == {"total": 2, "succeeded": 0, "dead": 0, "cancelled": 0, "pending": 2}
    assert len(brant_command("batches", "--limit", "1").stdout.splitlines()) == 1


def test_without_batches_there_is_nothing_to_show(brant_command: Run, store: brant.Database) -> None:
    store.queue("q").write("x")
    told = brant_command("batches")
    assert (told.returncode, told.stdout) == (2, "")
