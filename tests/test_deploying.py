"""What docs/deploy.md tells to copy: the unit and the container's command start a worker that stops as they ask."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, in_thread

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "deploy.md").read_text("utf-8")
COMMAND = [sys.executable, "-m", "brant"]


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(block("ini"))
    return parser


def words_of_unit() -> list[str]:
    program, *words = unit()["Service"]["ExecStart"].split()
    assert program.endswith("/bin/brant")
    return words


def words_of_container() -> list[str]:
    (command,) = re.findall(r"^CMD (\[.*\])$", block("dockerfile"), re.MULTILINE)
    program, *words = json.loads(command)
    assert program == "brant"
    return [str(word) for word in words]


def grace_of(words: list[str]) -> int:
    return int(words[words.index("--grace") + 1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(block(r"python file=app\.py"), "utf-8")
    return tmp_path


@pytest.mark.parametrize("words", [words_of_unit(), words_of_container()], ids=["systemd", "container"])
def test_the_command_runs_and_ends_cleanly_at_sigterm(folder: Path, words: list[str]) -> None:
    with subprocess.Popen([*COMMAND, *words], cwd=folder, stderr=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stderr is not None
            assert "queues=emails" in in_thread(worker.stderr.readline).result(PATIENCE_S)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE_S) == 0
            assert worker.stderr.read() == "brant worker: stopped cleanly\n"
        finally:
            worker.kill()


def test_systemd_and_docker_wait_for_longer_than_the_grace() -> None:
    assert int(unit()["Service"]["TimeoutStopSec"]) > grace_of(words_of_unit())
    (patience,) = re.findall(r"docker run .*--stop-timeout (\d+)", PAGE)
    assert int(patience) > grace_of(words_of_container())


def test_the_unit_keeps_the_database_where_it_may_write() -> None:
    service = unit()["Service"]
    assert service["Environment"].partition("APP_DB=")[2].startswith(f"/var/lib/{service['StateDirectory']}/")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    # The program is not there on this machine, and systemd would say so.
    text = block("ini").replace("/srv/app/.venv/bin/brant", "/bin/true")
    (tmp_path / "app-worker@.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "app-worker@.service")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert [line for line in done.stderr.splitlines() if "app-worker" in line] == []
