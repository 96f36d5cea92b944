"""The public surface and the shape of the source: what may not change by accident."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import brant

SOURCE = Path(brant.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_NAMES = 25
MOST_LINES = 600

# fmt: off
PUBLIC = [
    "open", "attach", "Database", "Transaction",
    "Queue", "Job", "Message", "Stream", "Event", "Listener", "Notification",
    "Scheduler", "CronSchedule", "crontab", "every", "every_s", "Inbox",
    "BrantError", "InvalidValue", "StorageError", "ClaimLost", "LockHeld", "LeadershipLost", "TaskFailed", "Retryable",
]
# fmt: on

# Which file a directory's database is, is asked before any storage is opened.
SQL_OUTSIDE_STORAGE = {"config.py": 1}

_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|BEGIN|COMMIT|WITH)\b")


def name_of(module: Path) -> str:
    return str(module.relative_to(SOURCE))


def test_the_public_names_are_these() -> None:
    assert brant.__all__ == PUBLIC, "a name was added or removed: change the list here, the docs and the changelog"


def test_the_public_names_fit_on_one_screen() -> None:
    assert len(brant.__all__) <= MOST_NAMES
    assert len(set(brant.__all__)) == len(brant.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(brant, name).__doc__
    assert name in dir(brant)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = brant.Nothing


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text("utf-8")))


def test_no_module_is_named_for_nothing() -> None:
    assert not [name_of(module) for module in MODULES if module.stem in {"utils", "util", "helpers", "common", "misc"}]


def test_no_module_is_too_long_to_read() -> None:
    lengths = {name_of(module): len(module.read_text("utf-8").splitlines()) for module in MODULES}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_sql_is_executed_by_the_storage_only() -> None:
    found = {}
    for module in MODULES:
        if "storage" not in module.relative_to(SOURCE).parts and (
            statements := executed_sql(module.read_text("utf-8"))
        ):
            found[name_of(module)] = len(statements)
    assert found == SQL_OUTSIDE_STORAGE


def executed_sql(source: str) -> list[str]:
    """The SQL texts that stand in calls of `execute` and its kind."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args)
    return [
        text
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"execute", "executemany", "executescript"}
        if _SQL.match(text := literal_text(call.args[0]))
    ]


def literal_text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(literal_text(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@pytest.mark.parametrize(
    ("source", "statements"),
    [
        ('c.execute("SELECT 1")', ["SELECT 1"]),
        ('c.executescript(f"DROP TABLE {name}")', ["DROP TABLE "]),
        ('c.execute("""\n  INSERT INTO t VALUES (?)""", [1])', ["\n  INSERT INTO t VALUES (?)"]),
        ("c.execute(sql)", []),
        ('pool.execute("job")', []),
        ('"""c.execute("SELECT 1")"""', []),
    ],
)
def test_executed_sql_is_found(source: str, statements: list[str]) -> None:
    assert executed_sql(source) == statements
