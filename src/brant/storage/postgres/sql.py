"""Brant's SQL for Postgres, as the driver takes it.

The files are written for the schema `brant` and name every object of Brant's with it (`brant._honker_live`); where the
schema has another name, that name is put in its place. Parameters are `:name`, as in the files for SQLite; the
server gets them by number.
"""

from __future__ import annotations

import functools
import os
import re

from brant.statements import load_statements
from brant.storage.rows import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FOLDER = os.path.dirname(__file__)
DEFAULT_SCHEMA = "brant"

_OWN_SCHEMA = re.compile(r"\bbrant\.(?=\w)")
# What a parameter may not be looked for in: literals, quoted names, comments and dollar quotes.
_OPAQUE = (
    r"[eE]'(?:[^'\\]|\\.|'')*'"
    r"|'(?:[^']|'')*'"
    r'|"(?:[^"]|"")*"'
    r"|--[^\n]*"
    r"|/\*.*?\*/"
    r"|\$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$"
)
_NAMED = re.compile(rf"(?P<opaque>{_OPAQUE})|(?<![:\w]):(?P<name>[a-z_]\w*)", re.DOTALL)
_QUESTION_MARKS = re.compile(rf"(?P<opaque>{_OPAQUE})|(?P<mark>\?(?:\?|(?P<number>[1-9][0-9]*))?)", re.DOTALL)


class Statement(NamedTuple):
    """A statement with numbered parameters, and the names of the values that go into them."""

    name: str
    sql: str
    params: tuple[str, ...]


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def in_schema(sql: str, schema: str) -> str:
    """The SQL with the objects of Brant's in that schema."""
    prefix = f"{quoted(schema)}."
    return _OWN_SCHEMA.sub(lambda _: prefix, sql)


@functools.cache
def statements_of(schema: str) -> Mapping[str, Statement]:
    """All named statements, for one schema."""
    found = load_statements(os.path.join(FOLDER, "statements"))
    return {name: _numbered(name, in_schema(sql, schema)) for name, sql in found.items()}


def schema_scripts(schema: str) -> Iterator[str]:
    """The scripts that make the tables and then the functions, in order."""
    for folder in (os.path.join(FOLDER, "schema"), os.path.join(FOLDER, "functions")):
        for file in sorted(os.listdir(folder)):
            with open(os.path.join(folder, file), encoding="utf-8") as script:
                yield in_schema(script.read(), schema)


def _numbered(name: str, sql: str) -> Statement:
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        if match["name"] not in names:
            names.append(match["name"])
        return f"${names.index(match['name']) + 1}"

    return Statement(name, _NAMED.sub(number, sql), tuple(names))


@functools.lru_cache(maxsize=1000)
def with_numbers(sql: str) -> str:
    """A statement of the user's with numbers for its `?`, or with those that it gave (`?1`); `??` is a question mark.

    As in SQLite, a `?` without a number has the one after the highest so far.
    """
    highest = 0

    def number(match: re.Match[str]) -> str:
        nonlocal highest
        if match["mark"] is None:
            return match[0]
        if match["mark"] == "??":
            return "?"
        given = highest + 1 if match["number"] is None else int(match["number"])
        highest = max(highest, given)
        return f"${given}"

    replace: Callable[[re.Match[str]], str] = number
    return _QUESTION_MARKS.sub(replace, sql)
