"""Start-up: what `brant write` and `brant read` never import."""

from __future__ import annotations

import os
import signal
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


INTERRUPTS = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "brant.cli.command":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
"""


def interrupted_while_it_starts(directory: Path, script: str) -> subprocess.CompletedProcess[str]:
    (directory / "sitecustomize.py").write_text(INTERRUPTS)
    python_path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        ["sh", "-c", script.format(sys.executable)],
        capture_output=True,
        text=True,
        cwd=directory,
        env=clean_environment(PYTHONPATH=python_path),
        check=False,
    )


def test_ctrl_c_while_it_starts_is_no_trace_of_python(tmp_path: Path) -> None:
    done = interrupted_while_it_starts(tmp_path, "exec {} -m brant list")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_shell_that_has_ctrl_c_ignored_has_it_ignored_from_the_start(tmp_path: Path) -> None:
    done = interrupted_while_it_starts(tmp_path, "trap '' INT; exec {} -m brant write q x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
