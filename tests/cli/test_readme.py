"""The shell snippets of the README, typed in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.cli.conftest import COMMAND, clean_environment

README = Path(__file__).parents[2] / "README.md"


def test_the_shell_snippets_of_the_readme_work(tmp_path: Path) -> None:
    script = "\n".join(re.findall(r"```sh\n(.*?)```", README.read_text("utf-8"), re.DOTALL))
    path = f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e"],
        input=script,
        cwd=tmp_path,
        env=clean_environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["tasks: 1", "ship it", *done.stdout.splitlines()[2:]]
    assert '{"to":"alice@example.com"}' in done.stdout
