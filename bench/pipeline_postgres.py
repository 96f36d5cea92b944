"""The Spark source on a server: half a million events into an aggregate, against a bare COPY of the same rows.

The server is the one that `BENCH_POSTGRES` names, or comes out of a wheel and ends with the benchmark.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

import brant
from bench.measure import Case, Work
from bench.pipeline import aggregate, payload_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 500_000
_TOPICS = ("orders", "clicks", "mail", "audit")
_AT_ONCE = 10_000
_ROUNDS = 3
_NEEDED = ("pyspark", "pyarrow", "psycopg")
_COPY = 'COPY (SELECT "offset", topic, key, payload, created_at FROM brant._honker_stream) TO STDOUT'


class Reads:
    """A database of events, made when it is first needed, and ways to read all of it."""

    @cached_property
    def address(self) -> str:
        from tests.servers import Server, running_server

        stack = ExitStack()
        named = os.environ.get("BENCH_POSTGRES")
        server = Server(named) if named else stack.enter_context(running_server())
        address = stack.enter_context(server.new_database())
        atexit.register(stack.close)  # now, so that it comes before what the server does at exit
        with brant.open(address) as db:
            for number in range(EVENTS // _AT_ONCE):
                first = number * _AT_ONCE
                keys = [str(n % 1000) for n in range(_AT_ONCE)]
                payloads = [payload_of(n) for n in range(first, first + _AT_ONCE)]
                db.stream(_TOPICS[number % len(_TOPICS)]).publish_many(payloads, keys=keys)
        return address

    @cached_property
    def spark(self) -> SparkSession:
        from brant.pipeline import session

        return session("bench of the source")

    def prepare(self, _: int) -> None:
        """Server, Spark and its compiled code are there: rates are of a warm session."""
        aggregate(self.spark.read.format("brant").option("endingOffsets", _AT_ONCE).load(self.address))

    def through_spark(self, _: int) -> None:
        aggregate(self.spark.read.format("brant").load(self.address))

    def by_copy(self, _: int) -> None:
        import psycopg

        with psycopg.connect(self.address) as connection, connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for _row in copy.rows():
                pass


def cases() -> list[Case]:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(f"{', '.join(missing)} not installed: the Spark source on Postgres is left out")
        return []
    reads = Reads()
    warm: dict[str, Work] = {"brant": reads.prepare}
    name = "Spark source, 500k events of Postgres into an aggregate"
    return [Case(name, EVENTS, reads.through_spark, reads.by_copy, 0.3, prepare=warm, rounds=_ROUNDS)]
