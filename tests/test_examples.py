"""The example programs run, and do what they say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

# The application's module opens its database when it is imported: a process of its own for each test.
CLIENT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
import httpx
from starlette_app import app, db

async def one_life_of_the_application(customer):
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop")
    async with app.router.lifespan_context(app), client:
        placed = await client.post("/orders", params={"customer": customer})
        assert placed.status_code == 202, placed.text
        print((await client.get(f"/receipts/{placed.json()['receipt']}")).json()["receipt"])

for customer in ("alice", "bob"):
    asyncio.run(one_life_of_the_application(customer))
print(db.queue("receipts").stats().total)
db.close()
"""


def output_of(*command: object, cwd: Path, timeout_s: int = 60) -> list[str]:
    whole = [sys.executable, "-W", "error", *map(str, command)]
    done = subprocess.run(whole, cwd=cwd, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def test_every_example_is_run_here() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == {
        "demo.py",
        "fastapi_app.py",  # in test_fastapi_example.py
        "sqlalchemy_orders.py",
        "starlette_app.py",
    }


@pytest.mark.timeout(300)
def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    """With Spark at its end, which takes its time on a busy machine."""
    lines = output_of(EXAMPLES / "demo.py", cwd=tmp_path, timeout_s=280)
    assert [line[0] for line in lines if line[:1].isdigit()] == ["1", "2", "3", "4", "5", "6", "7"]
    (report,) = (line.partition(": ")[2] for line in lines if line.startswith("  report: "))
    page = Path(report).read_text("utf-8")
    assert "emails: run time" in page
    assert "Webhooks by provider" in page
    shutil.rmtree(Path(report).parent)
    assert "  health: ok" in lines


def test_an_order_and_its_receipt_are_one_transaction_in_sqlalchemy(tmp_path: Path) -> None:
    assert output_of(EXAMPLES / "sqlalchemy_orders.py", cwd=tmp_path) == [
        "rolled back, order and task: card declined",
        "to mail: 1",
        "order 1 of alice: mailed",
    ]


def test_an_application_runs_its_worker_each_time_that_it_is_started(tmp_path: Path) -> None:
    lines = output_of("-c", CLIENT, EXAMPLES, cwd=tmp_path)
    assert lines == ["receipt of order 1 for alice", "receipt of order 2 for bob", "0"]
