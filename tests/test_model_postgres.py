"""The random programs of test_model.py on Postgres, against the same model."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from tests.servers import Server
from tests.test_model import Programs


class ProgramsOnPostgres(Programs):
    is_server = True
    server: ClassVar[Server]

    def place(self) -> str:
        return self.open.enter_context(self.server.database())

    def go_to(self, moment: float) -> None:
        # Not back: a server's time is followed by a monotonic clock, and lapsed keys are forgotten now and then only.
        super().go_to(max(moment, self.clock.now()))

    def plain_connection(self, path: str) -> Any:
        return psycopg.connect(path, autocommit=True, options="-c search_path=public,brant")


@pytest.fixture(scope="module", autouse=True)
def _server(postgres_server: Server) -> None:
    ProgramsOnPostgres.server = postgres_server


TestProgramsOnPostgres = pytest.mark.timeout(3600)(ProgramsOnPostgres.TestCase)
pytest.mark.guarantee("G1", "G4", "G5", "G6", "G11", "G12", "G16", "G18", "G20")(TestProgramsOnPostgres)
TestProgramsOnPostgres.settings = settings(
    max_examples=int(os.environ.get("BRANT_MODEL_EXAMPLES", "60")) // 6,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
