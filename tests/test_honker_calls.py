"""Calls as Honker's programs make them: the same names, order and defaults of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import brant

pytestmark = pytest.mark.guarantee("G17")

CALLS: list[tuple[Callable[..., object], str]] = [
    (brant.open, "path, max_readers=8, watcher_backend=None"),
    (brant.Database.transaction, "self"),
    (brant.Database.query, "self, sql, params=None"),
    (brant.Database.queue, "self, name, visibility_timeout_s=None, max_attempts=None"),
    (
        brant.Queue.enqueue,
        "self, payload, tx=None, run_at=None, delay=None, priority=0, expires=None, max_attempts=None",
    ),
    (brant.Queue.claim_one, "self, worker_id"),
    (brant.Queue.claim_batch, "self, worker_id, n"),
    (brant.Queue.ack, "self, job_id, worker_id"),
    (brant.Queue.ack_batch, "self, job_ids, worker_id"),
    (brant.Queue.retry, "self, job_id, worker_id, delay_s, error"),
    (brant.Queue.fail, "self, job_id, worker_id, error"),
    (brant.Queue.heartbeat, "self, job_id, worker_id, extend_s=None"),
    (brant.Queue.cancel, "self, job_id"),
    (brant.Queue.get_job, "self, job_id"),
    (brant.Queue.sweep_expired, "self"),
    (brant.Queue.save_result, "self, job_id, value, ttl=None, tx=None"),
    (brant.Queue.get_result, "self, job_id"),
    (brant.Queue.wait_result, "self, job_id, timeout=None"),
    (brant.Queue.sweep_results, "self"),
    (brant.Job.ack, "self"),
    (brant.Job.retry, "self, delay_s=60, error=''"),
    (brant.Job.fail, "self, error=''"),
    (brant.Job.heartbeat, "self, extend_s=None"),
]


@pytest.mark.parametrize(("function", "parameters"), CALLS, ids=lambda value: getattr(value, "__qualname__", ""))
def test_a_call_of_honkers_means_the_same_here(function: Callable[..., object], parameters: str) -> None:
    wanted = [text.partition("=") for text in parameters.split(", ")]
    found = list(inspect.signature(function).parameters.values())
    assert [parameter.name for parameter in found[: len(wanted)]] == [name for name, _, _ in wanted]
    for parameter, (_, _, default) in zip(found, wanted, strict=False):
        assert not default or repr(parameter.default) == default
    assert all(parameter.default is not inspect.Parameter.empty for parameter in found[len(wanted) :])


def test_claims_take_a_worker_id_and_poll_every_five_seconds() -> None:
    parameters = inspect.signature(brant.Queue.claim).parameters
    assert list(parameters) == ["self", "worker_id", "idle_poll_s"]
    assert parameters["idle_poll_s"].default == 5.0
