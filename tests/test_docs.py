"""The documentation: its snippets run, its links lead somewhere, and what it promises is tested."""

from __future__ import annotations

import ast
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

import brant
from tests.servers import Server

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
RUNNABLE = [ROOT / "README.md", *DOCS]
LINKED = [page for name in ("CHANGELOG.md", "CONTRIBUTING.md") if (page := ROOT / name).exists()] + RUNNABLE
# A page whose snippets start Spark takes its time on a busy machine.
PAGE_TIMEOUT_S = 280

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(<?(?P<target>[^)\s>]+)>?(?: \"[^\"]*\")?\)|^\[[^\]]+\]: +(?P<reference>\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#+ +(?P<text>.+?) *$", re.MULTILINE)
_GUARANTEE = re.compile(r"^(?:\| *|#+ +)\**(G\d+)\b", re.MULTILINE)

# Runs in a fresh interpreter whose warnings are errors. What fails in a destructor or in a thread ends neither of
# them by itself, so it is counted here.
_RUNNER = """
import gc, sys, threading
from pathlib import Path

failed = []

def report(hook):
    def call(problem):
        failed.append(problem)
        hook(problem)
    return call

sys.unraisablehook = report(sys.__unraisablehook__)
threading.excepthook = report(threading.__excepthook__)
namespace = {"__name__": "__main__"}
for file in sorted(Path(sys.argv[1]).glob("*.py")):
    exec(compile(file.read_text("utf-8"), sys.argv[2], "exec"), namespace)
namespace.clear()
gc.collect()
sys.exit(1 if failed else 0)
"""


@dataclass
class Block:
    """A fenced block of Python: run, saved under a name for a later block, or only compiled."""

    line: int
    options: list[str]
    code: str

    @property
    def file(self) -> str | None:
        return next((option.removeprefix("file=") for option in self.options if option.startswith("file=")), None)

    @property
    def runs(self) -> bool:
        return "no-run" not in self.options and self.file is None


def python_blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    blocks = []
    for match in _FENCE.finditer(text):
        language, *options = match["info"].split() or [""]
        if language == "python":
            indent = len(match["indent"])
            code = "".join(line[indent:] or "\n" for line in match["code"].splitlines(keepends=True))
            blocks.append(Block(text.count("\n", 0, match.start("code")), options, code))
    return blocks


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def server_address(postgres_server: Server) -> Iterator[str]:
    with postgres_server.new_database() as address:
        yield address


@pytest.mark.timeout(PAGE_TIMEOUT_S + 20)
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    blocks = python_blocks(page)
    environment = dict(os.environ)
    if any("DATABASE_URL" in block.code for block in blocks):
        environment["DATABASE_URL"] = request.getfixturevalue("server_address")
    scripts, empty = tmp_path / "scripts", tmp_path / "cwd"
    scripts.mkdir()
    empty.mkdir()
    for number, block in enumerate(blocks):
        if block.file is not None:
            (empty / block.file).write_text(block.code, "utf-8")
        elif block.runs:
            # As many empty lines as stand above it: a traceback then shows the line of the page.
            (scripts / f"{number:03}.py").write_text("\n" * block.line + block.code, "utf-8")
    command = [sys.executable, "-W", "error", "-c", _RUNNER, str(scripts), str(page)]
    done = subprocess.run(
        command, cwd=empty, env=environment, capture_output=True, text=True, timeout=PAGE_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_snippets_that_do_not_run_are_python_all_the_same(page: Path) -> None:
    for block in python_blocks(page):
        assert set(block.options) <= {"no-run", f"file={block.file}"}, f"line {block.line}: {block.options}"
        compile("\n" * block.line + block.code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_a_file_that_a_page_shows_is_used_by_a_snippet(page: Path) -> None:
    blocks = python_blocks(page)
    for number, block in enumerate(blocks):
        if block.file is not None:
            assert any(block.file in later.code for later in blocks[number + 1 :] if later.runs), block.file


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            broken.append(target)
    assert not broken


def links(page: Path) -> Iterator[str]:
    prose = _INLINE_CODE.sub("", _FENCE.sub("", page.read_text("utf-8")))
    for match in _LINK.finditer(prose):
        target = match["target"] or match["reference"]
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = (match["text"] for match in _HEADING.finditer(_FENCE.sub("", page.read_text("utf-8"))))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_on_the_map() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {target.partition("#")[0] for target in links(index)}
    assert {page.name for page in DOCS} - {index.name} - linked == set(), "docs/index.md links to every page"


def test_every_public_name_is_documented() -> None:
    code = "\n".join(
        "\n".join(match["code"] for match in _FENCE.finditer(text)) + "\n".join(_INLINE_CODE.findall(text))
        for text in (page.read_text("utf-8") for page in DOCS)
    )
    missing = [name for name in brant.__all__ if not re.search(rf"\b{name}\b", code)]
    assert not missing


def test_every_guarantee_has_a_test_and_every_mark_a_guarantee() -> None:
    promised = set(_GUARANTEE.findall((ROOT / "docs" / "guarantees.md").read_text("utf-8")))
    proven = {mark for file in (ROOT / "tests").rglob("*.py") for mark in guarantee_marks(file)}
    assert promised, "docs/guarantees.md has no rows that begin with | G1 |"
    assert promised - proven == set(), "promised, but no test is marked with it"
    assert proven - promised == set(), "marked, but not promised"


def guarantee_marks(file: Path) -> Iterator[str]:
    """The arguments of `pytest.mark.guarantee(...)` in a file."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "guarantee":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{file}:{node.lineno}: a mark names its guarantee literally"
                yield str(argument.value)


def test_every_sql_function_is_documented() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        builtin = sql_functions(connection)
        brant.attach(connection)
        functions = sql_functions(connection) - builtin
    described = (ROOT / "docs" / "sql.md").read_text("utf-8")
    assert "honker_enqueue" in functions
    assert [name for name in sorted(functions) if f"`{name}(" not in described] == []


def sql_functions(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT DISTINCT name FROM pragma_function_list")}


def test_every_table_index_and_trigger_is_documented(db: brant.Database) -> None:
    made = db.query("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
    described = (ROOT / "docs" / "storage-format.md").read_text("utf-8")
    assert [row["name"] for row in made if f"`{row['name']}`" not in described] == []
