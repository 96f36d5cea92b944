"""brant inbox replay, requeue, ignore, replay-delivery, prune."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND
from tests.inbox.commands import assert_refused, at_a_terminal, audits, filled, inbox_command, objects, statuses
from tests.inbox.tiny import tiny, work
from tests.waiting import PATIENCE_S


@pytest.fixture
def ids(tmp_path: Path) -> dict[str, int]:
    return filled(tmp_path)


def handled_by_the_application(folder: Path) -> list[int]:
    """Run what is due, as the application would; gives the events that its handler got."""
    seen: list[int] = []
    with brant.open(folder / ".brant.db") as db, brant.Inbox(db) as inbox:
        tiny(inbox, "orders").handle()(lambda event, tx: seen.append(event.id))
        tiny(inbox, "news").handle()(lambda event, tx: None)
        work(inbox)
    return seen


@pytest.mark.guarantee("G33")
def test_an_endpoint_is_paused_and_resumed_with_a_record_of_it(tmp_path: Path) -> None:
    filled(tmp_path)
    assert inbox_command(tmp_path, "pause", "news").returncode == 0
    assert [each["enabled"] for each in objects(tmp_path, "endpoints")] == [False, True]
    assert objects(tmp_path, "resume", "news") == [{"action": "resume", "endpoint": "news"}]
    assert [each["enabled"] for each in objects(tmp_path, "endpoints")] == [True, True]
    assert inbox_command(tmp_path, "pause", "nowhere").returncode == 2
    told = [(each["action"], each["summary"]) for each in objects(tmp_path, "audits")]
    assert told == [("resume", {"endpoint": "news"}), ("pause", {"endpoint": "news"})]


def test_audits_tell_what_was_done_and_what_was_deleted(tmp_path: Path) -> None:
    ids = filled(tmp_path)
    assert inbox_command(tmp_path, "audits").returncode == 2
    inbox_command(tmp_path, "requeue", ids["dead"])
    aged(tmp_path)
    inbox_command(tmp_path, "prune", "--status", "handled", "--older-than", 60, "--yes")
    [line] = inbox_command(tmp_path, "audits").stdout.decode().splitlines()
    assert line.split("\t")[2:4] == ["requeue", "1"]
    pruned = objects(tmp_path, "audits", "--pruned")
    assert {each["kind"] for each in pruned} == {"events"}


def test_a_replayed_event_runs_again(tmp_path: Path, ids: dict[str, int]) -> None:
    ended = inbox_command(tmp_path, "replay", ids["paid"])
    assert (ended.returncode, ended.stderr.decode()) == (0, f"The event {ids['paid']} was replayed\n")
    assert handled_by_the_application(tmp_path) == [ids["paid"]]


def test_a_requeued_event_runs(tmp_path: Path, ids: dict[str, int]) -> None:
    assert inbox_command(tmp_path, "requeue", ids["dead"]).returncode == 0
    assert handled_by_the_application(tmp_path) == [ids["dead"]]
    assert audits(tmp_path) == [("requeue", 1)]


def test_an_ignored_event_does_not_run(tmp_path: Path, ids: dict[str, int]) -> None:
    assert inbox_command(tmp_path, "ignore", ids["dead"]).returncode == 0
    assert statuses(tmp_path)[ids["dead"]] == "ignored"
    assert handled_by_the_application(tmp_path) == []


def test_a_replayed_delivery_runs_its_event(tmp_path: Path, ids: dict[str, int]) -> None:
    (delivery,) = objects(tmp_path, "deliveries", "--event", ids["paid"])
    assert inbox_command(tmp_path, "replay-delivery", delivery["id"]).returncode == 0
    assert handled_by_the_application(tmp_path) == [ids["paid"]]


def test_a_delivery_that_was_refused_can_not_be_replayed(tmp_path: Path, ids: dict[str, int]) -> None:
    (orphan,) = objects(tmp_path, "deliveries", "--orphaned")
    assert_refused(inbox_command(tmp_path, "replay-delivery", orphan["id"]), "has no event")


def test_what_the_status_forbids_is_refused(tmp_path: Path, ids: dict[str, int]) -> None:
    before = statuses(tmp_path)
    assert_refused(inbox_command(tmp_path, "requeue", ids["paid"]), "is handled, and only failed, dead, ignored")
    assert_refused(inbox_command(tmp_path, "ignore", ids["paid"]), "can be ignored")
    assert statuses(tmp_path) == before


@pytest.mark.parametrize("action", ["replay", "requeue", "ignore", "replay-delivery"])
def test_what_is_not_there_is_exit_code_2(tmp_path: Path, ids: dict[str, int], action: str) -> None:
    ended = inbox_command(tmp_path, action, 10**9)
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"brant: there is no ")


def test_many_are_acted_on_by_filter(tmp_path: Path, ids: dict[str, int]) -> None:
    (told,) = objects(tmp_path, "replay", "--status", "handled", "--endpoint", "orders", "--type", "paid", "--yes")
    assert (told["action"], told["events"], told["dry_run"]) == ("replay", 2, False)
    assert handled_by_the_application(tmp_path) == [ids["paid"], ids["again"]]
    assert audits(tmp_path) == [("replay", 2)]


def test_the_limit_takes_the_oldest(tmp_path: Path, ids: dict[str, int]) -> None:
    inbox_command(tmp_path, "replay", "--status", "handled", "--limit", 1, "--yes")
    assert handled_by_the_application(tmp_path) == [ids["paid"]]


def test_a_dry_run_counts_and_does_nothing(tmp_path: Path, ids: dict[str, int]) -> None:
    before = statuses(tmp_path)
    ended = inbox_command(tmp_path, "ignore", "--status", "dead", "--dry-run")
    assert (ended.returncode, ended.stdout) == (0, b"1 event would be ignored\n")
    assert (statuses(tmp_path), audits(tmp_path)) == (before, [])


def test_no_match_is_exit_code_2_and_asks_nothing(tmp_path: Path, ids: dict[str, int]) -> None:
    assert inbox_command(tmp_path, "requeue", "--status", "dead", "--until", "2020-01-31").returncode == 2
    assert audits(tmp_path) == []


def test_without_a_terminal_many_need_yes(tmp_path: Path, ids: dict[str, int]) -> None:
    before = statuses(tmp_path)
    assert_refused(inbox_command(tmp_path, "replay", "--status", "handled"), "Replay 2 events? There is no terminal")
    assert statuses(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["replay"], "by its id, or all of one status"),
        (["replay", "1", "--status", "dead"], "by its id, or all of one status"),
        (["replay", "1", "--endpoint", "orders"], "--endpoint chooses among many"),
        (["replay", "1", "--dry-run"], "--dry-run counts many"),
        (["requeue", "--status", "handled"], "invalid choice"),
        (["prune", "--older-than", "5"], "say what to prune"),
        (["prune", "--orphans", "--content", "--older-than", "5"], "name their status"),
        (["prune", "--status", "handled"], "--older-than"),
        (["prune", "--status", "failed", "--content", "--older-than", "5"], "can't be erased"),
        (["prune", "--status", "received", "--older-than", "5"], "invalid choice"),
    ],
)
def test_bad_words_are_refused_in_one_line(tmp_path: Path, ids: dict[str, int], words: list[str], why: str) -> None:
    before = statuses(tmp_path)
    assert_refused(inbox_command(tmp_path, *words), why)
    assert statuses(tmp_path) == before


def aged(folder: Path) -> None:
    """Let all that is there have happened a day ago."""
    with brant.open(folder / ".brant.db") as db, db.transaction() as tx:
        tx.execute("UPDATE knocker_events SET received_at = received_at - 86400, handled_at = handled_at - 86400")
        tx.execute("UPDATE knocker_attempts SET attempted_at = attempted_at - 86400")
        tx.execute("UPDATE knocker_deliveries SET received_at = received_at - 86400")


def test_prune_deletes_what_is_old_and_leaves_the_rest(tmp_path: Path, ids: dict[str, int]) -> None:
    assert inbox_command(tmp_path, "prune", "--status", "handled", "--older-than", 3600, "--yes").returncode == 2
    aged(tmp_path)
    ended = inbox_command(tmp_path, "prune", "--status", "handled", "--older-than", 3600, "--yes")
    assert (ended.returncode, ended.stderr) == (0, b"Deleted: 2 events, 2 deliveries, 2 attempts\n")
    assert sorted(statuses(tmp_path)) == sorted([ids["dead"], ids["waiting"]])


def test_prune_takes_several_statuses_and_orphans(tmp_path: Path, ids: dict[str, int]) -> None:
    aged(tmp_path)
    words = ["prune", "--status", "handled", "--status", "dead", "--orphans", "--older-than", 3600]
    (counted,) = objects(tmp_path, *words, "--dry-run")
    assert (counted["events_pruned"], counted["deliveries_pruned"], counted["dry_run"]) == (3, 1, True)
    assert len(statuses(tmp_path)) == 4
    (pruned,) = objects(tmp_path, *words, "--yes")
    assert (pruned["events_pruned"], pruned["deliveries_pruned"], pruned["dry_run"]) == (3, 4, False)
    assert list(statuses(tmp_path)) == [ids["waiting"]]


def test_prune_may_erase_the_content_alone(tmp_path: Path, ids: dict[str, int]) -> None:
    aged(tmp_path)
    words = ["prune", "--status", "handled", "--content", "--older-than", 3600]
    assert objects(tmp_path, *words, "--dry-run")[0]["contents_erased"] == 2
    assert objects(tmp_path, *words, "--yes")[0]["contents_erased"] == 2
    assert inbox_command(tmp_path, "show", ids["paid"], "--raw").stdout == b""
    assert objects(tmp_path, *words, "--dry-run")[0]["contents_erased"] == 0


def test_without_a_terminal_prune_needs_yes(tmp_path: Path, ids: dict[str, int]) -> None:
    aged(tmp_path)
    ended = inbox_command(tmp_path, "prune", "--status", "handled", "--older-than", 3600)
    assert_refused(ended, "Delete 2 events for good? There is no terminal")
    assert len(statuses(tmp_path)) == 4


def test_prune_of_an_endpoint_that_is_not_there(tmp_path: Path, ids: dict[str, int]) -> None:
    ended = inbox_command(tmp_path, "prune", "--status", "dead", "--older-than", 0, "--endpoint", "nobody", "--yes")
    assert (ended.returncode, ended.stderr) == (2, b"brant: there is no endpoint 'nobody'\n")
    assert len(statuses(tmp_path)) == 4


def test_an_event_that_the_shell_requeued_has_no_more_attempts_than_its_endpoint_gives(
    tmp_path: Path, ids: dict[str, int]
) -> None:
    inbox_command(tmp_path, "requeue", ids["dead"])
    tries: list[int] = []

    def fail(event: brant.inbox.Event, tx: brant.Transaction) -> None:
        tries.append(event.id)
        raise RuntimeError("no")

    with brant.open(tmp_path / ".brant.db") as db, brant.Inbox(db) as inbox:
        policy = brant.inbox.RetryPolicy(max_attempts=2, first_delay_s=0)
        tiny(inbox, "orders", retry=policy).handle()(fail)
        tiny(inbox, "news").handle()(lambda event, tx: None)
        work(inbox)
    assert (tries, statuses(tmp_path)[ids["dead"]]) == ([ids["dead"]] * 2, "dead")


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, 4), ("y\n", 0, 2)])
def test_at_a_terminal_prune_asks(tmp_path: Path, ids: dict[str, int], answer: str, code: int, left: int) -> None:
    aged(tmp_path)
    shown, ended = at_a_terminal(tmp_path, "prune", "--status", "handled", "--older-than", 3600, answer=answer)
    assert "Delete 2 events for good? [y/N]" in shown
    assert (ended, len(statuses(tmp_path))) == (code, left)


def test_at_a_terminal_an_event_is_shown_in_tables(tmp_path: Path, ids: dict[str, int]) -> None:
    shown, ended = at_a_terminal(tmp_path, "show", ids["dead"])
    assert ended == 0
    assert all(header in shown for header in ("FACT", "VERIFIED", "OUTCOME"))


def test_dump_and_load_carry_the_inbox(tmp_path: Path, ids: dict[str, int]) -> None:
    dumped = subprocess.run([COMMAND, "dump"], cwd=tmp_path, capture_output=True, check=True, timeout=PATIENCE_S)
    copy = tmp_path / "copy"
    copy.mkdir()
    loaded = subprocess.run(
        [COMMAND, "load"], cwd=copy, input=dumped.stdout, capture_output=True, check=True, timeout=PATIENCE_S
    )
    assert b"knocker_events: 4" in loaded.stderr
    assert objects(copy, "events", "--body") == objects(tmp_path, "events", "--body")
    assert inbox_command(copy, "requeue", ids["dead"]).returncode == 0
    assert handled_by_the_application(copy) == [ids["dead"]]


def test_one_event_is_erased_when_that_is_confirmed(tmp_path: Path) -> None:
    ids = filled(tmp_path)
    screen, code = at_a_terminal(tmp_path, "erase", ids["paid"], answer="n\n")
    assert (code, "Nothing was erased" in screen) == (1, True)
    assert inbox_command(tmp_path, "show", ids["paid"], "--raw").stdout
    assert inbox_command(tmp_path, "erase", ids["paid"], "--yes").returncode == 0
    assert inbox_command(tmp_path, "show", ids["paid"], "--raw").stdout == b""
    assert_refused(inbox_command(tmp_path, "erase", ids["waiting"], "--yes"), "is received")
    assert inbox_command(tmp_path, "erase", 999, "--yes").returncode == 2
