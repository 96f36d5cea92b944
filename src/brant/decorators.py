"""`@queue.task` and `@queue.periodic_task`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, ParamSpec, Protocol, TypeVar, overload

    from brant.cron import CronSchedule
    from brant.limit import Limit
    from brant.queue import Queue
    from brant.schedule import MissedFires
    from brant.tasks import Task

    P = ParamSpec("P")
    R = TypeVar("R")

    class MakesTask(Protocol):
        """The answer of an async function is what it returns, not the coroutine."""

        @overload
        def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...

        @overload
        def __call__(self, fn: Callable[P, R], /) -> Task[P, R]: ...
else:

    def overload(function):
        return function


class TaskVerbs:
    """Makes tasks of functions: a call enqueues, a worker runs it."""

    @overload
    def task(self, name: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...

    @overload
    def task(self, name: Callable[P, R], /) -> Task[P, R]: ...  # noqa: F811, ruff knows overload by its import only

    @overload
    def task(  # noqa: F811
        self,
        name: str | None = None,
        *,
        retries: int | None = None,
        retry_delay_s: float = 60,
        retry_backoff: float = 2.0,
        retry_jitter: float = 0.1,
        max_retry_delay_s: float = 3600,
        timeout_s: float | None = None,
        priority: int = 0,
        expires_s: float | None = None,
        store_result: bool = True,
        result_ttl_s: float = 3600,
        unique_key: str | Callable[..., str] | None = None,
        unique_for_s: float | None = None,
        limit: Limit | Callable[..., Limit] | None = None,
    ) -> MakesTask: ...

    def task(self, name: Any = None, **options: Any) -> Any:  # noqa: F811
        """Have the function run as a job: with or without parentheses, plain or async.

        `retries` is the number of attempts in all (default: the queue's); between them are `retry_delay_s` seconds,
        times `retry_backoff` for each further one, spread by `retry_jitter`. `timeout_s` ends an async function; a
        plain one is asked to (`current_task().cancelled`) and counts as timed out when it ends. `limit` holds for the
        task's jobs of all processes; or it is a function that makes one of the arguments of each call.
        """
        from brant.tasks import make_task

        queue: Queue = self  # type: ignore[assignment]
        if callable(name):
            return make_task(queue, name, None, options)
        return lambda fn: make_task(queue, fn, name, options)

    def periodic_task(
        self,
        schedule: CronSchedule | str,
        *,
        name: str | None = None,
        scheduler_name: str | None = None,
        missed: MissedFires = "all",
        **options: Any,
    ) -> MakesTask:
        """Have the function, which takes no arguments, run by the clock; takes the options of `task` too."""
        from brant.tasks import make_periodic

        queue: Queue = self  # type: ignore[assignment]

        def decorate(fn: Any) -> Any:
            return make_periodic(
                queue, fn, schedule, name=name, scheduler_name=scheduler_name, missed=missed, options=options
            )

        return decorate
