"""dead list, show, requeue, purge; for a pipe and for a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import brant
from brant.cli.terminal import ago
from brant.testing import FakeClock
from tests.cli.conftest import COMMAND, Run, clean_environment

pytestmark = pytest.mark.both_backends
same_on_both = pytest.mark.files_only("what is tested happens before or after the database")

LONG_AGO = 1_700_000_000
OnTerminal = Callable[..., "tuple[int, str]"]


@pytest.fixture
def queue(path: Path) -> Iterator[brant.Queue]:
    """A queue of the database that the command finds; its letters die in November 2023."""
    with brant.open(path, clock=FakeClock(LONG_AGO)) as database:
        yield database.queue("q")


@pytest.fixture
def on_terminal(tmp_path: Path) -> OnTerminal:
    """Runs the command on a terminal, where somebody types an answer; gives the exit code and what the screen got."""

    def run(*words: object, answer: str = "", **environment: str) -> tuple[int, str]:
        screen, terminal = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, *map(str, words)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=tmp_path,
            env=clean_environment(TERM="xterm", COLUMNS="100", **environment),
        )
        os.close(terminal)
        os.write(screen, answer.encode())
        shown = b""
        with suppress(OSError):  # how Linux says that the other side is gone
            while chunk := os.read(screen, 4096):
                shown += chunk
        os.close(screen)
        return process.wait(30), shown.decode().replace("\r\n", "\n")

    return run


@pytest.fixture(params=["rich", "plain"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment for tables drawn by rich, or without it."""
    if request.param == "rich":
        pytest.importorskip("rich")
        return {}
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "rich.py").write_text("raise ImportError('hidden')")
    return {"PYTHONPATH": str(hiding)}


def bury(queue: brant.Queue, payload: object, error: str = "boom") -> int:
    job_id = queue.enqueue(payload)
    job = queue.claim_one("w")
    assert job is not None
    job.fail(error)
    return job_id


# list


def test_the_letters_of_all_queues_are_tab_separated_lines(brant_command: Run, queue: brant.Queue) -> None:
    first = bury(queue, {"a": 1}, "two\nlines\tand a tab")
    second = bury(queue.db.queue("other"), "text")
    shown = brant_command("dead", "list")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        f'{first}\tq\t1/3\t2023-11-14T22:13:20Z\ttwo lines and a tab\t{{"a":1}}',
        f"{second}\tother\t1/3\t2023-11-14T22:13:20Z\tboom\ttext",
    ]
    assert [line.split("\t")[0] for line in brant_command("dead", "list", "other").stdout.splitlines()] == [str(second)]


def test_no_letters_are_nothing_to_give(brant_command: Run, queue: brant.Queue) -> None:
    bury(queue, 1)
    for words in (("dead", "list", "empty"), ("dead", "list", "empty", "--json")):
        nothing = brant_command(*words)
        assert (nothing.returncode, nothing.stdout, nothing.stderr) == (2, "", "")


def test_a_list_that_was_cut_says_so(brant_command: Run, queue: brant.Queue) -> None:
    ids = [bury(queue, number) for number in range(3)]
    shown = brant_command("dead", "list", "q", "--limit", "2", "--json")
    assert [json.loads(line)["id"] for line in shown.stdout.splitlines()] == ids[:2]
    assert shown.stderr == "brant: these are 2 of 3; --limit 3 shows all\n"


def test_a_letter_as_json(brant_command: Run, queue: brant.Queue) -> None:
    job_id = bury(queue, {"a": "é"})
    assert json.loads(brant_command("dead", "list", "--json").stdout) == {
        "id": job_id,
        "queue": "q",
        "payload": {"a": "é"},
        "priority": 0,
        "attempts": 1,
        "max_attempts": 3,
        "last_error": "boom",
        "created_at": LONG_AGO,
        "died_at": LONG_AGO,
    }


@same_on_both
def test_a_terminal_shows_columns_and_ages(on_terminal: OnTerminal, queue: brant.Queue, tables: dict[str, str]) -> None:
    first, second = bury(queue, "[red]data[/red]"), bury(queue, "x" * 500, "\x1b[2Jclear the screen")
    code, screen = on_terminal("dead", "list", NO_COLOR="1", **tables)
    header, *lines = screen.splitlines()
    assert (code, header.split()) == (0, ["ID", "QUEUE", "ATTEMPTS", "DIED", "ERROR", "PAYLOAD"])
    assert [line[: header.index("QUEUE")].strip() for line in lines] == [str(first), str(second)]
    assert all(line[header.index("DIED") :].split(" ago")[0].endswith(" days") for line in lines)
    assert "[red]data[/red]" in lines[0]
    assert "\x1b" not in screen
    assert all(len(line) <= 100 for line in lines)


@same_on_both
def test_colour_is_for_terminals_that_want_it(on_terminal: OnTerminal, brant_command: Run, queue: brant.Queue) -> None:
    pytest.importorskip("rich")
    bury(queue, 1)
    assert "\x1b[" in on_terminal("dead", "list")[1]
    assert "\x1b[" not in brant_command("dead", "list", TERM="xterm").stdout


@same_on_both
@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (59.9, "59 s ago"), (180, "3 min ago"), (7300, "2 h ago"), (86_400, "1 day ago"), (-300, "in 5 min")],
)
def test_ages_are_told_in_their_largest_unit(seconds: float, text: str) -> None:
    assert ago(seconds) == text


# show


def twice_failed(queue: brant.Queue) -> int:
    job_id = queue.enqueue({"a": 1}, max_attempts=2)
    for error in ("first\nreason", "second"):
        job = queue.claim_one(f"worker of the {error.split()[0]}")
        assert job is not None
        job.retry(0, error)
    return job_id


def test_show_tells_the_history_of_attempts_as_json(brant_command: Run, queue: brant.Queue) -> None:
    job_id = twice_failed(queue)
    shown = json.loads(brant_command("dead", "show", job_id, "--json").stdout)
    assert (shown["id"], shown["payload"], shown["last_error"], shown["attempts"]) == (job_id, {"a": 1}, "second", 2)
    assert shown["history"] == [
        {"attempt": 1, "worker_id": "worker of the first", "error": "first\nreason", "failed_at": LONG_AGO},
        {"attempt": 2, "worker_id": "worker of the second", "error": "second", "failed_at": LONG_AGO},
    ]


def test_show_gives_a_pipe_one_fact_a_line(brant_command: Run, queue: brant.Queue) -> None:
    job_id = twice_failed(queue)
    at = "2023-11-14T22:13:20Z"
    assert [line.split("\t") for line in brant_command("dead", "show", job_id).stdout.splitlines()] == [
        ["id", str(job_id)],
        ["queue", "q"],
        ["priority", "0"],
        ["attempts", "2/2"],
        ["created", at],
        ["died", at],
        ["error", "second"],
        ["payload", '{"a":1}'],
        ["attempt", "1", at, "worker of the first", "first reason"],
        ["attempt", "2", at, "worker of the second", "second"],
    ]


@same_on_both
def test_show_tells_a_person_everything(on_terminal: OnTerminal, queue: brant.Queue, tables: dict[str, str]) -> None:
    job_id = bury(queue, "text\nof two lines", "why\n\x1b[31mred")
    code, screen = on_terminal("dead", "show", job_id, NO_COLOR="1", **tables)
    assert (code, "\x1b" in screen) == (0, False)
    assert screen.startswith(f"Job {job_id} of q, enqueued ")
    assert "Error:\n  why\n  [31mred\n" in screen
    assert "Payload:\n  text\n  of two lines\n" in screen
    assert "after 1 of 3 attempts" in screen


def test_show_knows_dead_letters_only(brant_command: Run, queue: brant.Queue) -> None:
    for job_id in (queue.write("live"), 42):
        missing = brant_command("dead", "show", job_id)
        assert (missing.returncode, missing.stdout) == (2, "")
        assert missing.stderr == f"brant: there is no dead letter {job_id}\n"


# requeue


def test_requeue_puts_back_one_letter_or_all(brant_command: Run, queue: brant.Queue) -> None:
    one, *others = [bury(queue, number) for number in range(3)]
    assert brant_command("dead", "requeue", "q", one).stderr == "Requeued 1 dead letter of q\n"
    assert [letter.id for letter in queue.list_dead()] == others
    assert brant_command("dead", "requeue", "q", "--all").stderr == "Requeued 2 dead letters of q\n"
    assert brant_command("read", "q", "--all").stdout.split() == ["0", "1", "2"]
    assert queue.list_dead() == []


def test_requeue_of_nothing(brant_command: Run, queue: brant.Queue) -> None:
    job_id = bury(queue, 1)
    assert brant_command("dead", "requeue", "other", job_id).returncode == 2
    assert brant_command("dead", "requeue", "other", "--all").returncode == 2
    assert queue.get_dead(job_id) is not None


@same_on_both
@pytest.mark.parametrize("words", [(), ("1", "--all")])
def test_requeue_wants_an_id_or_all(brant_command: Run, words: tuple[str, ...]) -> None:
    refused = brant_command("dead", "requeue", "q", *words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "brant: error: name one dead letter by its id, or give --all\n"


# purge


def test_purge_needs_yes_where_nobody_can_be_asked(brant_command: Run, queue: brant.Queue) -> None:
    bury(queue, 1)
    refused = brant_command("dead", "purge", "q", stdin="y\n")
    assert refused.returncode == 1
    assert refused.stderr.startswith("brant: error: Delete 1 dead letter of q for good?")
    assert "--yes" in refused.stderr
    assert len(queue.list_dead()) == 1
    assert brant_command("dead", "purge", "q", "--yes").stderr == "Deleted 1 dead letter of q\n"
    assert queue.list_dead() == []


def test_purge_spares_what_died_lately(brant_command: Run, queue: brant.Queue, path: Path) -> None:
    bury(queue, "old")
    with brant.open(path) as today:
        recent = bury(today.queue("q"), "recent")
    assert brant_command("dead", "purge", "q", "--older-than", "3600", "--yes").returncode == 0
    assert [letter.id for letter in queue.list_dead()] == [recent]


@same_on_both
@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 2), ("\n", 1, 2)])
def test_purge_asks_at_a_terminal(
    on_terminal: OnTerminal, queue: brant.Queue, answer: str, code: int, left: int
) -> None:
    bury(queue, 1), bury(queue, 2)
    exit_code, screen = on_terminal("dead", "purge", "q", answer=answer)
    assert (exit_code, len(queue.list_dead())) == (code, left)
    assert "Delete 2 dead letters of q for good? [y/N]" in screen


@same_on_both
def test_dead_alone_says_what_can_follow(brant_command: Run) -> None:
    refused = brant_command("dead")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "list|show|requeue|purge" in refused.stderr
