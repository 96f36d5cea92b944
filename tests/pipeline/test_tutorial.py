"""docs/pipeline.md: its shell commands do what the page says, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, clean_environment
from tests.pipeline.commands import PATIENCE_S

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(600)
def test_the_tutorial_ends_with_a_gold_table_and_a_page(tmp_path: Path) -> None:
    (shop,) = blocks("python file=shop.py")
    (tmp_path / "shop.py").write_text(shop)
    found = os.pathsep.join([str(Path(COMMAND).parent), os.environ["PATH"]])
    commands = "\n".join(["set -e", "python shop.py", *blocks("sh")])
    done = subprocess.run(
        ["bash", "-c", commands],
        cwd=tmp_path,
        env=clean_environment(PATH=found),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    (refine,) = (line for line in lines if line[0] == "refine-orders")
    assert refine[5] == "malformed=1 quarantined=1"
    assert len([line for line in lines if re.fullmatch(r"c\d", line[0])]) == 7, "a row for each customer"
    assert '"payload":"\\"this is no order\\""' in done.stdout
    assert (tmp_path / "brant-report.html").stat().st_size > 10_000
