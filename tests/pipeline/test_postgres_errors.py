"""Wrong addresses, passwords and databases: one line that says what to do, and no secret in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import brant
from brant.config import without_password
from brant.pipeline import PipelineError, status
from brant.pipeline.errors import without_secrets
from brant.pipeline.failures import sentence_of
from brant.pipeline.lake import Lake
from brant.pipeline.project import Project, load
from tests.cli.conftest import COMMAND, clean_environment
from tests.pipeline.reading import Follower, rows
from tests.pipeline.sinking import append
from tests.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "pssst-4711"
OWN_SERVER = pytest.mark.skipif("BRANT_TEST_POSTGRES" in os.environ, reason="needs a user of its own")


def as_user(address: str, name: str, password: str = SECRET) -> str:
    host = urlsplit(address).netloc.rpartition("@")[2]
    return urlunsplit(urlsplit(address)._replace(netloc=f"{name}:{password}@{host}"))


@pytest.fixture
def guarded(address: str) -> Iterator[str]:
    """The address of a user who may read everything, by the password that is in it."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS brant_password")
        connection.execute(f"CREATE ROLE brant_password SUPERUSER LOGIN PASSWORD '{SECRET}'")
    yield as_user(address, "brant_password")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP OWNED BY brant_password")  # such as a sink's table of marks
        connection.execute("DROP ROLE brant_password")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"path": "/nowhere"}, "there is no such database on the server; create it first"),
        ({"netloc": f"me:{SECRET}@127.0.0.1:1", "query": ""}, "no server answers there"),
        ({"netloc": f"me:{SECRET}@no-such-host.invalid", "query": ""}, "there is no host of that name"),
        ({"query": f"password={SECRET}&nonsense=1"}, "can't be read; write postgresql://"),
        ({"netloc": f"me:{SECRET}@[::1", "query": ""}, "can't be read; write postgresql://"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_in_one_line(address: str, change: dict[str, str], why: str) -> None:
    wrong = urlunsplit(urlsplit(address)._replace(**change))
    for ask in (rows, Follower):
        with pytest.raises(PipelineError) as caught:
            ask(wrong)
        text = str(caught.value)
        assert why in text
        assert SECRET not in text
        assert "\n" not in text


@OWN_SERVER
def test_a_wrong_password_is_told_without_it(guarded: str) -> None:
    wrong = as_user(guarded, "brant_password", "guessed")
    with pytest.raises(PipelineError, match="refused the user or the password; check both") as caught:
        rows(wrong)
    assert "guessed" not in str(caught.value)
    with pytest.raises(brant.errors.StorageError, match="refused the user or the password") as refused:
        append("value string", {"value": ["x"]}, path=wrong, topic="t")
    assert "guessed" not in str(refused.value)


@OWN_SERVER
def test_the_password_may_come_from_the_environment(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = guarded.replace(f":{SECRET}@", "@")
    with pytest.raises(PipelineError, match="refused the user or the password"):
        rows(bare)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert rows(bare) == []


def test_a_database_without_brants_tables_is_told(postgres_server: Server, address: str) -> None:
    with postgres_server.new_database() as bare:
        for table in ("stream", "queue"):
            with pytest.raises(PipelineError, match="has no Brant tables in the schema 'brant'; make them with"):
                rows(bare, table=table)
    with pytest.raises(PipelineError, match="has no Brant tables in the schema 'nope'"):
        rows(f"{address}&brant_schema=nope")
    with pytest.raises(PipelineError, match="has no inbox: nothing was received there"):
        rows(address, table="deliveries")


def test_a_user_without_rights_is_told_what_is_missing(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS brant_guest")
        connection.execute("CREATE ROLE brant_guest LOGIN")
    with pytest.raises(PipelineError, match="permission denied for schema brant; the user needs USAGE on the schema"):
        rows(as_user(address, "brant_guest"))


def test_an_engine_of_files_is_refused(address: str) -> None:
    with pytest.raises(PipelineError, match="option 'engine' is for files"):
        rows(address, engine="adbc")


def test_an_unknown_topic_is_told(address: str) -> None:
    with brant.open(address) as db:
        db.stream("orders").publish(1)
    with pytest.raises(PipelineError, match=r"no event of the topic 'order' in postgresql://.*did you mean 'orders'"):
        rows(address, subscribe="order")


@pytest.mark.parametrize(
    "text",
    [
        f"x postgresql://me:{SECRET}@host:1/db y",
        f"postgres://:{SECRET}@/db",
        f"postgresql://me:a/{SECRET}@host/db",
        f"host=h password={SECRET} user=u",
        f"host=h password='{SECRET} ' user=u",
        f"postgresql://h/db?user=u&password={SECRET}&sslpassword={SECRET}",
    ],
)
def test_no_text_repeats_a_password(text: str) -> None:
    assert SECRET not in without_secrets(text)


@OWN_SERVER
def test_the_project_file_that_is_written_has_no_password(guarded: str, tmp_path: Path) -> None:
    with brant.open(guarded) as db:
        db.stream("orders").publish(1)
    command = [COMMAND, "-f", guarded, "pipeline", "init"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=True)
    written = (tmp_path / "brant-pipeline.toml").read_text()
    assert load(str(tmp_path / "brant-pipeline.toml")).database == without_password(guarded)
    assert "[silver.orders]" in written
    assert SECRET not in written + done.stdout + done.stderr


def test_a_project_of_another_server_is_told_of_in_one_line(tmp_path: Path) -> None:
    project = Project(str(tmp_path), f"postgresql://me:{SECRET}@127.0.0.1:1/app", str(tmp_path / "lake"))
    Lake.of(project, create=True)
    found = status(project)
    assert (found.database, found.queries[0].lag) == ("postgresql://me@127.0.0.1:1/app", None)
    assert SECRET not in repr(project)


@OWN_SERVER
def test_the_password_is_in_no_plan_progress_error_or_checkpoint(
    guarded: str, spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with brant.open(guarded) as db:
        db.stream("orders").publish_many(range(3))
    frame = spark.read.format("brant").load(guarded)
    frame.explain(True)
    assert frame.count() == 3
    stream = spark.readStream.format("brant").option("startingOffsets", "earliest").load(guarded)
    sink = stream.select("payload").writeStream.format("brant").option("path", guarded).option("topic", "copied")
    query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    with brant.open(guarded) as db:
        assert len(db.stream("copied").read()) == 3

    broken = spark.read.format("brant").load(as_user(guarded, "brant_password", f"{SECRET}-not"))
    with pytest.raises(Exception, match="refused the user or the password") as caught:
        broken.collect()
    assert sentence_of(caught.value).startswith("unable to open postgresql://brant_password@")
    written = "".join(file.read_text() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file())
    told = capfd.readouterr()
    for text in (told.out, told.err, repr(query.recentProgress), str(caught.value), written):
        assert SECRET not in text
