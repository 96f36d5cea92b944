"""Start-up: what `brant write` and `brant read` never import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import brant
from tests.cli.conftest import COMMAND, clean_environment

HEAVY = {
    "asyncio",
    "concurrent.futures",
    "copy",
    "ctypes",
    "dataclasses",
    "difflib",
    "fractions",
    "importlib.metadata",
    "inspect",
    "locale",
    "logging",
    "pathlib",
    "random",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "traceback",
    "typing",
    "urllib",
    "uuid",
}


@pytest.mark.parametrize(
    "words", [("write", "q", "x"), ("read", "q"), ("peek", "q"), ("read", "q", "--all"), ("exists", "q")]
)
def test_nothing_heavy_is_imported(store: brant.Database, tmp_path: Path, words: tuple[str, ...]) -> None:
    store.queue("q").write("x")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", COMMAND, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=clean_environment(),
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert {"brant.cli.parsing", "sqlite3"} <= imported
    assert imported & HEAVY == set()
