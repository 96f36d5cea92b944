"""The command line's grammar: global options, one command, and words that are data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import brant
from brant.cli.main import COMMANDS
from tests.cli.conftest import Run

OWN_COMMANDS = ("messages", "queues", "watch", "care", "bench")


def assert_refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    """One line on stderr, exit code 1, and nothing on stdout."""
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("brant: error: ")
    assert why in line


# Help


@pytest.mark.parametrize("words", [(), ("-q",), ("-h",), ("--help",), ("-d", ".")])
def test_without_a_command_there_is_help(brant_command: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    shown = brant_command(*words)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("usage: brant ")
    assert "read " in shown.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", sorted(name for name, module in COMMANDS.items() if module in OWN_COMMANDS))
def test_every_command_has_help(brant_command: Run, tmp_path: Path, command: str) -> None:
    shown = brant_command(command, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"usage: brant {command} ")
    assert list(tmp_path.iterdir()) == []


def test_help_fits_the_terminal(brant_command: Run) -> None:
    narrow = brant_command("read", "--help", COLUMNS="50").stdout.splitlines()
    wide = brant_command("read", "--help", COLUMNS="200").stdout.splitlines()
    assert max(map(len, narrow)) <= 50 < max(map(len, wide))


def test_the_version(brant_command: Run) -> None:
    assert brant_command("--version").stdout == f"brant {brant.__version__}\n"
    as_module = subprocess.run([sys.executable, "-m", "brant", "--version"], capture_output=True, text=True, check=True)
    assert as_module.stdout == f"brant {brant.__version__}\n"


# Global options


def test_global_options_take_a_value_in_each_form(brant_command: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert brant_command("-d", "there", "-f", "x.db", "write", "q", "1").returncode == 0
    assert brant_command("--dir=there", "--file=x.db", "write", "q", "2").returncode == 0
    assert brant_command("--dir", "there", "-f=x.db", "read", "q", "--all").stdout == "1\n2\n"


@pytest.mark.parametrize("words", [("-f",), ("--file",), ("-d",), ("--file=",), ("-f", "-q", "list"), ("-d", "")])
def test_an_option_without_its_value_is_refused(brant_command: Run, words: tuple[str, ...]) -> None:
    assert_refused(brant_command(*words), f"option {words[0].removesuffix('=')} requires an argument")


def test_a_file_named_like_a_command_is_a_file(brant_command: Run, tmp_path: Path) -> None:
    assert brant_command("-f", "write", "write", "q", "x").returncode == 0
    assert brant_command("-f", "read.txt", "write", "q", "x").returncode == 0
    assert (tmp_path / "write").is_file()
    assert (tmp_path / "read.txt").is_file()


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--dir=x"),
        ("read", "q", "-f", "x.db"),
        ("list", "-q"),
        ("write", "q", "m", "--dir=x"),
        ("write", "q", "m", "--help"),
        ("alias", "add", "a", "b", "--cleanup"),
        ("delete", "--vacuum"),
    ],
)
def test_behind_the_command_global_options_are_unknown(
    brant_command: Run, store: brant.Database, words: tuple[str, ...]
) -> None:
    store.queue("q").write("here")
    assert_refused(brant_command(*words), "")
    assert (store.queue("q").peek_many(), store.list_aliases()) == (["here"], {})


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--status", "list"), "--status can't be combined with a command"),
        (("--vacuum", "write", "q", "x"), "--vacuum can't be combined with a command"),
        (("--compact",), "--compact can only be used with --vacuum"),
        (("--compact", "--status"), "--compact can only be used with --vacuum"),
        (("--status", "--vacuum"), "--status and --vacuum can't be combined"),
        (("--json", "list"), "--json belongs behind the command"),
        (("--nonsense",), "unrecognized option --nonsense; see brant --help"),
        (("--stat",), "unrecognized option --stat"),
        (("writ", "q", "x"), "unknown command 'writ'; did you mean 'write'?"),
        (("xyzzy",), "unknown command 'xyzzy'; see brant --help"),
    ],
)
def test_what_global_options_can_not_be(brant_command: Run, tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    assert_refused(brant_command(*words), why)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("store")
def test_status_takes_json_on_either_side(brant_command: Run) -> None:
    assert brant_command("--json", "--status").stdout == brant_command("--status", "--json").stdout != ""


def test_cleanup_wins_over_a_command(brant_command: Run, tmp_path: Path) -> None:
    brant_command("write", "q", "x")
    assert brant_command("--cleanup", "write", "q", "y").returncode == 0
    assert list(tmp_path.iterdir()) == []


# Words that are data


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (("q", "--cleanup"), "--cleanup"),
        (("q", "--help"), "--help"),
        (("q", "--lines"), "--lines"),
        (("q", "-x"), "-x"),
        (("q", "-5"), "-5"),
        (("q", "--", "-x"), "-x"),
        (("q", "--", "--"), "--"),
        (("--", "q", "-x"), "-x"),
        (("--", "q", "--"), "--"),
        (("q", ""), ""),
    ],
)
def test_a_message_may_look_like_an_option(
    brant_command: Run, store: brant.Database, words: tuple[str, ...], stored: str
) -> None:
    assert brant_command("write", *words).returncode == 0
    assert store.queue("q").peek_many() == [stored]


@pytest.mark.parametrize("words", [("-p", "a*", "hi"), ("hi", "-p", "a*"), ("--pattern=a*", "--", "hi")])
def test_broadcast_takes_its_pattern_on_either_side(
    brant_command: Run, store: brant.Database, words: tuple[str, ...]
) -> None:
    for name in ("a1", "b1"):
        store.queue(name).write("x")
    assert brant_command("broadcast", *words).returncode == 0
    assert (store.queue("a1").peek_many(), store.queue("b1").peek_many()) == (["x", "hi"], ["x"])


def test_broadcast_takes_anything_behind_two_dashes(brant_command: Run, store: brant.Database) -> None:
    store.queue("q").write("x")
    assert_refused(brant_command("broadcast", "--nonsense"), "")
    assert brant_command("broadcast", "--", "--help").returncode == 0
    assert store.queue("q").peek_many() == ["x", "--help"]


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (("--text", "q", "--", "--"), "--"),
        (("q", "--text", "--", "--"), "--"),
        (("--text", "--", "q", "--"), "--"),
        (("q", "--text", "--priority", "1", "--", "-x"), "-x"),
        (("--text", "--", "q", "--json"), "--json"),
        (("q", "--", "-5"), -5),
        (("--", "q", "5"), 5),
    ],
)
def test_a_payload_may_be_anything_behind_two_dashes(
    brant_command: Run, store: brant.Database, words: tuple[str, ...], stored: object
) -> None:
    done = brant_command("enqueue", *words, stdin="from stdin")
    assert (done.returncode, done.stderr) == (0, "")
    assert store.queue("q").claim_batch("w", 1)[0].payload == stored


@pytest.mark.parametrize(
    "words",
    [
        ("stream", "publish", "--text", "s", "--", "--"),
        ("stream", "publish", "s", "--text", "--", "--"),
        ("stream", "--", "publish", "s", '"--"'),
    ],
)
def test_actions_know_two_dashes_too(brant_command: Run, store: brant.Database, words: tuple[str, ...]) -> None:
    assert brant_command(*words, stdin='"from stdin"').stdout == "1\n"
    assert [event.payload for event in store.stream("s").read()] == ["--"]


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("list", "--"), "q: 1\n"),
        (("list", "--stats", "--"), "q: 1\n"),
        (("read", "--", "q"), "x\n"),
        (("read", "q", "--"), "x\n"),
        (("peek", "--json", "-t", "--", "q"), None),
        (("alias", "list", "--"), ""),
        (("alias", "--", "list"), ""),
        (("lock", "--", "l", "echo", "hi"), "hi\n"),
        (("lock", "--ttl", "5", "--", "l", "echo", "--", "-n"), "-- -n\n"),
        (("lock", "l", "echo", "--", "-n"), "-- -n\n"),
    ],
)
def test_two_dashes_end_the_options_of_any_command(
    brant_command: Run, store: brant.Database, words: tuple[str, ...], output: str | None
) -> None:
    store.queue("q").write("x")
    done = brant_command(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert output in (None, done.stdout)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("list", "--", "extra"), "unrecognized arguments: extra;"),
        (("read", "q", "--", "--"), "unrecognized arguments: --;"),
        (("enqueue", "q", "--unique-key", "--", "1"), "--unique-key: expected one argument"),
        (("enqueue", "q", "--", "1", "--text"), "unrecognized arguments: --text;"),
    ],
)
def test_behind_two_dashes_nothing_is_an_option(brant_command: Run, words: tuple[str, ...], why: str) -> None:
    assert_refused(brant_command(*words), why)


# Numbers


@pytest.mark.parametrize("seconds", ["3162240001", "1e10", "4e18", "999999999999999999", "inf", "9" * 400])
@pytest.mark.parametrize(
    "words",
    [
        ("lock", "l", "--ttl={}", "--", "true"),
        ("run", "q", "--lease={}", "--drain", "--", "true"),
        ("top", "--interval={}"),
        ("listen", "c", "--timeout={}"),
    ],
)
def test_nobody_waits_for_more_than_a_hundred_years(
    brant_command: Run, tmp_path: Path, words: tuple[str, ...], seconds: str
) -> None:
    assert_refused(brant_command(*(word.format(seconds) for word in words)), "is more than 100 years")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", ["3162240000", "3.1e9"])
def test_a_hundred_years_are_fine(brant_command: Run, store: brant.Database, seconds: str) -> None:
    store.queue("q").write("x")
    for words in (
        ("lock", "l", "--ttl", seconds, "--wait", seconds, "--", "true"),
        ("run", "q", "--lease", seconds, "--drain", "--", "true"),
        ("top", "--interval", seconds, "--once"),
    ):
        done = brant_command(*words)
        assert (done.returncode, done.stderr) == (0, "")


# Words that are missing, too many, or at odds


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("write",), "QUEUE"),
        (("read", "--json"), "QUEUE"),
        (("read", "q", "extra"), "extra"),
        (("read", "q", "--js"), "--js"),
        (("peek", "q", "-m"), "-m"),
        (("move", "a"), "DESTINATION"),
        (("broadcast",), "MESSAGE"),
        (("alias",), "add|remove|list"),
        (("alias", "frob"), "frob"),
        (("alias", "add", "a"), "QUEUE"),
        (("list", "--prefix", "a", "--pattern", "b"), "not allowed with"),
        (("watch", "q", "--peek", "--move", "d"), "not allowed with"),
        (("watch", "q", "--before", "5"), "--before"),
        (("write", "--lines", "q", "text"), "--lines reads standard input"),
        (("delete",), "name a queue, or give --all"),
        (("delete", "q", "--all"), "name a queue, or give --all"),
        (("delete", "--all", "-m", "1767225600000000"), "-m needs the queue"),
        (("bench", "-n", "0"), "'0' is no whole number of at least 1"),
    ],
)
def test_wrong_words_are_refused_in_prose(brant_command: Run, tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    assert_refused(brant_command(*words), why)
    assert list(tmp_path.iterdir()) == []
