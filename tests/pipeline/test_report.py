"""The report: what the gold tables say, on one page that needs nothing else. No Spark is started here."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from brant.pipeline import PipelineError, report
from brant.pipeline.lake import Lake
from brant.pipeline.project import Project
from brant.pipeline.report.gold import Timeline
from brant.pipeline.report.text import duration, number, share

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(folder=str(tmp_path), database=str(tmp_path / "app.db"), lake=str(tmp_path / "lake"))


def put(project: Project, name: str, *rows: dict[str, Any]) -> None:
    """Rows of a gold table, where `metrics` would put them."""
    Lake.of(project, create=True)
    for number_, row in enumerate(rows):
        day = (row.get("window_start") or row.get("first_seen") or START).date()
        folder = Path(project.lake) / "gold" / name / f"date={day}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([row]), folder / f"part-{number_}.parquet")


def topic(name: str, events: int, minutes: int = 0) -> dict[str, Any]:
    at = START + timedelta(minutes=minutes)
    return {"window_start": at, "tenant": "app", "topic": name, "events": events, "bytes": events * 100, "keys": 1}


def queue(name: str, completed: int, dead: int = 0, minutes: int = 0, **times: float | None) -> dict[str, Any]:
    counts = {"enqueued": completed + dead, "claimed": completed + dead, "completed": completed, "dead": dead}
    percentiles = dict.fromkeys(f"{kind}_{p}_s" for kind in ("wait", "run") for p in ("p50", "p95", "p99"))
    return {
        "window_start": START + timedelta(minutes=minutes),
        "tenant": "app",
        "queue": name,
        "failed_attempts": dead,
        "retries": 0,
        "oldest_age_s": 0.0,
        **counts,
        **percentiles,
        **times,
    }


class Outline(HTMLParser):
    """The page's texts, and whatever would be loaded from elsewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


def made(project: Project, tmp_path: Path, **options: int) -> Outline:
    path = report(project, str(tmp_path / "report.html"), **options)
    return Outline(Path(path).read_text("utf-8"))


def test_the_numbers_of_the_page_are_those_of_gold(project: Project, tmp_path: Path) -> None:
    put(project, "topics", topic("orders", 30), topic("orders", 12, 5), topic("payments", 8), topic("_brant:jobs", 500))
    put(project, "queues", queue("emails", 9, 1, wait_p95_s=0.25, run_p95_s=3.0), queue("emails", 10, 0, 5))
    texts = made(project, tmp_path).texts
    tiles = {name: value for value, name in reversed([(after, name) for name, after in pairwise(texts)])}
    assert tiles["events published"] == "50", "Brant's own events are not the application's"
    assert tiles["jobs completed"] == "19"
    assert tiles["success rate"] == "95 %"
    assert tiles["dead letters"] == "1"
    assert (tiles["queue wait p95"], tiles["run time p95"]) == ("250 ms", "3 s")
    assert "emails: queue wait" in texts
    assert "2026-03-01 to 2026-03-01" in texts[3]


def test_the_page_needs_no_network(project: Project, tmp_path: Path) -> None:
    put(project, "topics", topic("orders", 30), topic("orders", 12, 5))
    page = made(project, tmp_path)
    text = (tmp_path / "report.html").read_text("utf-8")
    assert page.loaded == []
    assert "script" not in page.tags
    assert not re.search(r"url\(|@import|https?:", text)
    assert "svg" in page.tags
    assert "prefers-color-scheme: dark" in text


def test_what_is_in_the_data_is_text_on_the_page(project: Project, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    seen = {"first_seen": START, "last_seen": START, "sample_job_ids": [1, 2]}
    put(project, "topics", topic(evil, 1))
    put(project, "queues", queue(f'"{evil}', 1, wait_p50_s=1.0))
    put(project, "dead_letters", {"queue": evil, "error_class": evil, "dead": 1, **seen})
    put(project, "mine", {"note": evil, "window_start": START})
    page = made(project, tmp_path)
    assert "script" not in page.tags
    assert page.texts.count(evil) >= 3


def test_dead_letters_are_ordered_by_how_many_there_are(project: Project, tmp_path: Path) -> None:
    seen = {"first_seen": START, "last_seen": START + timedelta(hours=1), "sample_job_ids": [7]}
    put(
        project,
        "dead_letters",
        {"queue": "emails", "error_class": "rare", "dead": 1, **seen},
        {"queue": "emails", "error_class": "frequent", "dead": 5, **seen},
    )
    texts = made(project, tmp_path).texts
    assert texts.index("frequent") < texts.index("rare")


def webhook(endpoint: str, provider: str | None, received: int, handled: int, dead: int = 0) -> dict[str, Any]:
    times = {f"handled_{p}_s": 2.0 for p in ("p50", "p95", "p99")}
    return {
        "window_start": START,
        "tenant": "app",
        "endpoint": endpoint,
        "provider": provider,
        "received": received,
        "duplicates": 1,
        "invalid": 2,
        "handled": handled,
        "failed": dead,
        "retries": 0,
        "dead": dead,
        "oldest_unhandled_s": 60.0,
        **times,
    }


def test_webhooks_by_endpoint_and_provider_and_rejects_by_reason(project: Project, tmp_path: Path) -> None:
    rows = [webhook("<shop>", "stripe", 30, 9, 1), webhook("open", None, 5, 5)]
    put(project, "webhooks", *rows)
    put(project, "webhook_providers", *({**row, "endpoint": None} for row in rows))
    refused = {"window_start": START, "tenant": "app", "endpoint": "<shop>", "status": 401, "last_seen": START}
    put(
        project,
        "webhook_rejects",
        {**refused, "reason": "rare", "rejects": 1},
        {**refused, "reason": "frequent", "rejects": 4},
        {**refused, "reason": "frequent", "rejects": 3, "window_start": START + timedelta(hours=1)},
    )
    page = made(project, tmp_path)
    for title in ("Webhooks by endpoint", "Webhooks by provider", "Receipt to handled", "Rejected requests by reason"):
        assert title in page.texts
    place = page.texts.index("oldest unhandled") + 1
    assert page.texts[place : place + 12] == [
        "<shop>", "stripe", "30", "1", "2", "9", "1", "0", "1", "90 %", "2 s", "60 s",
    ]  # fmt: skip
    assert "no provider" in page.texts
    place = page.texts.index("last seen") + 1
    assert page.texts[place : place + 5] == ["frequent", "<shop>", "401", "7", "01 Mar 00:00"]
    assert page.texts[place + 5] == "rare"


def test_without_an_inbox_the_page_says_nothing_of_webhooks(project: Project, tmp_path: Path) -> None:
    put(project, "topics", topic("orders", 30))
    assert not any("ebhook" in text or "Rejected" in text for text in made(project, tmp_path).texts)


def test_a_table_of_the_project_is_shown_by_its_newest_rows(project: Project, tmp_path: Path) -> None:
    put(project, "revenue", *({"window_start": START + timedelta(days=day), "total": 1000 + day} for day in range(3)))
    texts = made(project, tmp_path, days=2).texts
    assert "revenue" in texts
    assert ("1002" in texts, "1001" in texts, "1000" in texts) == (True, True, False), "only two days were asked for"


def test_a_lake_without_gold_says_what_to_run(project: Project, tmp_path: Path) -> None:
    Lake.of(project, create=True)
    with pytest.raises(PipelineError, match=r"no gold tables .* run `brant pipeline run` first"):
        report(project, str(tmp_path / "report.html"))
    assert not (tmp_path / "report.html").exists()


def test_gold_tables_without_rows_make_a_page_all_the_same(project: Project, tmp_path: Path) -> None:
    put(project, "topics")
    Path(project.lake, "gold", "topics").mkdir(parents=True)
    assert "no data yet" in made(project, tmp_path).texts[3]


def test_a_long_time_is_shown_in_longer_steps_and_nothing_is_lost() -> None:
    rows = [topic("orders", 1, 5 * step) for step in range(5000)]
    timeline = Timeline.of(rows)
    assert timeline is not None
    assert timeline.points <= 120
    assert timeline.sums(rows, "events", "orders").total == 5000


def test_of_several_windows_in_a_step_the_worst_percentile_is_shown() -> None:
    rows = [queue("q", 1, 0, 5 * step, wait_p95_s=float(step)) for step in range(1000)]
    timeline = Timeline.of(rows)
    assert timeline is not None
    shown = [value for value in timeline.worst(rows, "wait_p95_s", "p95").values if value is not None]
    assert max(shown) == 999.0


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0123, "12.3 ms"), (1.5, "1.5 s"), (600, "10 min"), (7200, "2 h"), (None, "-")]
)
def test_durations_for_people(value: float | None, text: str) -> None:
    assert duration(value) == text


def test_a_rate_is_never_rounded_up_to_all() -> None:
    assert (share(1.0), share(0.999999), share(0.5), share(None)) == ("100 %", "99.99 %", "50 %", "-")


def test_large_numbers_are_short() -> None:
    assert (number(99_999), number(1_234_567), number(2.5)) == ("99,999", "1.23 M", "2.5")
