"""What a job asks for: which task, with which arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brant.job import Job
from brant.outcomes import Dead
from brant.tasks import ENVELOPE, Registry, TaskSpec


@dataclass(frozen=True)
class Call:
    """A task and the arguments that it is called with."""

    spec: TaskSpec
    args: list[Any]
    kwargs: dict[str, Any]
    body: dict[str, Any]


def call_of(job: Job, registry: Registry) -> Call | Dead:
    """What the job asks for; Dead, with the reason, when nobody here can do it."""
    try:
        payload = job.payload
    except ValueError as error:
        return Dead(f"the payload is not JSON: {error}")
    body = payload.get(ENVELOPE) if isinstance(payload, dict) else None
    if not isinstance(body, dict):
        if (of_queue := registry.of_queue(job.queue_name)) is not None:
            return Call(of_queue, [payload], {}, {})
        return Dead(
            "raw (non-decorated) payload: this queue is worked on by tasks; claim it with queue.claim() instead"
        )
    spec = registry.get(str(body.get("task")))
    if spec is None:
        return Dead(f"unknown task: {body.get('task')!r}; this worker knows {', '.join(registry.names()) or 'none'}")
    args, kwargs = body.get("args", []), body.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return Dead("the payload of the task is malformed: args must be a list and kwargs an object")
    try:
        spec.check(args, kwargs)
    except TypeError as error:
        return Dead(f"wrong arguments for {spec.name}: {error}")
    return Call(spec, args, kwargs, body)
