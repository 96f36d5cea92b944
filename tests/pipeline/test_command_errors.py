"""What the command says when it can't: one line, exit code 1, nothing harmed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from brant.pipeline.lake import Lake
from tests.cli.conftest import COMMAND, clean_environment
from tests.pipeline.commands import PROJECT, pipeline, shop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shop(tmp_path / "app.db", orders=2)
    (tmp_path / "brant-pipeline.toml").write_text(PROJECT)
    return tmp_path


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on stderr."""
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("brant: error: ")
    return line.removeprefix("brant: error: ")


def test_without_a_project_it_says_how_to_make_one(tmp_path: Path) -> None:
    for action in ("run", "status", "report", "compact"):
        text = complaint(pipeline(tmp_path, action))
        assert text == "there is no brant-pipeline.toml: `brant pipeline init` makes one"


def test_a_wrong_setting_is_named(folder: Path) -> None:
    (folder / "brant-pipeline.toml").write_text('[pipeline]\ndatabase = "app.db"\nlakes = "x"\n')
    assert "pipeline.lakes is no setting; did you mean 'lake'?" in complaint(pipeline(folder, "run"))


def test_status_before_the_first_run_says_what_to_run(folder: Path) -> None:
    assert complaint(pipeline(folder, "status")).endswith("lake: run `brant pipeline archive` first")


def test_a_lake_of_a_newer_version_is_refused(folder: Path) -> None:
    Lake(str(folder / "lake"), create=True)
    (folder / "lake/_brant/lake.json").write_text(json.dumps({"version": 99}))
    for action in ("status", "report", "compact"):
        assert "was written by a newer Brant (format 99): upgrade Brant" in complaint(pipeline(folder, action))


def test_init_without_a_database_says_so(tmp_path: Path) -> None:
    command = [COMMAND, "-f", "no.db", "pipeline", "init"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert "there is no database at" in complaint(done)
    assert list(tmp_path.iterdir()) == []


def test_options_that_contradict_each_other_are_refused(folder: Path) -> None:
    both = pipeline(folder, "run", "--master", "local[1]", "--remote", "sc://localhost")
    assert "not allowed with argument --master" in complaint(both)
    assert "--every belongs to --continuous" in complaint(pipeline(folder, "archive", "--every", "5"))
    assert "leave -f out" in complaint(
        subprocess.run(
            [COMMAND, "-f", "app.db", "pipeline", "status"],
            cwd=folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    )


def test_a_server_that_does_not_answer_is_named_with_its_address(folder: Path) -> None:
    text = complaint(pipeline(folder, "run", "--remote", "sc://127.0.0.1:1"))
    assert text.startswith("no Spark Connect server answers at 127.0.0.1:1")


def test_a_missing_extra_is_one_line_that_says_what_to_install(folder: Path) -> None:
    """In an interpreter that has no such module."""
    for part, action in (("pyspark", "run"), ("pyarrow", "status")):
        program = f"import sys; sys.modules[{part!r}] = None; from brant.cli.main import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", program, "pipeline", action],
            cwd=folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert complaint(done) == f"{part} is not installed; the pipeline needs it: pip install 'brant[spark]'"


def test_errors_can_be_json(folder: Path) -> None:
    done = pipeline(folder, "status", "--json")
    assert done.returncode == 1
    assert json.loads(done.stderr)["message"].startswith("there is no lake at")


def test_what_fails_in_spark_is_one_line_and_kept_for_status(folder: Path) -> None:
    wrong = PROJECT.replace("SELECT date, customer", "SELECT date, custommer")
    (folder / "brant-pipeline.toml").write_text(wrong)
    done = pipeline(folder, "run")
    assert done.returncode == 1
    *progress, last = done.stderr.splitlines()
    assert len(progress) == 3, "the jobs before it are done"
    assert last.startswith("brant: error: gold.revenue")
    assert "`custommer`" in last
    assert "org.apache" not in done.stderr

    (folder / "app.db").rename(folder / "away.db")
    assert "there is no database" in complaint(pipeline(folder, "archive"))
    status = pipeline(folder, "status", "--json")
    archive, *others = map(json.loads, status.stdout.splitlines())
    assert (archive["lag"], archive["rows"] > 0) == (None, True), "the lake is known all the same"
    # Its queries start together, and the first that fails ends the others.
    failed = [query for query in (archive, *others) if query["query"].startswith("archive") and query["error"]]
    assert failed
    assert all("there is no database" in query["error"] for query in failed)
    assert all(query["error_at"] > archive["batch_at"] for query in failed)


def test_a_master_that_does_not_answer_is_one_line(folder: Path) -> None:
    text = complaint(pipeline(folder, "archive", "--master", "spark://127.0.0.1:1"))
    assert text.startswith("no Spark master answers at spark://127.0.0.1:1 (")
