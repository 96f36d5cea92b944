"""The tutorial of the inbox, step by step: real commands, a real server, a real curl."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import brant
from tests.cli.conftest import COMMAND, clean_environment
from tests.inbox.serving import serving
from tests.waiting import PATIENCE_S

PAGE = Path(__file__).parents[2] / "docs" / "tutorial-inbox.md"
SECRET = "whsec_test"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def shell(folder: Path, script: str) -> str:
    environment = clean_environment(STRIPE_SECRET=SECRET)
    environment["PATH"] = f"{Path(COMMAND).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_tutorial_of_the_inbox_works_as_written(tmp_path: Path) -> None:
    make, send, again, look, handle, replay = blocks("sh")
    assert blocks("sh server") == [f"export STRIPE_SECRET={SECRET}\nbrant inbox serve app:inbox\n"]
    shell(tmp_path, make)
    with serving(tmp_path, STRIPE_SECRET=SECRET) as server:
        assert "curl" in shell(tmp_path, send.replace("http://127.0.0.1:8000", server.url))
        assert shell(tmp_path, again) == "no signature matches\n"
    assert "no signature matches" in shell(tmp_path, look)
    with brant.open(tmp_path / "shop.db") as db, brant.Inbox(db) as inbox:
        [event] = inbox.list_events()
        assert (event.status, len(inbox.list_deliveries())) == ("received", 3)
        assert "handled" in shell(tmp_path, handle)
        assert db.query("SELECT invoice FROM payments") == [{"invoice": "in_42"}]
        assert "replay" in shell(tmp_path, replay)
        assert [attempt.outcome for attempt in inbox.list_attempts(event_id=event.id)] == ["handled", "handled"]
