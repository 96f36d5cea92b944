"""Completion scripts, sourced by the shells that they are for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import brant
from brant.cli.main import COMMANDS
from brant.cli.reference import command_tree
from tests.cli.conftest import COMMAND, Run, clean_environment

BIN = Path(sys.executable).parent
# Calls the function as bash would, for each line of words, which are separated by tabs; the last one is being typed.
DRIVER = r"""
source "$1"
complete -p brant >/dev/null || exit
while IFS= read -r line; do
    COMP_WORDS=()
    while IFS= read -r word; do COMP_WORDS+=("$word"); done < <(tr '\t' '\n' <<<"$line")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _brant brant
    (IFS='|'; printf '%s\n' "${COMPREPLY[*]}")
done
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the three of them."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        made = subprocess.run([COMMAND, "completion", shell], capture_output=True, check=True, timeout=60)
        assert made.stderr == b""
        (folder / shell).write_bytes(made.stdout)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a database, another database in a directory below, and a file."""
    with brant.open(tmp_path / ".brant.db") as db:
        for name in ("tasks", "tests", "mail"):
            db.queue(name).write("x")
        db.queue("tasks").claim_one("worker")
        db.queue("$(touch made)").enqueue("x")
    (tmp_path / "other").mkdir()
    with brant.open(tmp_path / "other" / ".brant.db") as db:
        db.queue("elsewhere").write("x")
    (tmp_path / "a file.db").touch()
    return tmp_path


def in_bash(scripts: Path, cwd: Path, *lines: tuple[str, ...]) -> list[set[str]]:
    """What bash offers for each line."""
    done = subprocess.run(
        ["bash", "--norc", "-c", DRIVER, "bash", str(scripts / "bash")],
        input="".join("\t".join(("brant", *line)) + "\n" for line in lines),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=with_command(),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    offered = [set(filter(None, line.split("|"))) for line in done.stdout.splitlines()]
    assert len(offered) == len(lines)
    return offered


def with_command() -> dict[str, str]:
    return clean_environment(PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")


def test_bash_completes_commands_and_options(scripts: Path, place: Path) -> None:
    everything, some, globals_, options, subcommands, nested = in_bash(
        scripts, place, ("",), ("wr",), ("--",), ("read", "tasks", "--"), ("stream", ""), ("stream", "prune", "--k")
    )
    assert everything == set(COMMANDS)
    assert some == {"write"}
    assert {"--dir", "--file", "--status", "--json", "--help"} <= globals_
    assert options == {"--all", "--message-id", "--after", "--before", "--json", "--timestamps", "--help"}
    assert {"publish", "read", "prune"} <= subcommands
    assert not subcommands & {"write", "alias"}
    assert nested == {"--keep"}


def test_bash_completes_queues_where_a_queue_stands(scripts: Path, place: Path) -> None:
    queues = {"tasks", "tests", "mail"}
    lines = {
        ("read", ""): queues,
        ("read", "t"): {"tasks", "tests"},
        ("read", "--after", "5s", "m"): {"mail"},
        ("read", "tasks", ""): set(),
        ("read", "--after", ""): set(),
        ("move", "tasks", ""): queues,
        ("move", "@", "alias", "m"): {"mail"},
        ("watch", "tasks", "--move", ""): queues,
        ("schedule", "add", "nightly", "--queue", "m"): {"mail"},
        ("dead", "list", "m"): {"mail"},
        ("alias", "add", "name", "m"): {"mail"},
        ("alias", "add", ""): set(),
    }
    assert dict(zip(lines, in_bash(scripts, place, *lines), strict=True)) == lines
    assert not (place / "made").exists(), "the name of a queue was evaluated"


def test_bash_looks_into_the_database_that_the_line_names(scripts: Path, place: Path) -> None:
    lines = [("-d", "other", "read", ""), ("--dir", "=", "other", "read", ""), ("-f", "other/.brant.db", "read", "")]
    assert in_bash(scripts, place, *lines) == [{"elsewhere"}] * 3


def test_bash_makes_no_database(scripts: Path, tmp_path: Path) -> None:
    assert in_bash(scripts, tmp_path, ("read", "")) == [set()]
    assert list(tmp_path.iterdir()) == []


def test_bash_completes_files_directories_commands_and_choices(scripts: Path, place: Path) -> None:
    lines = {
        ("-d", ""): {"other"},
        ("--dir", "="): {"other"},
        ("-f", "a"): {"a file.db"},
        ("backup", "a"): {"a file.db"},
        ("lock", "name", "--", "ls", "a"): {"a file.db"},
        ("completion", ""): {"bash", "zsh", "fish"},
        ("schedule", "add", "--missed", "s"): {"skip"},
    }
    assert dict(zip(lines, in_bash(scripts, place, *lines), strict=True)) == lines
    (commands,) = in_bash(scripts, place, ("run", "tasks", "--", "prin"))
    assert "printf" in commands


def test_bash_knows_what_is_a_command_and_what_is_data(scripts: Path, place: Path) -> None:
    lines = {
        ("-f", "write", "wr"): {"write"},  # the first is a file
        ("write", "read", "m"): set(),  # a queue named read
        ("write", "tasks", "--"): set(),
        ("write", "--l"): {"--lines"},
        ("lock", "name", "--", "ls", "--"): set(),
    }
    assert dict(zip(lines, in_bash(scripts, place, *lines), strict=True)) == lines


def test_an_unknown_shell_is_an_error(brant_command: Run) -> None:
    done = brant_command("completion", "tcsh")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("brant: error: argument shell: invalid choice: 'tcsh'")


def test_zsh_has_a_function_for_each_command(scripts: Path) -> None:
    script = (scripts / "zsh").read_text("utf-8")
    assert script.startswith("#compdef brant\n")
    made = set(re.findall(r"^(_brant[\w-]*)\(\) \{$", script, re.MULTILINE))
    assert {"_".join(("_brant", *entry.words)) for entry in command_tree().walk()} <= made
    assert "'(-m --message-id)'{-m+,--message-id=}'[this message only]:ID:'" in script
    assert "'1:QUEUE:_brant_queues'" in script
    assert "'(--peek --move)'--peek'" in script


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script(scripts: Path) -> None:
    done = subprocess.run(["zsh", "-f", "-n", scripts / "zsh"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_has_a_condition_for_each_command(scripts: Path) -> None:
    script = (scripts / "fish").read_text("utf-8")
    conditions = set(re.findall(r"^complete -c brant -n '__brant_in \\'([a-z -]*)\\'", script, re.MULTILINE))
    assert conditions == {" ".join(entry.words) for entry in command_tree().walk()}
    assert "-s m -l message-id -x -d 'this message only'" in script


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(scripts: Path, place: Path) -> None:
    lines = {
        "brant wri": {"write"},
        "brant -d other read ": {"elsewhere"},
        "brant --dir=other read ": {"elsewhere"},
        "brant read t": {"tasks", "tests"},
        "brant read tasks ": set(),
        "brant stream prune --k": {"--keep"},
        "brant write tasks --": set(),
        "brant -f a": {"a file.db"},
        "brant completion ": {"bash", "zsh", "fish"},
    }
    driver = 'source $argv[1]; for line in $argv[2..]; complete -C $line; echo "|"; end'
    command = ["fish", "--no-config", "-c", driver, str(scripts / "fish"), *lines]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=place, env=with_command(), timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    offered = [{each.partition("\t")[0] for each in part.split("\n") if each} for part in done.stdout.split("|\n")[:-1]]
    assert dict(zip(lines, offered, strict=True)) == lines
