"""Functions that run as jobs: a call enqueues, a worker runs it, the caller may wait for the answer."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from brant.arguments import seconds, whole
from brant.cron import CronSchedule
from brant.errors import InvalidValue
from brant.limit import limit_of_task
from brant.storage.jobs import TASK_ENVELOPE

if TYPE_CHECKING:
    from brant.limit import Limit
    from brant.queue import Queue

P = ParamSpec("P")
R = TypeVar("R")

ENVELOPE = TASK_ENVELOPE
_OPTIONS = frozenset({"tx", "run_at", "delay", "priority", "expires", "unique_key", "unique_for", "batch"})
_BATCH = frozenset({"batch"})  # also what a batch's callback takes


@dataclass(frozen=True)
class TaskSpec:
    """How a task runs. `retries` is the number of attempts in all."""

    name: str
    fn: Callable[..., Any]
    queue_name: str
    retries: int | None = None
    retry_delay_s: float = 60
    retry_backoff: float = 2.0
    retry_jitter: float = 0.1
    max_retry_delay_s: float = 3600
    timeout_s: float | None = None
    priority: int = 0
    expires_s: float | None = None
    store_result: bool = True
    result_ttl_s: float = 3600
    unique_key: str | Callable[..., str] | None = None
    unique_for_s: float | None = None
    limit: Limit | Callable[..., Limit] | None = None

    def __post_init__(self) -> None:
        if self.retries is not None:
            whole(self.retries, "retries", minimum=1)
        for name in ("retry_delay_s", "max_retry_delay_s", "retry_jitter", "result_ttl_s"):
            seconds(getattr(self, name), name, minimum=0)
        seconds(self.retry_backoff, "retry_backoff", minimum=1)
        for name in ("timeout_s", "expires_s", "unique_for_s"):
            if getattr(self, name) is not None:
                seconds(getattr(self, name), name, above=0)
        if self.limit is not None and not callable(self.limit):
            limit_of_task(self.name, self.limit)

    def delay_after(self, attempt: int) -> float:
        """Seconds to wait after that many attempts: grows by the backoff, spread by the jitter, in whole seconds."""
        grown = min(self.retry_delay_s * self.retry_backoff ** min(attempt - 1, 64), self.max_retry_delay_s)
        spread = grown * random.uniform(1 - self.retry_jitter, 1 + self.retry_jitter)
        return spread if spread < 1 else round(spread)

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.fn)

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """TypeError unless the function can be called with them."""
        if kwargs or len(args) not in self._counts:
            self.signature.bind(*args, **kwargs)

    @cached_property
    def _counts(self) -> range:
        """How many arguments it takes where all are positional: to bind them takes longer than most of an enqueue."""
        parameters = self.signature.parameters.values()
        plain = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        if any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters):
            return range(0)
        return range(sum(each.default is each.empty for each in plain), len(plain) + 1)

    @cached_property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.fn) or inspect.iscoroutinefunction(
            getattr(self.fn, "__call__", None)  # noqa: B004, an object whose call is a coroutine
        )


class Registry:
    """The tasks that this process knows, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskSpec] = {}
        self._of_queues: dict[str, TaskSpec] = {}
        self._lock = threading.Lock()

    def register(self, spec: TaskSpec) -> None:
        """The same function again is fine; another one under a taken name is an error."""
        with self._lock:
            known = self._tasks.get(spec.name)
            if known is not None and known.fn is not spec.fn:
                raise InvalidValue(f"duplicate task name {spec.name!r}: pass name= to tell the two apart")
            self._tasks[spec.name] = spec

    def register_queue(self, spec: TaskSpec) -> None:
        """Have one function run all jobs of its queue that name no task: it gets the payload."""
        with self._lock:
            known = self._of_queues.get(spec.queue_name)
            if known is not None and known.fn is not spec.fn:
                raise InvalidValue(f"the queue {spec.queue_name!r} has a function already: {known.name!r}")
            self._of_queues[spec.queue_name] = spec

    def get(self, name: str) -> TaskSpec | None:
        return self._tasks.get(name)

    def of_queue(self, queue_name: str) -> TaskSpec | None:
        return self._of_queues.get(queue_name)

    def of_queues(self) -> list[TaskSpec]:
        return list(self._of_queues.values())

    def names(self) -> list[str]:
        return sorted(self._tasks)

    def queues(self) -> list[str]:
        return sorted({spec.queue_name for spec in self._tasks.values()} | set(self._of_queues))

    def __iter__(self) -> Iterator[TaskSpec]:
        return iter(list(self._tasks.values()))


_process_wide = Registry()


def registry() -> Registry:
    """The registry of this process."""
    return _process_wide


@dataclass(frozen=True)
class TaskResult(Generic[R]):
    """The answer that a call will have."""

    id: int
    queue: Queue = field(repr=False)
    has_answer: bool = True

    def get(self, timeout: float | None = None) -> R:
        """Wait for it in a thread: the value, TaskFailed with the remote error, or TimeoutError."""
        self._require_answer()
        return cast(R, self.queue.wait_result_sync(self.id, timeout))

    async def aget(self, timeout: float | None = None) -> R:
        """Wait for it in an event loop."""
        self._require_answer()
        return cast(R, await self.queue.wait_result(self.id, timeout))

    def _require_answer(self) -> None:
        if not self.has_answer:
            raise InvalidValue("the task stores no result: decorate it with store_result=True to wait for one")


class Task(Generic[P, R]):
    """A decorated function. Calling it enqueues a job and runs nothing."""

    def __init__(self, queue: Queue, spec: TaskSpec) -> None:
        self.queue = queue
        self.spec = spec
        self.name = spec.name
        self.fn = spec.fn
        taken = (_OPTIONS - _BATCH) & set(spec.signature.parameters)
        if taken:
            raise InvalidValue(f"task {spec.name!r}: {', '.join(sorted(taken))} is an option of enqueue(); rename it")
        update_wrapper(self, spec.fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult[R]:
        return self.enqueue(*args, **kwargs)

    def call_local(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function here and now; an async one gives its coroutine."""
        return self.fn(*args, **kwargs)

    def enqueue(self, *args: Any, **kwargs: Any) -> TaskResult[R]:
        """As a call, with options: tx, delay, run_at, priority, expires, unique_key, unique_for, batch."""
        options = {name: kwargs.pop(name) for name in self._given_options(kwargs)}
        self._check_arguments(args, kwargs)
        if run_instead is not None:
            return run_instead(self, args, kwargs, options.get("batch"))
        job_id = self.queue.enqueue(call_payload(self.name, args, kwargs), **self._options(args, kwargs, options))
        return TaskResult(job_id, self.queue, self.spec.store_result)

    def _given_options(self, kwargs: dict[str, Any]) -> frozenset[str]:
        options = _OPTIONS & set(kwargs)
        if "batch" in options and "batch" in inspect.signature(self.fn).parameters:
            from brant.batch import Batch

            # The function has an argument of that name, as a batch's callback has: a Batch itself is the option.
            return options if isinstance(kwargs["batch"], Batch) else options - _BATCH
        return options

    def check_takes_batch(self) -> None:
        """Whether it can be a batch's callback, which is called with the keyword `batch` alone."""
        try:
            inspect.signature(self.fn).bind(batch={})
        except TypeError as error:
            raise InvalidValue(
                f"then={self.name}: it is called with the keyword `batch` alone, a dict; take that ({error})"
            ) from None

    def _check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.spec.check(args, kwargs)  # TypeError now, rather than in a worker

    def _options(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        spec = self.spec
        options: dict[str, Any] = {
            "priority": spec.priority,
            "expires": spec.expires_s,
            "max_attempts": spec.retries or self.queue.max_attempts,
        }
        if spec.unique_key is not None:
            key = spec.unique_key
            options["unique_key"] = key(*args, **kwargs) if callable(key) else key
            options["unique_for"] = spec.unique_for_s
        if spec.limit is not None:
            limit = spec.limit(*args, **kwargs) if callable(spec.limit) else spec.limit
            options["limit"] = limit_of_task(spec.name, limit)
        return options | given


# What an instrumentation puts into each call, beside its arguments: `brant.contrib.opentelemetry` sets it.
add_to_call: Callable[[dict[str, Any]], None] | None = None

# Set while `brant.testing.run_inline()` is on.
run_instead: Callable[[Task[..., Any], tuple[Any, ...], dict[str, Any], Any], TaskResult[Any]] | None = None


def envelope(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a task's call looks like as a payload; Honker's workers read it too."""
    return {ENVELOPE: {"task": name, "args": list(args), "kwargs": kwargs}}


def call_payload(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The payload of a call that is made here and now."""
    payload = envelope(name, args, kwargs)
    if add_to_call is not None:
        add_to_call(payload[ENVELOPE])
    return payload


def default_name(fn: Callable[..., Any]) -> str:
    # An object that can be called has no name of its own: its class has.
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"


def make_task(queue: Queue, fn: Callable[P, R], name: str | None, options: dict[str, Any]) -> Task[P, R]:
    spec = TaskSpec(name=name or default_name(fn), fn=fn, queue_name=queue.name, **options)
    task: Task[P, R] = Task(queue, spec)
    registry().register(spec)
    return task


def make_periodic(
    queue: Queue,
    fn: Callable[P, R],
    schedule: CronSchedule | str,
    *,
    name: str | None,
    scheduler_name: str | None,
    missed: str,
    options: dict[str, Any],
) -> Task[P, R]:
    """A task without arguments that a schedule enqueues; registering it again at each start keeps its next fire."""
    if options.get("limit") is not None:
        raise InvalidValue("a periodic task takes no limit: let it call a task that has one, or use queue.set_limit()")
    task = make_task(queue, fn, name, {"store_result": False, **options})
    queue.db.scheduler().add(
        name=scheduler_name or task.name,
        queue=queue.name,
        schedule=schedule,
        payload=envelope(task.name, (), {}),
        priority=task.spec.priority,
        expires=task.spec.expires_s,
        max_attempts=task.spec.retries or 3,
        missed=missed,  # type: ignore[arg-type]
    )
    return task
