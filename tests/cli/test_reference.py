"""What is made from the parsers: help, the page in docs, the man page."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from brant.cli import main as front
from brant.cli.help import GROUPS
from brant.cli.manual import man, markdown
from brant.cli.reference import Entry, command_tree
from brant.cli.roff import man_page
from brant.config import Settings
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parent.parent.parent
TREE = command_tree()
ENTRIES = {entry.words: entry for entry in TREE.walk()}
WIDEST = 80
MARKDOWN = r"""# Title

.dot `a-b\c` and [a link](x.md)

## More

| a | b |
|---|---|
| `x\|y` | **z** |

```sh
'q'
```
"""


def name_of(entry: Entry) -> str:
    return "-".join(entry.words) or "brant"


def test_the_overview_has_each_command_once() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(front.COMMANDS)


def test_the_tree_has_every_command() -> None:
    assert [entry.words[0] for entry in TREE.subcommands] == list(front.COMMANDS)
    assert all(entry.summary and entry.description for entry in ENTRIES.values() if entry.words)


def test_the_tree_has_every_global_option() -> None:
    accepted = {*front._FLAGS, *front._VALUES, *front._ACTIONS, "--version"}
    assert {name for option in TREE.options for name in option.names} == accepted
    assert {name for option in TREE.options if option.value for name in option.names} == set(front._VALUES)


def test_usage_shows_what_is_optional_required_exclusive_and_repeated() -> None:
    assert ENTRIES["list",].usage == "brant list [--stats] [--prefix P | -p GLOB] [--json]"
    assert ENTRIES["limit",].usage == "brant limit --limit N --per S NAME"
    assert ENTRIES["lock",].usage.endswith(" NAME COMMAND...")
    assert ENTRIES["alias",].usage == "brant alias add|remove|list"
    assert " (--cron EXPR | --every S) " in ENTRIES["schedule", "add"].usage
    assert ENTRIES["delete",].usage.endswith(" [QUEUE]")


def test_what_is_left_unsaid_by_a_parser_is_found_elsewhere() -> None:
    shell = ENTRIES["completion",].places[0]
    assert (shell.value, shell.choices) == ("bash|zsh|fish", ("bash", "zsh", "fish"))
    listing = ENTRIES["stream", "list"]
    assert listing.description == listing.summary


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES.values() if entry.words], ids=name_of)
def test_a_command_explains_itself(entry: Entry, brant_command: Run) -> None:
    done = brant_command(*entry.words, "--help", COLUMNS=str(WIDEST))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {entry.name} [-h]")
    assert [line for line in done.stdout.splitlines() if len(line) > WIDEST] == []
    shown = " ".join(done.stdout.split())
    assert all(name in shown for option in entry.options for name in option.names)


def test_the_overview_names_every_command(brant_command: Run) -> None:
    done = brant_command("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if len(line) > WIDEST] == []
    assert set(re.findall(r"^  ([a-z]+) ", done.stdout, re.MULTILINE)) == set(front.COMMANDS)
    assert done.stdout == brant_command().stdout == brant_command("-q").stdout


@pytest.mark.parametrize(("page", "make"), [("docs/shell.md", markdown), ("docs/brant.1", man)])
def test_the_pages_are_what_the_code_makes_now(page: str, make: Callable[[], str]) -> None:
    up_to_date = (ROOT / page).read_text("utf-8") == make()
    assert up_to_date, (
        f"{page} is not what the command's parsers and src/brant/cli/manual.md make of it: run 'make docs'"
    )


def test_the_page_has_every_command_and_no_place_left_open() -> None:
    page = markdown()
    headings = re.findall(r"^###+ (brant .+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(entry.name for entry in ENTRIES.values() if entry.words)
    assert re.findall(r"@[A-Z]{2,}[A-Z ]*@", page) == []


def test_the_page_has_every_setting_with_its_default() -> None:
    described = dict(re.findall(r"^\| `BRANT_([A-Z_]+)` \| (.+) \|$", markdown(), re.MULTILINE))
    asked = AskedFor()
    settings = Settings(asked)
    assert set(described) == asked.names
    assert f"(`{settings.default_db_name}`)" in described["DEFAULT_DB_NAME"]
    assert f"(`{settings.busy_timeout_ms}`)" in described["BUSY_TIMEOUT"]
    assert f"(`{settings.sync_mode}`)" in described["SYNC_MODE"]
    assert f"(`{settings.max_message_size}`)" in described["MAX_MESSAGE_SIZE"]
    assert f"(`{settings.generator_batch_size}`)" in described["GENERATOR_BATCH_SIZE"]


class AskedFor(dict[str, str]):
    """An environment with nothing in it, that notes which variables are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: object = None) -> None:  # type: ignore[override]
        self.names.add(name.partition("_")[2])


def test_a_man_page_is_made_of_markdown() -> None:
    made = man_page(MARKDOWN, name="tool", summary="does it", usage="tool [-x]")
    assert made.splitlines() == [
        '.TH TOOL 1 "" "tool" "User commands"',
        ".SH NAME",
        "tool \\- does it",
        ".SH SYNOPSIS",
        "\\fBtool [\\-x]\\fR",
        ".SH DESCRIPTION",
        ".PP",
        "\\&.dot \\fBa\\-b\\ec\\fR and a link",
        ".SH MORE",
        ".TP",
        "\\fBx|y\\fR",
        "\\fBz\\fR",
        ".PP",
        ".RS 4",
        ".EX",
        "\\(aqq\\(aq",
        ".EE",
        ".RE",
    ]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_is_good_roff() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(ROOT / "docs" / "brant.1")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_wheel_ships_the_man_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shipped == {"docs/brant.1": "share/man/man1/brant.1"}
