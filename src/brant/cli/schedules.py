"""schedule."""

from __future__ import annotations

from brant.cli.command import DONE, NOTHING, Command
from brant.cli.numbers import count, positive_duration, whole_number
from brant.cli.output import put, put_json
from brant.cli.parsing import queue_of
from brant.cli.payloads import json_of
from brant.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    import brant
    from brant.cli.command import Context
    from brant.schedule import Schedule

_HEADERS = ("NAME", "WHEN", "ZONE", "QUEUE", "NEXT FIRE", "ENABLED", "ERROR")


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(_ACTIONS))
    _add_arguments(actions.add_parser("add", help="add a schedule, or replace the one of that name"))
    shown = actions.add_parser("list", help="show the schedules")
    shown.add_argument("--json", action="store_true", help="one JSON object a line")
    for action, (_, summary) in _CHANGES.items():
        actions.add_parser(action, help=summary, description=summary).add_argument("name", metavar="NAME")
    run = actions.add_parser("run", help="enqueue jobs as they become due, until interrupted")
    run.add_argument("--once", action="store_true", help="enqueue and print what is due now; exit code 2 for nothing")


def _schedule(context: Context, options: Namespace) -> int:
    return _ACTIONS[options.action](context, options)


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the schedule")
    parser.add_argument("--queue", metavar="Q", required=True, help="queue that gets the jobs, or @alias")
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument("--cron", metavar="EXPR", help="a cron expression, such as '30 2 * * *' or @daily")
    when.add_argument("--every", metavar="S", type=count, help="each time that so many seconds have passed")
    parser.add_argument("--tz", metavar="ZONE", help="the zone of --cron, such as Europe/Berlin (default: local time)")
    parser.add_argument("--payload", metavar="JSON", default="null", help="the payload of each job (null)")
    parser.add_argument("--priority", metavar="N", type=whole_number, default=0, help="the priority of each job (0)")
    parser.add_argument("--expires", metavar="S", type=positive_duration, help="a job not started by then is dropped")
    parser.add_argument("--max-attempts", metavar="N", type=count, default=3, help="how often a job is tried (3)")
    parser.add_argument(
        "--missed",
        choices=("skip", "one", "all"),
        default="all",
        help="of the fires that nobody was there for, make up for none, for one or for all (all)",
    )


def _add(context: Context, options: Namespace) -> int:
    times = _times(options)
    payload = json_of(options.payload, "--payload")
    with context.open(writes=True) as db:
        db.scheduler().add(
            name=options.name,
            queue=queue_of(db, options.queue).name,
            schedule=times,
            payload=payload,
            priority=options.priority,
            expires=options.expires,
            max_attempts=options.max_attempts,
            missed=options.missed,
        )
        added = _find(db, options.name)
    if added is not None:
        context.tell(f"Scheduled {added.name!r}: next at {_next_fire(added)}")
    return DONE


def _times(options: Namespace) -> brant.CronSchedule:
    from brant.cron import CronSchedule, every_s

    if options.every is None:
        return CronSchedule(options.cron, options.tz)
    if options.tz is not None:
        raise InvalidValue("--tz belongs to --cron; an interval is the same in every zone")
    return every_s(options.every)


def _find(db: brant.Database, name: str) -> Schedule | None:
    return next((schedule for schedule in db.scheduler().schedules() if schedule.name == name), None)


def _list(context: Context, options: Namespace) -> int:
    with context.open() as db:
        schedules = db.scheduler().schedules()
    if options.json:
        for schedule in schedules:
            put_json(vars(schedule))
    elif schedules:
        from brant.cli.terminal import table

        table([_row(schedule) for schedule in schedules], _HEADERS)
    return DONE


def _row(schedule: Schedule) -> tuple[str, ...]:
    return (
        schedule.name,
        schedule.cron_expr,
        schedule.tz or "local",
        schedule.queue,
        _next_fire(schedule),
        "yes" if schedule.enabled else "no",
        schedule.error or "",
    )


def _next_fire(schedule: Schedule) -> str:
    import time

    from brant.cli.terminal import ago

    return f"{_local_time(schedule.next_fire_at)} ({ago(time.time() - schedule.next_fire_at)})"


def _local_time(moment: float) -> str:
    from datetime import datetime

    try:
        return datetime.fromtimestamp(moment).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):  # whatever another program wrote there
        return str(moment)


def _change(context: Context, options: Namespace) -> int:
    with context.open() as db:
        scheduler = db.scheduler()
        change: Callable[[str], bool] = getattr(scheduler, options.action)
        if change(options.name):
            context.tell(f"{_CHANGES[options.action][0]} {options.name!r}")
            return DONE
        known = _find(db, options.name) is not None
    state = "paused already" if options.action == "pause" else "not paused"
    context.tell(f"The schedule {options.name!r} is {state}" if known else f"There is no schedule {options.name!r}")
    return NOTHING


def _run(context: Context, options: Namespace) -> int:
    with context.open() as db:
        scheduler = db.scheduler()
        if options.once:
            return _tick(scheduler)
        schedules = scheduler.schedules()
        if not schedules:
            raise InvalidValue("there are no schedules; add one with 'brant schedule add'")
        scheduler.shorten_lock()
        context.tell(f"Starting the scheduler, with {len(schedules)} schedules...")
        _run_until_stopped(scheduler)
    return DONE


def _tick(scheduler: brant.Scheduler) -> int:
    fires = scheduler.tick()
    for fire in fires:
        put(f"{fire.name}\t{fire.queue}\t{_local_time(fire.fire_at)}\t{fire.job_id}")
    return DONE if fires else NOTHING


def _run_until_stopped(scheduler: brant.Scheduler) -> None:
    import asyncio

    from brant.cli.stopping import StopSignals

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        StopSignals(lambda: loop.call_soon_threadsafe(stop.set))
        await scheduler.run(stop)

    asyncio.run(run())


_CHANGES = {
    "pause": ("Paused", "have a schedule fire no more"),
    "resume": ("Resumed", "have a paused schedule go on; of the fires meanwhile only the last is made up for"),
    "remove": ("Removed", "forget a schedule; jobs that it made stay"),
}
_ACTIONS: dict[str, Callable[[Context, Namespace], int]] = {
    "add": _add,
    "list": _list,
    **dict.fromkeys(_CHANGES, _change),
    "run": _run,
}
COMMANDS = {
    "schedule": Command(
        "enqueue jobs at set times",
        _arguments,
        _schedule,
        description="Enqueue jobs at set times, while 'brant schedule run' runs somewhere.",
    )
}
