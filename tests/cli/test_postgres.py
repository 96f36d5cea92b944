"""The command on a database of a server: named by -f, by the environment, by a project file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, Run
from tests.servers import Server


@pytest.fixture
def address(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


def test_a_message_goes_through_a_server(brant_command: Run, address: str, tmp_path: Path) -> None:
    assert brant_command("-f", address, "write", "tasks", "hello").returncode == 0
    assert brant_command("-f", address, "peek", "tasks").stdout == "hello\n"
    with brant.open(address) as db:
        assert db.queue("tasks").stats().pending == 1
    assert brant_command("-f", address, "read", "tasks").stdout == "hello\n"
    assert brant_command("-f", address, "read", "tasks").returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_job_is_claimed_and_acknowledged_on_a_server(brant_command: Run, address: str) -> None:
    with brant.open(address) as db:
        db.queue("q").enqueue({"n": 1})
    claimed = brant_command("-f", address, "claim", "q", "--worker", "w", "--json")
    job = json.loads(claimed.stdout)
    assert job["payload"] == {"n": 1}
    assert brant_command("-f", address, "ack", job["id"], job["token"]).returncode == 0
    with brant.open(address) as db:
        assert db.queue("q").stats().total == 0


@pytest.mark.parametrize("prefix", ["BRANT_", "BROKER_"])
def test_the_environment_names_a_server(brant_command: Run, address: str, prefix: str) -> None:
    named = {f"{prefix}BACKEND": "postgres", f"{prefix}BACKEND_TARGET": address}
    assert brant_command("write", "q", "from the environment", **named).returncode == 0
    with brant.open(address) as db:
        assert db.queue("q").read() == "from the environment"


def test_the_environment_may_name_a_schema(brant_command: Run, address: str) -> None:
    named = {"BRANT_BACKEND": "postgres", "BRANT_BACKEND_TARGET": address, "BRANT_BACKEND_SCHEMA": "elsewhere"}
    assert brant_command("write", "q", "there", **named).returncode == 0
    with brant.open(address, schema="elsewhere") as db:
        assert db.queue("q").read() == "there"
    with brant.open(address) as db:
        assert db.queue_names() == []


def test_a_project_file_names_a_server(brant_command: Run, address: str, tmp_path: Path) -> None:
    (tmp_path / ".brant.toml").write_text(f'backend = "postgres"\ntarget = "{address}"\n')
    assert brant_command("write", "q", "from the project", BRANT_PROJECT_SCOPE="1").returncode == 0
    with brant.open(address) as db:
        assert db.queue("q").read() == "from the project"


def test_the_password_is_never_shown(brant_command: Run, address: str) -> None:
    secret = address.replace("postgres:@", "postgres:hush@", 1)
    shown = [
        brant_command("config", BRANT_BACKEND="postgres", BRANT_BACKEND_TARGET=secret),
        brant_command("-f", secret, "config", "--json"),
        brant_command("-f", secret, "doctor"),
        brant_command("-f", secret, "init"),
        brant_command("-f", "postgresql://me:hush@127.0.0.1:1/app", "read", "q"),
    ]
    assert [done.returncode for done in shown] == [0, 0, 0, 0, 1]
    assert not [done for done in shown if "hush" in done.stdout + done.stderr]


def test_doctor_and_status_tell_of_the_server(brant_command: Run, address: str) -> None:
    found = json.loads(brant_command("-f", address, "doctor", "--json").stdout)
    assert (found["ok"], found["facts"]["schema"]) == (True, "brant")
    assert int(found["facts"]["postgres_version"].partition(".")[0]) >= 14
    status = json.loads(brant_command("-f", address, "--status", "--json").stdout)
    assert status["total_messages"] == 0
    assert status["db_size"] > 0


def test_init_by_force_begins_anew(brant_command: Run, address: str) -> None:
    brant_command("-f", address, "write", "q", "old")
    assert brant_command("-f", address, "init", "--force", "--yes").returncode == 0
    assert brant_command("-f", address, "read", "q").returncode == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-f", "postgresql://me@127.0.0.1:1/app"), "no server answers there"),
        (("-f", "postgresql://me@host/app?brant_color=red"), "does not know"),
        (("-f", "postgresql://me@[::1/app"), "can't be read"),
    ],
)
def test_a_wrong_address_is_one_line_of_error(brant_command: Run, words: tuple[str, ...], why: str) -> None:
    done = brant_command(*words, "read", "q")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert why in done.stderr


def test_a_command_that_is_run_for_a_job_finds_the_server(brant_command: Run, address: str) -> None:
    assert brant_command("-f", address, "write", "q", "first").returncode == 0
    script = f'{COMMAND} -f "$BRANT_DATABASE" write next "$(cat)"'
    done = brant_command("-f", address, "run", "q", "--drain", "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    assert brant_command("-f", address, "read", "next").stdout == "first\n"


@pytest.mark.parametrize(
    "environment",
    [
        {"BRANT_BACKEND_TARGET": "postgresql://u:sekret@127.0.0.1:1/x"},
        {"BRANT_BACKEND_HOST": "127.0.0.1", "BRANT_BACKEND_PORT": "1", "BRANT_BACKEND_PASSWORD": "sekret"},
        {"BRANT_BACKEND_TARGET": "postgresql+psycopg://u:sekret@h/x"},
    ],
)
@pytest.mark.parametrize("command", ["list", "bench", "config"])
def test_no_command_shows_a_password(brant_command: Run, command: str, environment: dict[str, str]) -> None:
    done = brant_command(command, BRANT_BACKEND="postgres", **environment)
    assert "sekret" not in done.stdout + done.stderr
    if command == "bench":
        assert done.returncode == 1
