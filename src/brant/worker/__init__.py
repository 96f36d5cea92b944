"""Running tasks: claim, run, renew, settle, stop."""

from brant.worker.context import TaskContext, current_task
from brant.worker.events import WorkerEvent
from brant.worker.pool import Worker

__all__ = ["TaskContext", "Worker", "WorkerEvent", "current_task"]
