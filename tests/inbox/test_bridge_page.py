"""The page on bridges: its commands do what it says they do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import brant
from tests.cli.conftest import COMMAND, clean_environment
from tests.inbox.nodes import wait_for
from tests.waiting import PATIENCE_S, in_thread

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "outgoing.md"


def test_the_commands_of_the_page_bridge_two_directories(tmp_path: Path) -> None:
    secret, serve, send = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert "BRIDGE_SECRET" in secret
    made = subprocess.run(
        ["sh", "-c", f"{secret}\nprintf %s $BRIDGE_SECRET"], capture_output=True, text=True, check=True
    )
    path = f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"
    environment = clean_environment(BRIDGE_SECRET=made.stdout, PATH=path)
    east, west = tmp_path / "east", tmp_path / "west"
    for folder in (east, west):
        folder.mkdir()
    with subprocess.Popen(
        ["sh", "-c", f"exec {serve.replace('8000', '0')}"],
        cwd=west,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            banner = in_thread(server.stderr.readline).result(PATIENCE_S)
            port = re.findall(r":(\d+) ", banner)[0]
            done = subprocess.run(
                ["sh", "-e", "-c", send.replace("8000", port)],
                cwd=east,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=True,
            )
            assert "Sent 1 events" in done.stderr
            with brant.open(west / ".brant.db") as arrived:
                wait_for(arrived, 1)
                assert [(event.key, event.payload) for event in arrived.stream("orders").read()] == [("42", {"id": 42})]
        finally:
            server.send_signal(signal.SIGTERM)
