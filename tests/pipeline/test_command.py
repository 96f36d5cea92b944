"""The command from an empty folder to a gold table and a page: each step as the tutorial has it."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest

import brant
from brant.pipeline import load_project
from tests.cli.conftest import COMMAND, clean_environment
from tests.pipeline.commands import PATIENCE_S, PROJECT, pipeline, shop


def test_from_a_database_to_a_gold_table_and_a_page(tmp_path: Path) -> None:
    shop(tmp_path / "app.db")
    (tmp_path / "brant-pipeline.toml").write_text(PROJECT)

    done = pipeline(tmp_path, "run")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    told = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in told] == ["archive", "refine-orders", "metrics"]
    assert all("rows/s" in line and line.endswith("up to date") for line in told)

    status = pipeline(tmp_path, "status", "--json")
    queries = {query["query"]: query for query in map(json.loads, status.stdout.splitlines())}
    assert list(queries) == ["archive", "refine-orders", "metrics", "gold-revenue"]
    assert queries["archive"]["lag"] == 0
    assert queries["archive"]["rows"] == queries["archive"]["offsets"]["app"]
    assert queries["refine-orders"]["rows"] == 20
    assert queries["refine-orders"]["counts"] == {"late": 0, "malformed": 1, "duplicates": 0, "quarantined": 1}
    assert all(query["error"] is None and not query["is_running"] for query in queries.values())

    with brant.open(tmp_path / "app.db") as db:
        db.stream("orders").publish({"id": 99, "total": 1.0, "customer": "c0"})
    waiting = [json.loads(line)["lag"] for line in pipeline(tmp_path, "status", "--json").stdout.splitlines()]
    assert waiting == [1, 0, 0, None], "only the archive can see it yet, and a gold table has no lag of its own"

    both = """SELECT r.customer, r.total, l.n FROM gold.revenue r
        CROSS JOIN (SELECT count(*) AS n FROM live.stream WHERE topic = 'orders') l ORDER BY 1"""
    asked = pipeline(tmp_path, "sql", "-", "--csv", stdin=f"{both};\n")
    assert asked.returncode == 0, asked.stderr
    assert list(csv.reader(asked.stdout.splitlines())) == [
        ["customer", "total", "n"],
        ["c0", "94.5", "22"],
        ["c1", "105.0", "22"],
        ["c2", "85.5", "22"],
    ]

    again = ("replay", "orders", "--to", "queue:again", "--where", "key < '2'", "--id", "first")
    counted = pipeline(tmp_path, *again, "--dry-run")
    assert (counted.returncode, counted.stdout) == (0, "orders\t12\n"), counted.stderr
    for _ in range(2):
        replayed = pipeline(tmp_path, *again)
        assert (replayed.returncode, replayed.stdout) == (0, ""), replayed.stderr
    with brant.open(tmp_path / "app.db") as db:
        assert db.queue("again").stats().pending == 12, "the second time adds nothing"

    pruned = pipeline(tmp_path, "archive", "--prune")
    assert pruned.returncode == 0, pruned.stderr
    assert "events that are in the lake" in pruned.stderr
    with brant.open(tmp_path / "app.db") as db:
        assert db.stream("orders").read() == []

    nothing = pipeline(tmp_path, "compact", "bronze/events")
    assert (nothing.returncode, nothing.stdout) == (2, ""), "today is not closed"

    page = pipeline(tmp_path, "report", "--out", "page.html")
    assert page.stdout.strip() == str(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "emails: queue wait" in text
    assert "SMTP error #" in text
    assert "<h2>revenue</h2>" in text


def test_run_until_it_is_stopped(tmp_path: Path) -> None:
    shop(tmp_path / "app.db", orders=3)
    (tmp_path / "brant-pipeline.toml").write_text(
        f'{PROJECT}\n[schedule]\narchive = "1s"\nrefine = "1s"\nmetrics = "1s"\n'
    )
    command = [COMMAND, "pipeline", "run", "--continuous"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=clean_environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as running:
        assert running.stderr is not None
        wait_for_line(running.stderr, "metrics: batch 0")
        with brant.open(tmp_path / "app.db") as db:
            db.stream("orders").publish({"id": 99, "total": 1.0, "customer": "c0"})
        wait_for_line(running.stderr, "archive: batch 1")
        wait_for_line(running.stderr, "refine-orders: batch 1")
        status = {
            query["query"]: query
            for query in map(json.loads, pipeline(tmp_path, "status", "--json").stdout.splitlines())
        }
        assert status["archive"]["is_running"]
        running.send_signal(signal.SIGTERM)
        rest = running.stderr.read()
        assert running.wait(PATIENCE_S) == 0, rest
    assert rest.rstrip().endswith("brant pipeline: stopped")
    assert "Traceback" not in rest
    status = {
        query["query"]: query for query in map(json.loads, pipeline(tmp_path, "status", "--json").stdout.splitlines())
    }
    assert not status["archive"]["is_running"]
    assert status["refine-orders"]["rows"] == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_query_that_takes_for_ever_can_be_stopped(tmp_path: Path, number: signal.Signals) -> None:
    shop(tmp_path / "app.db", orders=1)
    (tmp_path / "brant-pipeline.toml").write_text(PROJECT)
    endless = "SELECT 'begun' UNION ALL SELECT count(*) FROM range(10000000000) a CROSS JOIN range(10000000000) b"
    with subprocess.Popen(
        [COMMAND, "pipeline", "sql", endless, "--csv"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        wait_for_line(running.stdout, "begun")
        running.send_signal(number)
        assert running.wait(PATIENCE_S) == 128 + number


def wait_for_line(lines: object, beginning: str) -> None:
    seen = []
    for line in lines:  # type: ignore[attr-defined]
        seen.append(line)
        if line.startswith(beginning):
            return
    pytest.fail(f"no line began with {beginning!r}: {''.join(seen)}")


def test_init_writes_a_project_for_the_topics_that_are_there(tmp_path: Path) -> None:
    with brant.open(tmp_path / "app.db") as db:
        for topic in ("orders", "Web Hooks", "web-hooks", "2fa"):
            db.stream(topic).publish({"id": 1})
        db.queue("q").record_events()
        db.queue("q").enqueue(1)
    done = subprocess.run(
        [COMMAND, "-f", "app.db", "pipeline", "init"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == "Wrote brant-pipeline.toml: 4 silver tables. Next: brant pipeline run\n"
    project = load_project(str(tmp_path / "brant-pipeline.toml"))
    assert {table.name: table.topic for table in project.silver} == {
        "orders": "orders",
        "web_hooks": "Web Hooks",
        "web_hooks_2": "web-hooks",
        "t_2fa": "2fa",
    }
    assert (project.database, project.lake) == (str(tmp_path / "app.db"), str(tmp_path / "lake"))


def test_every_setting_that_init_comments_out_is_one_that_the_project_takes(tmp_path: Path) -> None:
    shop(tmp_path / "app.db", orders=1)
    assert pipeline_init(tmp_path).returncode == 0
    path = tmp_path / "brant-pipeline.toml"
    shown = [line.removeprefix("# ") for line in path.read_text().splitlines()]
    settings = [line for line in shown if line.startswith("[") or "= " in line.partition("#")[0]]
    text = "\n".join(line.replace("customer", "user").replace("email", "mail") for line in settings)
    tomllib.loads(text)
    path.write_text(text)
    project = load_project(str(path))
    assert project.archive.prune
    assert project.silver[0].key == ("id",)
    assert project.gold[0].sources == ("silver.orders",)
    assert set(project.schedule) == {"archive", "refine", "metrics", "compact"}


def test_init_replaces_a_project_only_when_forced(tmp_path: Path) -> None:
    shop(tmp_path / "app.db", orders=1)
    path = tmp_path / "brant-pipeline.toml"
    path.write_text("mine")
    refused = pipeline_init(tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == "brant: error: brant-pipeline.toml is there already; --force replaces it\n"
    assert path.read_text() == "mine"
    assert pipeline_init(tmp_path, "--force").returncode == 0
    assert path.read_text() != "mine"


def pipeline_init(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "-f", "app.db", "pipeline", "init", *words]
    return subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False)
