"""The scripts of examples/shell, run as their users run them, and shown in docs/shell.md as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, clean_environment

ROOT = Path(__file__).resolve().parent.parent.parent
RECIPES = ROOT / "examples" / "shell"
TOOLS = ("cat", "mv", "printf", "tr", "xargs", "grep")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[brant.Database]:
    with brant.open(tmp_path / ".brant.db") as database:
        yield database


@pytest.fixture
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PATH with what the recipes call, and no more."""
    folder = tmp_path_factory.mktemp("tools")
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None, f"{tool} is not installed"
        (folder / tool).symlink_to(found)
    (folder / "brant").symlink_to(COMMAND)
    executable(folder / "python3", f'exec "{sys.executable}" "$@"')
    return folder


def start(recipe: str, *words: str, cwd: Path, tools: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["/bin/sh", str(RECIPES / recipe), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=clean_environment(PATH=str(tools)),
    )


def finish(process: subprocess.Popen[str], timeout: float = 100) -> str:
    """The output of a recipe that succeeds and has nothing to complain of."""
    with process:
        output, errors = process.communicate(timeout=timeout)
    assert (process.returncode, errors) == (0, ""), output
    return output


def run(recipe: str, *words: str, cwd: Path, tools: Path) -> str:
    return finish(start(recipe, *words, cwd=cwd, tools=tools))


def executable(file: Path, text: str) -> str:
    file.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    file.chmod(0o755)
    return str(file)


def test_a_safe_worker_handles_all(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    db.queue("tasks").write_many(["first", "-n second", "two\nlines", "tab\there"])
    handler = executable(tmp_path / "handler", "printf '<%s>' \"$(cat)\"")
    assert (
        run("safe-worker.sh", "tasks", handler, cwd=tmp_path, tools=tools)
        == "<first><-n second><two\nlines><tab\there>"
    )
    assert not db.queue("tasks").exists()


def test_a_safe_worker_that_fails_loses_nothing(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    tasks = db.queue("tasks")
    tasks.write_many(["good", "bad", "next"])
    handler = executable(tmp_path / "handler", 'message=$(cat); echo "$message"; [ "$message" != bad ]')
    with start("safe-worker.sh", "tasks", handler, cwd=tmp_path, tools=tools) as process:
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "good\nbad\n")
    assert tasks.peek_many() == ["bad", "next"]


@pytest.mark.parametrize("with_jq", [True, False])
def test_a_worker_that_reads_json_gets_each_byte(
    db: brant.Database, tmp_path: Path, tools: Path, with_jq: bool
) -> None:
    if with_jq:
        found = shutil.which("jq")
        if found is None:
            pytest.skip("jq is not installed")
        (tools / "jq").symlink_to(found)
    texts = ["plain", "ends in newlines\n\n", 'quotes "\\" é\t', ""]
    db.queue("tasks").write_many(texts)
    handler = executable(tmp_path / "handler", "cat; printf '|'")
    assert run("json-worker.sh", "tasks", handler, cwd=tmp_path, tools=tools) == "".join(f"{text}|" for text in texts)
    assert not db.queue("tasks").exists()


def test_a_checkpoint_is_kept_between_runs(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    log = db.queue("log")

    def new(reader: str) -> list[str]:
        return run("checkpoint.sh", "log", f"{reader}.state", "cat", cwd=tmp_path, tools=tools).splitlines()

    log.write_many(["one", "two\t"])
    assert new("a") == ["one", "two\t"]
    last = log.write("three")
    assert new("a") == ["three"]
    assert (tmp_path / "a.state").read_text("utf-8") == f"{last}\n"
    assert new("a") == []
    assert new("b") == ["one", "two\t", "three"]
    assert log.stats().pending == 3


def test_a_checkpoint_does_not_pass_what_failed(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    ids = db.queue("log").write_many(["good", "bad", "good again"])
    with start("checkpoint.sh", "log", "state", "grep", "good", cwd=tmp_path, tools=tools) as process:
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "good\n")
    assert (tmp_path / "state").read_text("utf-8") == f"{ids[0]}\n"


def test_what_fails_is_put_aside(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    tasks = db.queue("tasks")
    ids = tasks.write_many(["good", "bad", "good again"])
    assert run("dead-letters.sh", "tasks", "grep", "good", cwd=tmp_path, tools=tools) == "good\ngood again\n"
    assert not tasks.exists()
    (aside,) = db.queue("tasks-failed").peek_many()
    assert (aside, aside.id) == ("bad", ids[1])


def test_xargs_gets_whole_messages(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    texts = ["a b  c", "it's", '"quoted"', "$(touch made)", *map(str, range(20))]
    db.queue("tasks").write_many(texts)
    output = run("xargs.sh", "tasks", "printf", "<%s>\n", cwd=tmp_path, tools=tools)
    assert sorted(output.splitlines()) == sorted(f"<{text}>" for text in texts)
    assert run("xargs.sh", "tasks", "printf", "<%s>\n", cwd=tmp_path, tools=tools) == ""
    assert not (tmp_path / "made").exists()


def test_messages_go_to_another_machine(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    executable(tools / "ssh", 'host=$1; shift; echo "$host" >>hosts; exec /bin/sh -c "$*"')
    there = tmp_path / "the other machine"
    there.mkdir()
    texts = ["one", "two\nlines", "it's $HOME"]
    db.queue("tasks").write_many(texts)
    assert run("remote.sh", "box", str(there), "tasks", cwd=tmp_path, tools=tools) == ""
    assert not db.queue("tasks").exists()
    with brant.open(there / ".brant.db") as other:
        assert other.queue("tasks").peek_many() == texts
    assert (tmp_path / "hosts").read_text("utf-8").split() == ["box"] * 3


def test_a_broken_connection_loses_nothing(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    executable(tools / "ssh", "cat >/dev/null; exit 255")
    db.queue("tasks").write("stays")
    with start("remote.sh", "box", str(tmp_path), "tasks", cwd=tmp_path, tools=tools) as process:
        process.communicate(timeout=60)
    assert process.returncode == 255
    assert db.queue("tasks").peek_many() == ["stays"]


def test_workers_steal_from_each_other(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    texts = [f"message {number}" for number in range(20)]
    db.queue("left").write_many(texts)
    handler = executable(tmp_path / "handler", "cat; echo")
    sides = (("left", "right"), ("right", "left"))
    workers = [start("work-stealing.sh", *side, handler, cwd=tmp_path, tools=tools) for side in sides]
    outputs = [finish(worker).splitlines() for worker in workers]
    assert sorted(text for output in outputs for text in output) == sorted(texts)
    assert all(outputs), "one of the workers had nothing to do"
    assert not db.queue("left").exists()
    assert not db.queue("right").exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_parallel_readers_get_each_message_once(db: brant.Database, tmp_path: Path, tools: Path) -> None:
    texts = [f"message {number}" for number in range(int(os.environ.get("BRANT_MESSAGES", "120")))]
    db.queue("tasks").write_many(texts)
    output = finish(start("parallel-readers.sh", "8", "tasks", cwd=tmp_path, tools=tools), timeout=300)
    assert sorted(output.splitlines()) == sorted(texts)


def test_the_page_shows_the_scripts_as_they_are() -> None:
    page = (ROOT / "docs" / "shell.md").read_text("utf-8")
    for script in RECIPES.iterdir():
        _, link, rest = page.partition(f"(../examples/shell/{script.name})")
        assert link, f"{script.name} is not in the page"
        block = rest.partition("```sh\n")[2].partition("```")[0]
        assert script.read_text("utf-8").endswith(f"\n{block}"), script.name


def test_every_script_can_be_run_and_says_how() -> None:
    for script in RECIPES.iterdir():
        assert os.access(script, os.X_OK), script
        assert script.read_text("utf-8").startswith(f"#!/bin/sh\n# Usage: {script.name} ")
