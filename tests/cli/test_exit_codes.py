"""Exit codes: 0 done, 1 error, 2 nothing to give."""

from __future__ import annotations

import pytest

import brant
from tests.cli.conftest import Run

ABSENT = "1767225600000000"


@pytest.mark.parametrize(
    "words",
    [
        ("write", "q", "x"),
        ("read", "q"),
        ("read", "q", "--all"),
        ("peek", "q"),
        ("move", "q", "other"),
        ("exists", "q"),
        ("delete", "q"),
        ("delete", "--all"),
        ("delete", "unknown"),
        ("broadcast", "x"),
        ("list",),
        ("list", "--prefix", "zzz"),
        ("stats", "unknown"),
        ("alias", "list"),
        ("--status",),
        ("--vacuum",),
        ("--cleanup",),
    ],
)
def test_done(brant_command: Run, store: brant.Database, words: tuple[str, ...]) -> None:
    store.queue("q").write("x")
    store.close()
    assert brant_command(*words).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("read", "empty"),
        ("read", "empty", "--all"),
        ("peek", "empty"),
        ("peek", "empty", "--all", "--json"),
        ("move", "empty", "other"),
        ("move", "empty", "other", "--all"),
        ("read", "q", "--before", "1"),
        ("peek", "q", "--all", "--after", "2200-01-01"),
        ("move", "q", "other", "--before", "1"),
        ("read", "q", "-m", ABSENT),
        ("peek", "q", "-m", ABSENT),
        ("move", "q", "other", "-m", ABSENT),
        ("delete", "q", "-m", ABSENT),
        ("exists", "empty"),
        ("broadcast", "x", "-p", "zzz*"),
        ("alias", "list", "--target", "nobody"),
    ],
)
def test_nothing_to_give(brant_command: Run, store: brant.Database, words: tuple[str, ...]) -> None:
    store.queue("q").write("stays")
    done = brant_command(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert store.queue("q").peek_many() == ["stays"]


@pytest.mark.parametrize("command", ["read", "peek", "delete"])
@pytest.mark.parametrize("bad", ["12", "abc", "-5", "17672256000000000", "9223372036854775808", "٣" * 16])
def test_an_id_of_the_wrong_shape_is_an_error(
    brant_command: Run, store: brant.Database, command: str, bad: str
) -> None:
    store.queue("q").write("stays")
    done = brant_command(command, "q", f"--message-id={bad}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"brant: error: Invalid message id {bad!r}: an id has 16 digits")
    assert store.queue("q").peek_many() == ["stays"]


@pytest.mark.parametrize(
    "words",
    [
        ("write", "bad name", "x"),
        ("write", ".hidden", "x"),
        ("write", "q\n", "x"),
        ("write", "", "x"),
        ("write", "é", "x"),
        ("write", "n" * 513, "x"),
        ("read", "a/b"),
        ("peek", "-"),
        ("move", "q", "a b"),
        ("watch", "a b"),
        ("exists", "q q"),
        ("stats", "*"),
        ("delete", "q q"),
        ("pause", "q q"),
        ("alias", "add", "a b", "q"),
        ("alias", "add", "a", "q q"),
    ],
)
def test_a_bad_name_is_an_error(brant_command: Run, store: brant.Database, words: tuple[str, ...]) -> None:
    done = brant_command(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: Invalid queue name")
    assert (store.queue_names(), store.list_aliases()) == ([], {})


def test_names_at_the_edge_of_what_is_allowed(brant_command: Run, store: brant.Database) -> None:
    names = ["n" * 512, "_", "0", "A", "a", "x.y-z_1"]
    for name in names:
        assert brant_command("write", name, name).returncode == 0
    assert store.queue_names() == sorted(names)


def test_queues_that_a_worker_named_can_be_read_and_not_written(brant_command: Run, store: brant.Database) -> None:
    store.queue("mail to:ann").enqueue("hello")
    assert brant_command("peek", "mail to:ann").stdout == "hello\n"
    refused = brant_command("write", "mail to:ann", "x")
    assert (refused.returncode, refused.stderr[:32]) == (1, "brant: error: Invalid queue name")
    assert brant_command("read", "mail to:ann").stdout == "hello\n"
