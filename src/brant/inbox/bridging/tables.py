"""What a node remembers: its own name, and which events of its streams came from elsewhere."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brant.arguments import seconds
from brant.errors import InvalidValue
from brant.inbox.tables import hold, row, rows, run, run_for_each, statements

if TYPE_CHECKING:
    from brant.database import Database
    from brant.transaction import Transaction

__all__ = ["Origin", "forget_bridged", "make", "name_node", "node_name", "origins", "prepare", "table_names"]

_PAGE = 1000
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")


@dataclass(frozen=True, slots=True)
class Origin:
    """The node that published an event first, the event's offset there, and when it was."""

    node: str
    offset: int
    created_at: float


def prepare(db: Database) -> str:
    """Make what is missing; gives the node's name."""
    if not rows(db, "bridge_is_prepared"):
        with db.transaction() as tx:
            make(tx)
    return node_name(db)


def make(tx: Transaction) -> None:
    hold(tx, "tables")
    run_for_each(tx, _making())


def table_names() -> list[str]:
    """For a dump."""
    return [found[1] for name in _making() if (found := _TABLE.match(statements()[name]))]


def node_name(db: Database) -> str:
    """The name of this database among the nodes; one is made up the first time."""
    found = row(db, "bridge_node")
    if found is None:
        with db.transaction() as tx:
            run(tx, "bridge_first_name", f"node-{secrets.token_hex(6)}")
            found = rows(tx, "bridge_node")[0]
    return str(found["name"])


def name_node(db: Database, name: str) -> None:
    """Give it a name of your choice, which must be no other node's."""
    checked = node_label(name)
    prepare(db)
    if node_name(db) != checked:
        with db.transaction() as tx:
            run(tx, "bridge_rename", checked)


def node_label(name: object) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidValue(f"the name of a node has 1 to 64 letters, digits, '_' and '-', not {name!r}")
    return name


def origins(db: Database, first: int, last: int) -> dict[int, Origin]:
    """Where events of this database's streams came from, by offset; those that were published here are not in it."""
    return {
        found["stream_offset"]: Origin(found["origin"], found["origin_offset"], found["created_at"])
        for found in rows(db, "bridge_origins", first, last)
    }


def forget_bridged(db: Database, older_than_s: float) -> int:
    """Forget events that were published longer ago and pruned since; tells how many.

    If one of them came again, from a node that was put back to a time before it was sent, it would be a new one.
    """
    before = db.clock.now() - seconds(older_than_s, "older_than_s", minimum=0)
    prepare(db)
    forgotten, page = 0, rows(db, "bridge_left_behind", 0, before, _PAGE)[0]
    while page["last"] is not None:
        gone = json.loads(page["gone"])
        if gone:
            with db.transaction() as tx:
                run(tx, "bridge_forget", page["gone"])
        forgotten += len(gone)
        page = rows(db, "bridge_left_behind", page["last"], before, _PAGE)[0]
    return forgotten


def _making() -> list[str]:
    return sorted(name for name in statements() if name.startswith("bridge_make_"))
