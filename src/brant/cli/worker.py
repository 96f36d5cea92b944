"""worker: runs the tasks of a Python module."""

from __future__ import annotations

from brant.cli.command import DONE, Command
from brant.cli.numbers import count, duration
from brant.cli.output import put
from brant.errors import BrantError, InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import NoReturn

    import brant
    from brant.cli.command import Context
    from brant.tasks import Registry, TaskSpec
    from brant.worker import Worker
    from brant.worker.events import Observer

_GRACE_S = 10


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="MODULE:VAR", help="the module with the tasks, and the Database in it")
    parser.add_argument(
        "--queue",
        metavar="Q[=N]",
        action="append",
        default=[],
        help="work on this queue, with N jobs at once; can be repeated (default: each that has tasks)",
    )
    parser.add_argument("--concurrency", metavar="N", type=count, help="jobs at once in each queue (default: the CPUs)")
    parser.add_argument("--list", action="store_true", help="print the tasks and end")
    parser.add_argument("--drain", action="store_true", help="end once nothing is due")
    parser.add_argument("--no-scheduler", action="store_true", help="leave the schedules to others")
    parser.add_argument(
        "--grace",
        metavar="S",
        type=duration,
        default=_GRACE_S,
        help=f"when stopped, let running jobs go on for this long (default: {_GRACE_S})",
    )
    parser.add_argument("--isolate", action="store_true", help="run each job in a process of its own")
    parser.add_argument("--memory", metavar="MB", type=count, help="the most memory of a job's process")
    parser.add_argument("-q", "--quiet", action="store_true", help="no banner, no lines about jobs that failed")


def _worker(context: Context, options: Namespace) -> int:
    if context.directory is not None or context.file is not None:
        raise InvalidValue(f"the worker uses the database that {options.target} opens: leave -d and -f out")
    if options.memory is not None and not options.isolate:
        raise InvalidValue("--memory limits the processes of --isolate: give both")
    context.quiet = context.quiet or options.quiet
    with _database(options.target) as db:
        queues = _queues(options)
        tasks = [task for task in (*_registry(), *_registry().of_queues()) if task.queue_name in queues]
        if options.list:
            return _list(tasks)
        return _serve(context, options, db, queues, len(tasks))


def _database(target: str) -> brant.Database:
    from brant.database import Database
    from brant.worker.target import load

    db = load(target)
    if not isinstance(db, Database):
        raise InvalidValue(f"{target} is no Database but of type {type(db).__name__}: name what brant.open() gave")
    return db


def _registry() -> Registry:
    from brant.tasks import registry

    return registry()


def _queues(options: Namespace) -> dict[str, int]:
    """The queues to work on, each with its number of jobs at once."""
    from brant.worker.pool import default_concurrency, parse_queues

    known = _registry().queues()
    if not known:
        raise BrantError(f"no tasks: {options.target.partition(':')[0]} decorates no function with @queue.task")
    queues = parse_queues(options.queue or known, default_concurrency(options.concurrency))
    for name in queues:
        if name not in known:
            # A worker would make dead letters of all that is in it.
            raise InvalidValue(f"no task uses the queue {name!r}; those with tasks: {', '.join(known)}")
        if options.isolate and _registry().of_queue(name) is not None:
            raise InvalidValue(
                f"the jobs of {name!r} commit in the worker's own transaction, and can't have a process of their own: "
                "leave --isolate out, or name the other queues by --queue"
            )
    return queues


def _list(tasks: list[TaskSpec]) -> int:
    for task in sorted(tasks, key=lambda task: task.name):
        put(f"{task.name}  queue={task.queue_name}")
    return DONE


def _serve(context: Context, options: Namespace, db: brant.Database, queues: dict[str, int], tasks: int) -> int:
    from brant.cli.working import Reports, draining_bar

    _keep_log_records_from_stderr()
    with draining_bar(db, queues, wanted=options.drain and not context.quiet) as bar:
        worker = _made(options, db, queues, Reports(bar, quiet=context.quiet))
        code = _run(context, worker, _banner(queues, tasks))
    cut_off = _running_functions()
    if code == DONE:
        context.tell(f"brant worker: {_farewell(cut_off)}")
    if cut_off:
        _end_process(code)
    return code


def _made(options: Namespace, db: brant.Database, queues: dict[str, int], reports: Observer) -> Worker:
    tasks = _registry()
    if options.isolate:
        from brant.worker.isolate import isolated

        tasks = isolated(tasks, options.target, options.memory)
    return db.worker(
        queues,
        registry=tasks,
        scheduler=not options.no_scheduler,
        grace_s=options.grace,
        drain=options.drain,
        observers=(reports,),
    )


def _keep_log_records_from_stderr() -> None:
    """Where the module sets up no logging, Python would print warnings, which are reported already."""
    import logging

    logging.getLogger("brant").addHandler(logging.NullHandler())


def _banner(queues: dict[str, int], tasks: int) -> str:
    import os

    numbers = set(queues.values())
    each = str(numbers.pop()) if len(numbers) == 1 else ",".join(map(str, queues.values()))
    return f"brant worker: pid={os.getpid()} queues={','.join(queues)} concurrency={each} tasks={tasks}"


def _run(context: Context, worker: Worker, banner: str) -> int:
    import asyncio

    from brant.cli.failing import exit_code_for

    try:
        asyncio.run(_until_stopped(context, worker, banner))
    except BaseException as error:
        return exit_code_for(error, as_json=False)
    return DONE


async def _until_stopped(context: Context, worker: Worker, banner: str) -> None:
    import asyncio
    import signal

    requests = 0

    def stop() -> None:
        nonlocal requests
        requests += 1
        worker.stop(now=requests > 1)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    context.tell(banner)
    await worker.run()


def _running_functions() -> int:
    """How many functions go on in their threads, where nothing can end them."""
    import threading

    return sum(thread.name.startswith("brant-job-") for thread in threading.enumerate())


def _farewell(cut_off: int) -> str:
    if not cut_off:
        return "stopped cleanly"
    jobs = "job was" if cut_off == 1 else "jobs were"
    return f"stopped; {cut_off} running {jobs} cut off, to run again after the lease"


def _end_process(code: int) -> NoReturn:
    """As it is: to close the database would wait for a function that is in a transaction."""
    import os
    import sys

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed when the program was started
            stream.flush()
    os._exit(code)


COMMANDS = {
    "worker": Command(
        "run the tasks of a Python module",
        _arguments,
        _worker,
        description="Import the module, from the working directory first, and run the tasks that it decorates, until "
        "SIGINT or SIGTERM: then no new jobs, and those that run may finish within --grace. A second signal cuts them "
        "off. The schedules fire too, unless --no-scheduler. With --isolate each job has a process of its own, which "
        "is killed when the task's timeout_s is over: a crash or a leak costs one attempt of one job.",
    )
}
