"""A backend for Django's tasks: `django.tasks` of Django 6, or the `django-tasks` package before it.

    TASKS = {"default": {"BACKEND": "brant.contrib.django.BrantBackend"}}

Jobs are in `DATABASES["default"]`, a file or on Postgres. Inside `transaction.atomic()` they commit with the models.
OPTIONS: `database` is another alias; the others are those of `queue.task` about retries, times and results.
"""

from __future__ import annotations

import os
import threading
import traceback
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlencode

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.signals import connection_created
from django.utils.module_loading import autodiscover_modules

from brant.arguments import encode
from brant.database import Database
from brant.errors import InvalidValue
from brant.inspection import AttemptError, DeadJob
from brant.job import Job, message_payload
from brant.opening import open as open_database
from brant.outcomes import Retry, outcome_of
from brant.queue import Queue
from brant.tasks import ENVELOPE, TaskSpec, call_payload, envelope, registry
from brant.worker import current_task


def _is_with_package() -> bool:
    """Whether the project's tasks are those of the package: before Django 6, or where it is an installed app."""
    apps_of_package = [app for app in settings.INSTALLED_APPS if app.partition(".")[0] == "django_tasks"]
    return find_spec("django.tasks") is None or bool(apps_of_package)


if not _is_with_package():
    from django.tasks import TaskContext, TaskResult, TaskResultStatus
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
else:
    from django_tasks import TaskContext, TaskResult, TaskResultStatus
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import TaskError
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started

__all__ = ["BrantBackend", "database", "worker_database"]

_RESULT_TTL_S = 86_400
# Those that `enqueue` below or the worker heeds. Any other one of `queue.task` would do nothing, in silence.
_OPTIONS = (
    "retries",
    "retry_delay_s",
    "retry_backoff",
    "retry_jitter",
    "max_retry_delay_s",
    "timeout_s",
    "expires_s",
    "result_ttl_s",
)

_used_aliases: set[str] = set()
_opened: dict[tuple[int, str], tuple[str, Database]] = {}
_opening = threading.Lock()


def database(alias: str = "default") -> Database:
    """The Brant database in a Django one, its file or its server; the same for all threads of a process."""
    address = _address(connections[alias])
    # By process too: a server that forks after it has loaded the application needs another one in each child.
    key = os.getpid(), alias
    with _opening:
        found = _opened.get(key)
        if found is None or found[0] != address:
            # What was opened before, as with a password that is no longer the right one, ends with its last use.
            found = _opened[key] = address, open_database(address)
        return found[1]


def _address(connection: Any) -> str:
    if _has_file(connection):
        return os.path.abspath(str(connection.settings_dict["NAME"]))
    if connection.vendor == "postgresql":
        try:
            import psycopg
        except ImportError as error:
            raise ImproperlyConfigured("jobs on Postgres need psycopg 3: pip install 'brant[postgres]'") from error
        # Django's own settings for the connection are among those of libpq.
        of_libpq = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
        given = {name: value for name, value in connection.get_connection_params().items() if name in of_libpq}
        return f"postgresql:///?{urlencode(given, quote_via=quote)}"
    name = connection.settings_dict["NAME"]
    raise ImproperlyConfigured(
        f"Brant keeps jobs in an SQLite file or on Postgres, and the database {connection.alias!r} is neither: {name}"
    )


def _at_a_connection(connection: Any, **_: object) -> None:
    if connection.alias == NO_DB_ALIAS:
        _leave_servers()
    elif connection.alias in _used_aliases and _has_file(connection):
        # Now, for in the first transaction it would be too late: that one would keep Brant from making its tables.
        database(connection.alias)


connection_created.connect(_at_a_connection)


def _leave_servers() -> None:
    """Django is about to make, copy or drop a database, as for tests, which it can't while anybody is connected."""
    with _opening:
        here = [(key, db) for key, (_, db) in _opened.items() if key[0] == os.getpid()]
        for key, db in here:
            if db.schema is not None:
                del _opened[key]
                db.close()


def _has_file(connection: Any) -> bool:
    return connection.vendor == "sqlite" and not connection.is_in_memory_db()


def worker_database(alias: str = "default") -> Database:
    """The database for `brant worker`, after the `tasks` modules of all applications were imported.

    In `mysite/worker.py` write `db = worker_database()`, and run `brant worker mysite.worker:db`.
    """
    if not apps.ready:
        django.setup()
    autodiscover_modules("tasks")
    return database(alias)


class BrantBackend(BaseTaskBackend):  # type: ignore[misc, unused-ignore]
    """Enqueues to Brant, and tells what became of it."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._task_options = {"result_ttl_s": _RESULT_TTL_S, **self.options}
        self._alias_of_database: str = self._task_options.pop("database", "default")
        self._check_options()
        _used_aliases.add(self._alias_of_database)

    def _check_options(self) -> None:
        where = f"OPTIONS of TASKS[{self.alias!r}]"
        for name in self._task_options:
            if name not in _OPTIONS:
                raise ImproperlyConfigured(f"{where}: {name!r} is none; use database, {', '.join(_OPTIONS)}")
        try:
            TaskSpec("", self.enqueue, "", **self._task_options)
        except InvalidValue as error:
            raise ImproperlyConfigured(f"{where}: {error}") from error

    @property
    def db(self) -> Database:
        return database(self._alias_of_database)

    def validate_task(self, task: Any) -> None:
        """Called for each task that is declared, which is how workers learn of it."""
        super().validate_task(task)
        if registry().get(task.module_path) is None:
            runner = _Runner(task, self)
            registry().register(TaskSpec(task.module_path, runner, task.queue_name, **self._task_options))

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        connection = connections[self._alias_of_database]
        job_id = self.db.queue(task.queue_name).enqueue(
            call_payload(task.module_path, tuple(args), dict(kwargs)),
            tx=connection if connection.in_atomic_block or self.db.schema is not None else None,
            run_at=task.run_after,
            priority=task.priority,
            expires=self._task_options.get("expires_s"),
            max_attempts=self._task_options.get("retries"),
        )
        result = self.result(task, job_id, args, kwargs)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        if not (result_id.isascii() and result_id.isdigit()):
            raise TaskResultDoesNotExist(result_id)
        job_id = int(result_id)
        queue = self.db.queue_of_job(job_id)
        result = None if queue is None else self._unfinished(queue, job_id) or self._failed(queue, job_id)
        # Looked for last: a job that ended meanwhile has its answer by now.
        return result or self._successful(job_id)

    def _unfinished(self, queue: Queue, job_id: int) -> Any:
        row = queue.get_job(job_id)
        if row is None:
            return None
        running = row["state"] == "processing"
        result = self._of_call(job_id, message_payload(row["payload"]))
        _with_errors(result, queue.errors(job_id))
        if running:
            result.worker_ids.append(row["worker_id"])
        return _changed(result, status=TaskResultStatus.RUNNING if running else TaskResultStatus.READY)

    def _failed(self, queue: Queue, job_id: int) -> Any:
        dead = queue.get_dead(job_id)
        if dead is None:
            return None
        result = self._of_call(job_id, dead.payload)
        _with_errors(result, queue.errors(job_id) or [_death(dead)])
        return _changed(result, status=TaskResultStatus.FAILED, finished_at=_moment(dead.died_at))

    def _successful(self, job_id: int) -> Any:
        found, answer = self.db.queue(next(iter(self.queues), "default")).get_result(job_id)
        if not found or not isinstance(answer, dict) or "worker_ids" not in answer:
            raise TaskResultDoesNotExist(str(job_id))
        return _changed(
            self._of_call(job_id, answer),
            status=TaskResultStatus.SUCCESSFUL,
            started_at=_moment(answer["started_at"]),
            last_attempted_at=_moment(answer["started_at"]),
            finished_at=_moment(answer["finished_at"]),
            worker_ids=answer["worker_ids"],
            _return_value=answer["value"],
        )

    def _of_call(self, job_id: int, payload: Any) -> Any:
        call = payload.get(ENVELOPE, {}) if isinstance(payload, dict) else {}
        task = _declared(call.get("task"))
        if task is None:
            raise TaskResultDoesNotExist(f"{job_id} is no job of a task that is declared here")
        return self.result(task, job_id, call["args"], call["kwargs"])

    def result(self, task: Any, job_id: int, args: Any, kwargs: Any) -> Any:
        """As of a job that waits."""
        return TaskResult(
            task=task,
            id=str(job_id),
            status=TaskResultStatus.READY,
            enqueued_at=_moment(job_id / 1e6),  # ids are times
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


class _Runner:
    """What a worker calls for a Django task; it answers with what `get_result` will need."""

    def __init__(self, task: Any, backend: BrantBackend) -> None:
        self.task = task
        self._backend = backend

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        job = current_task().job
        result = self._started(job, args, kwargs)
        close_old_connections()
        try:
            task_started.send(type(self._backend), task_result=result)
            context = (TaskContext(task_result=result),) if self.task.takes_context else ()
            value = self.task.call(*context, *args, **kwargs)
            encode(value)  # a task whose answer can't be stored has failed, says Django
        except Exception as error:
            if outcome_of(error) is not None:
                raise
            return self._after_error(job, result, error)
        finally:
            close_old_connections()
        return self._answer(result, value)

    def _started(self, job: Job, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        now = _moment(_now())
        result = self._backend.result(self.task, job.id, args, kwargs)
        _with_errors(result, job.queue.errors(job.id))
        result.worker_ids.append(job.worker_id)
        return _changed(result, status=TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)

    def _after_error(self, job: Job, result: Any, error: Exception) -> Retry:
        trace = "".join(traceback.format_exception(error))
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        if job.attempts >= job.max_attempts:
            result.errors.append(TaskError(exception_class_path=path, traceback=trace))
            self._finished(result, TaskResultStatus.FAILED)
        return Retry(None, f"{path}: {error}\n{trace}")

    def _answer(self, result: Any, value: object) -> dict[str, Any]:
        self._finished(result, TaskResultStatus.SUCCESSFUL, _return_value=value)
        return {
            **envelope(self.task.module_path, tuple(result.args), result.kwargs),
            "value": value,
            "started_at": result.started_at.timestamp(),
            "finished_at": result.finished_at.timestamp(),
            "worker_ids": result.worker_ids,
        }

    def _finished(self, result: Any, status: Any, **facts: object) -> None:
        _changed(result, status=status, finished_at=_moment(_now()), **facts)
        task_finished.send(type(self._backend), task_result=result)


def _declared(path: object) -> Any:
    spec = registry().get(str(path))
    if spec is None:
        autodiscover_modules("tasks")
        spec = registry().get(str(path))
    return spec.fn.task if spec is not None and isinstance(spec.fn, _Runner) else None


def _changed(result: Any, **facts: object) -> Any:
    for name, value in facts.items():
        object.__setattr__(result, name, value)  # frozen: Django's own backends change it so
    return result


def _with_errors(result: Any, errors: list[AttemptError]) -> None:
    result.errors.extend(_task_error(error.error) for error in errors)
    result.worker_ids.extend(error.worker_id or "" for error in errors)
    if errors:
        _changed(result, last_attempted_at=_moment(errors[-1].failed_at))


def _death(dead: DeadJob) -> AttemptError:
    return AttemptError(dead.attempts, None, dead.last_error or "", dead.died_at)


def _task_error(text: str) -> Any:
    """Of what `_after_error` wrote; a worker's own words, such as a timeout's, name no class."""
    path, colon, _ = text.partition(": ")
    if colon and "." in path and path.replace(".", "").isidentifier():
        return TaskError(exception_class_path=path, traceback=text.partition("\n")[2])
    kind = "TimeoutError" if text.startswith("timeout after") else "RuntimeError"
    return TaskError(exception_class_path=f"builtins.{kind}", traceback=text)


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC if settings.USE_TZ else None)
