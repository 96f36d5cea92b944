"""The whole state of a database as lines of JSON, and back.

The first line says what it is, each further one is a row, and the last one has the counts, so that a dump that was
cut off is known as such. JSON says most values; {"text": ...}, {"blob": ...} and {"real": ...} stand for those that it
can't: text that is not UTF-8, bytes, infinity. A dump is plain ASCII.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from importlib import import_module

from brant.arguments import storable
from brant.errors import BrantError, InvalidValue, StorageError
from brant.storage.transfer import NUMBERED_TABLES, TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from brant.database import Database
    from brant.storage.session import Session
    from brant.storage.transfer import FurtherTable
    from brant.transaction import Transaction

    Numbered = tuple[int, dict[str, Any]]

FORMAT = 1
# Parts that are built on Brant and keep tables of their own, which belong to its state: each has `table_names()`, and
# `make(tx)` for where they are missing. By name, since those parts stand above this one.
_FURTHER_PARTS = ("brant.inbox.tables", "brant.inbox.bridging.tables")


def dump(db: Database) -> Generator[str, None, None]:
    """The lines of a dump, each read when it is asked for; all of them show the moment of the first."""
    storage = db._storage
    storage.retire_old_layout()
    with storage.snapshot() as session:
        if session.has_old_layout():
            raise StorageError("jobs of an early Honker could not be taken over and would be missing; see db.health()")
        further = session.further_tables(further_names())
        counts = row_counts(session, further)
        header = {"brant": 1, "format": FORMAT, "rows": sum(counts.values()), "last_ids": session.last_ids()}
        last_ids = {table.name: table.last_id for table in further.values()}
        yield _line({**header, "further": last_ids} if further else header)
        for name, columns, read in tables(session, further):
            for row in read():
                storage.require_open()
                yield _line({"table": name, **dict(zip(columns, map(_as_json, row), strict=True))})
        yield _line({"end": True, "counts": counts})


def load(db: Database, lines: Iterable[str | bytes]) -> dict[str, int]:
    """Fill an empty database with what a dump holds, all of it or nothing; tells how many rows each table got."""
    storage = db._storage
    storage.retire_old_layout()
    objects = _objects(lines)
    last_ids, further_ids = _checked_header(objects)
    with db.transaction() as tx:
        session = tx.session()
        session.defer_references()
        make_further(tx, further_ids)
        further = session.further_tables(further_names())
        require_empty(session, further, db.path)
        counts = _load_rows(session, further, objects)
        for table, last_id in last_ids.items():
            session.raise_last_id(table, last_id)
        for table, last_further_id in further_ids.items():
            if last_further_id is not None:
                session.raise_last_id(table, last_further_id, prefix="")
    return counts


def further_names() -> list[str]:
    """Tables of other parts, each behind those that its rows refer to."""
    return [name for part in _FURTHER_PARTS for name in import_module(part).table_names()]


def make_further(tx: Transaction, wanted: Iterable[str]) -> None:
    """Make the tables of the parts that have one of these."""
    for part in map(import_module, _FURTHER_PARTS):
        if not set(wanted).isdisjoint(part.table_names()):
            part.make(tx)


def row_counts(session: Session, further: dict[str, FurtherTable]) -> dict[str, int]:
    return session.row_counts() | {name: session.further_count(table) for name, table in further.items()}


# Writing


def tables(
    session: Session, further: dict[str, FurtherTable]
) -> Iterator[tuple[str, tuple[str, ...], Callable[[], Generator[tuple[Any, ...], None, None]]]]:
    """Each table's name, columns and rows. The further ones come last: what is loaded before must not act on them."""
    for name, columns in TABLES.items():
        yield name, columns, partial(session.table_rows, name)
    for name, table in further.items():
        yield name, table.columns, partial(session.further_rows, table)


_encode = json.JSONEncoder(allow_nan=False).encode


def _line(value: dict[str, object]) -> str:
    return _encode(value) + "\n"


def _as_json(value: object) -> object:
    if isinstance(value, str) and storable(value) != value:
        return {"text": _base64(value.encode("utf-8", "surrogateescape"))}
    if isinstance(value, bytes):
        return {"blob": _base64(value)}
    if isinstance(value, float) and math.isinf(value):
        return {"real": str(value)}
    return value


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# Reading


def _objects(lines: Iterable[str | bytes]) -> Iterator[Numbered]:
    """The JSON object of each line, with its number."""
    for number, line in enumerate(lines, start=1):
        try:
            found = _decode(line.decode() if isinstance(line, bytes) else line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _no_dump() if number == 1 else _refusal(number, "is no JSON object: it is damaged or cut off")
        yield number, found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _checked_header(objects: Iterator[Numbered]) -> tuple[dict[str, int], dict[str, int | None]]:
    """The ids that were given out last; then the same of the further tables, where None is for those without."""
    number, header = next(objects, (1, {}))
    version, last_ids = header.get("format"), header.get("last_ids")
    if header.get("brant") != 1 or not isinstance(version, int) or version < 1:
        raise _no_dump()
    if version > FORMAT:
        raise InvalidValue(
            f"the dump has the format {version}, and this Brant knows {FORMAT}: upgrade Brant; nothing was loaded"
        )
    if not isinstance(last_ids, dict) or not all(
        table in NUMBERED_TABLES and isinstance(last_id, int) for table, last_id in last_ids.items()
    ):
        raise _refusal(number, "is damaged: it should tell the last ids")
    return last_ids, _checked_further(number, header.get("further", {}))


def _checked_further(number: int, further: object) -> dict[str, int | None]:
    if not isinstance(further, dict) or not all(
        last_id is None or type(last_id) is int for last_id in further.values()
    ):
        raise _refusal(number, "is damaged: it should tell the last ids of further tables")
    unknown = sorted(set(further).difference(further_names()))
    if unknown:
        raise _refusal(number, f"names {', '.join(unknown)}, which this Brant does not know: upgrade Brant")
    return further


def require_empty(session: Session, further: dict[str, FurtherTable], path: str) -> None:
    """Raise StorageError if there is a row in any table."""
    held = [f"{table}: {count}" for table, count in row_counts(session, further).items() if count]
    if held:
        raise StorageError(
            f"{path} already holds rows ({', '.join(held)}); load into a new database; nothing was loaded"
        )


def _load_rows(session: Session, further: dict[str, FurtherTable], objects: Iterator[Numbered]) -> dict[str, int]:
    columns = TABLES | {name: table.columns for name, table in further.items()}
    counts = dict.fromkeys(columns, 0)
    for number, found in objects:
        if "end" in found:
            if _told_counts(found, columns) != counts:
                raise _refusal(number, "tells other counts than there are rows: some are missing, or were added")
            if next(objects, None) is not None:
                raise _refusal(number + 1, "stands behind the end")
            return counts
        table, row = _row(number, found, columns)
        try:
            if table in further:
                session.load_further_row(further[table], row)
            else:
                session.load_row(table, row)
        except BrantError as error:
            raise type(error)(f"line {number} of the dump: {error}; nothing was loaded") from error
        counts[table] += 1
    raise InvalidValue("the dump was cut off: its last line is missing; nothing was loaded")


def _told_counts(end: dict[str, Any], tables: Iterable[str]) -> object:
    """The counts of the last line; a dump of an earlier Brant knows fewer tables, and has no rows of the others."""
    told = end.get("counts")
    return dict.fromkeys(tables, 0) | told if isinstance(told, dict) else told


def _row(number: int, found: dict[str, Any], tables: dict[str, tuple[str, ...]]) -> tuple[str, dict[str, object]]:
    table = found.pop("table", None)
    columns = tables.get(table) if isinstance(table, str) else None
    if columns is None:
        raise _refusal(number, f"is a row of {table!r}, which is no table")
    if set(found) != set(columns):
        raise _refusal(number, f"should have the columns {', '.join(columns)}")
    try:
        return table, {column: _from_json(value) for column, value in found.items()}
    except (ValueError, TypeError):
        raise _refusal(number, "holds a value that no dump has") from None


def _from_json(value: object) -> object:
    match value:
        case bool():
            raise TypeError("SQLite has no booleans")
        case None | int() | float():
            return value
        case str() if storable(value) == value:
            return value
        case {"text": str(encoded), **others} if not others:
            return base64.b64decode(encoded, validate=True).decode("utf-8", "surrogateescape")
        case {"blob": str(encoded), **others} if not others:
            return base64.b64decode(encoded, validate=True)
        case {"real": "inf" | "-inf" as infinity, **others} if not others:
            return float(infinity)
    raise TypeError(f"{type(value).__name__} is no value")


def _no_dump() -> InvalidValue:
    return InvalidValue(
        'this is no dump: its first line should begin with {"brant": 1; make one with `brant dump` or db.dump(); '
        "nothing was loaded"
    )


def _refusal(number: int, why: str) -> InvalidValue:
    return InvalidValue(f"line {number} of the dump {why}; nothing was loaded")
