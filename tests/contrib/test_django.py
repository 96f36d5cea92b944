"""The backend for Django's tasks: a real project, each step in a process of its own, a real worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.plainly import is_server
from tests.servers import Server

pytestmark = pytest.mark.both_backends

# Django 6 has tasks of its own. The package from before works with it too, and projects may stay with that.
PACKAGE = "django_tasks"
FLAVOURS = [name for name in ("django.tasks", PACKAGE) if find_spec(name) is not None]

SETTINGS = """
SECRET_KEY = "of a test"
USE_TZ = True
INSTALLED_APPS = ["shop"]
DATABASES = {
    "default": DATABASE,
    "memory": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}
TASKS = {
    "default": {
        "BACKEND": "brant.contrib.django.BrantBackend",
        "QUEUES": ["default", "reports"],
        "OPTIONS": {"retries": 2, "retry_delay_s": 0},
    },
    "hasty": {"BACKEND": "brant.contrib.django.BrantBackend", "OPTIONS": {"expires_s": 60}},
    "nowhere": {"BACKEND": "brant.contrib.django.BrantBackend", "OPTIONS": {"database": "memory"}},
}
"""

MODELS = """
from django.db import models


class Order(models.Model):
    mailed = models.IntegerField(default=0)
"""

TASKS = """
from FLAVOUR import task


@task()
def mail(order):
    from shop.models import Order

    Order.objects.filter(pk=order).update(mailed=1)
    return {"order": order}


@task(queue_name="reports", takes_context=True)
def attempt(context, *, succeed_at):
    if context.attempt < succeed_at:
        raise LookupError(f"attempt {context.attempt}")
    return context.attempt


@task()
async def slowly(n):
    return n


@task()
def unstorable():
    return object()
"""

PRELUDE = """
import json, django
django.setup()
from django.db import connection, transaction
from django.utils import timezone
from shop import tasks
from shop.models import Order
from brant.contrib.django import BrantBackend, database

def told(result):
    result.refresh()
    return {"status": result.status, "attempts": result.attempts,
            "errors": [error.exception_class_path for error in result.errors]}

def tell(**facts):
    print(json.dumps(facts))
"""


def django_settings(path: Path | str) -> dict[str, Any]:
    """Of the database: a file, or on a server."""
    if not is_server(path):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}
    given = conninfo_to_dict(str(path))
    named = {name.upper(): given.get(name) or "" for name in ("user", "password", "host", "port")}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": given["dbname"], **named}


class Project:
    def __init__(self, folder: Path, path: Path | str, flavour: str, *, is_installed_app: bool = True) -> None:
        self.folder = folder
        self.flavour = flavour
        settings = f"DATABASE = {django_settings(path)!r}\n{SETTINGS}"
        if flavour == PACKAGE and is_installed_app:
            settings += 'INSTALLED_APPS += ["django_tasks"]\n'
        (folder / "shop").mkdir()
        files = {"settings.py": settings, "shop/__init__.py": "", "shop/models.py": MODELS, "shop/tasks.py": TASKS}
        files["worker.py"] = "from brant.contrib.django import worker_database\n\ndb = worker_database()\n"
        for name, text in files.items():
            (folder / name).write_text(text.replace("FLAVOUR", flavour), "utf-8")

    def run(self, program: str) -> dict[str, Any]:
        """What the program tells, as a process that has loaded the project."""
        answer = json.loads(self._output([sys.executable, "-c", PRELUDE + program.replace("FLAVOUR", self.flavour)]))
        assert isinstance(answer, dict)
        return answer

    def work(self) -> None:
        self._output([sys.executable, "-m", "brant", "worker", "worker:db", "--drain", "--no-scheduler"])

    def _output(self, command: list[str]) -> str:
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(self.folder)}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(params=FLAVOURS)
def unmigrated(request: pytest.FixtureRequest, tmp_path: Path, path: Path) -> Project:
    return Project(tmp_path, path, request.param)


@pytest.fixture
def project(unmigrated: Project) -> Project:
    made = unmigrated
    made.run("""
with connection.schema_editor() as editor:
    editor.create_model(Order)
tell()
""")
    return made


def test_a_task_commits_with_the_models_and_a_worker_runs_it(project: Project) -> None:
    sent = project.run("""
with transaction.atomic():
    order = Order.objects.create()
    result = tasks.mail.enqueue(order.pk)
tell(order=order.pk, id=result.id, **told(result))
""")
    assert sent["status"] == "READY"
    project.work()
    seen = project.run(f"""
result = tasks.mail.get_result({sent["id"]!r})
tell(mailed=Order.objects.get(pk={sent["order"]}).mailed, value=result.return_value, args=result.args,
     in_order=result.enqueued_at <= result.started_at <= result.finished_at <= timezone.now(), **told(result))
""")
    assert seen == {
        "mailed": 1,
        "value": {"order": sent["order"]},
        "args": [sent["order"]],
        "in_order": True,
        "status": "SUCCESSFUL",
        "attempts": 1,
        "errors": [],
    }


def test_the_first_transaction_of_a_new_file_can_enqueue(unmigrated: Project) -> None:
    seen = unmigrated.run("""
with transaction.atomic():
    connection.cursor().execute("CREATE TABLE mine (n INTEGER)")
    result = tasks.mail.enqueue(1)
tell(**told(result))
""")
    assert seen["status"] == "READY"


def test_a_rolled_back_task_was_never_there(project: Project) -> None:
    seen = project.run("""
try:
    with transaction.atomic():
        result = tasks.mail.enqueue(Order.objects.create().pk)
        raise ConnectionError
except ConnectionError:
    pass
try:
    result.refresh()
except Exception as error:
    missing = type(error).__name__
tell(missing=missing, orders=Order.objects.count(), queues=database().queue_names())
""")
    assert seen == {"missing": "TaskResultDoesNotExist", "orders": 0, "queues": []}


def test_a_task_of_an_inner_block_goes_with_that_block(project: Project) -> None:
    seen = project.run("""
with transaction.atomic():
    kept = tasks.mail.enqueue(1)
    try:
        with transaction.atomic():
            tasks.mail.enqueue(2)
            raise ConnectionError
    except ConnectionError:
        pass
tell(jobs=[job.id for job in database().queue("default").claim_batch("w", 9)] == [int(kept.id)])
""")
    assert seen == {"jobs": True}


def test_outside_of_a_block_a_task_is_there_at_once(project: Project) -> None:
    seen = project.run("""
tasks.mail.enqueue(1)
tell(pending=database().queue("default").stats().pending, in_transaction=connection.in_atomic_block)
""")
    assert seen == {"pending": 1, "in_transaction": False}


def test_a_task_that_fails_is_tried_again_and_then_failed(project: Project) -> None:
    sent = project.run("""
tell(good=tasks.attempt.enqueue(succeed_at=2).id, bad=tasks.attempt.enqueue(succeed_at=3).id)
""")
    project.work()
    seen = project.run(f"""
good, bad = (tasks.attempt.get_result(i) for i in ({sent["good"]!r}, {sent["bad"]!r}))
tell(good=told(good), value=good.return_value, bad=told(bad), trace=bad.errors[-1].traceback,
     caught=issubclass(bad.errors[0].exception_class, LookupError))
""")
    assert seen["good"]["status"] == "SUCCESSFUL"
    assert (seen["good"]["attempts"], seen["value"]) == (2, 2)
    assert seen["bad"] == {"status": "FAILED", "attempts": 2, "errors": ["builtins.LookupError"] * 2}
    assert seen["trace"].startswith("Traceback")
    assert "attempt 2" in seen["trace"]
    assert seen["caught"]


def test_async_deferred_and_urgent_tasks(project: Project) -> None:
    sent = project.run("""
from datetime import timedelta
later = tasks.slowly.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
urgent = tasks.slowly.using(priority=50).enqueue(2)
row = database().queue("default").get_job(int(urgent.id))
tell(later=later.id, urgent=urgent.id, priority=row["priority"])
""")
    assert sent["priority"] == 50
    project.work()
    seen = project.run(f"""
later, urgent = (tasks.slowly.get_result(i) for i in ({sent["later"]!r}, {sent["urgent"]!r}))
tell(later=later.status, urgent=urgent.status, value=urgent.return_value)
""")
    assert seen == {"later": "READY", "urgent": "SUCCESSFUL", "value": 2}


def test_a_running_task_is_told_to_run(project: Project) -> None:
    seen = project.run("""
result = tasks.mail.enqueue(1)
database().queue("default").claim_one("worker-1")
tell(**told(result), workers=result.worker_ids)
""")
    assert seen == {"status": "RUNNING", "attempts": 1, "errors": [], "workers": ["worker-1"]}


def test_an_answer_that_is_not_json_is_a_failure(project: Project) -> None:
    sent = project.run("tell(id=tasks.unstorable.enqueue().id)")
    project.work()
    seen = project.run(f"tell(**told(tasks.unstorable.get_result({sent['id']!r})))")
    assert seen == {"status": "FAILED", "attempts": 2, "errors": ["builtins.TypeError"] * 2}


def test_signals_tell_of_the_start_and_the_one_end(project: Project) -> None:
    seen = project.run("""
from asyncio import run
from FLAVOUR.signals import task_enqueued, task_finished, task_started
events = []
def note(signal, task_result, **_):
    events.append([names[signal], task_result.status])
names = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}
for signal in names:
    signal.connect(note)
tasks.attempt.enqueue(succeed_at=3)
import logging; logging.disable()
run(database().worker({"reports": 1}, drain=True, scheduler=False).run())
tell(events=events)
""")
    assert seen["events"] == [
        ["enqueued", "READY"],
        ["started", "RUNNING"],
        ["started", "RUNNING"],
        ["finished", "FAILED"],
    ]


@pytest.mark.parametrize("result_id", ["7", "no number", "²"])
def test_an_unknown_result_does_not_exist(project: Project, result_id: str) -> None:
    seen = project.run(f"""
try:
    tasks.mail.get_result({result_id!r})
except Exception as error:
    tell(error=type(error).__name__)
""")
    assert seen == {"error": "TaskResultDoesNotExist"}


def test_a_job_of_something_else_is_no_result(project: Project) -> None:
    seen = project.run("""
try:
    tasks.mail.get_result(str(database().queue("other").enqueue("raw")))
except Exception as error:
    tell(error=type(error).__name__)
""")
    assert seen == {"error": "TaskResultDoesNotExist"}


def test_a_database_that_is_neither_a_file_nor_a_server_is_refused(project: Project) -> None:
    seen = project.run("""
try:
    tasks.mail.using(backend="nowhere").enqueue(1)
except Exception as error:
    tell(error=type(error).__name__, text=str(error))
""")
    assert seen["error"] == "ImproperlyConfigured"
    assert "'memory'" in seen["text"]


def test_the_databases_of_djangos_own_tests_can_be_made_and_dropped(tmp_path: Path, postgres_server: Server) -> None:
    with postgres_server.new_database() as address:
        seen = Project(tmp_path, address, FLAVOURS[0]).run("""
from django.test.runner import DiscoverRunner
runner = DiscoverRunner(verbosity=0, interactive=False, parallel=2)
outside = tasks.mail.enqueue(1)
made = runner.setup_databases()
inside = tasks.mail.enqueue(2)
names = [database().query("SELECT current_database() AS name")[0]["name"]]
runner.teardown_databases(made)
tell(names=[*names, database().query("SELECT current_database() AS name")[0]["name"]], outside=told(outside)["status"],
     jobs=database().queue("default").stats().pending)
""")
    first, second = seen.pop("names")
    assert first == f"test_{second}"
    assert seen == {"outside": "READY", "jobs": 1}


@pytest.mark.skipif("django.tasks" in FLAVOURS, reason="there the tasks of Django itself are meant")
def test_before_django_6_the_package_need_not_be_an_installed_app(tmp_path: Path, path: Path) -> None:
    seen = Project(tmp_path, path, PACKAGE, is_installed_app=False).run("tell(**told(tasks.mail.enqueue(1)))")
    assert seen["status"] == "READY"


def test_what_the_backend_raises_is_what_the_project_can_catch(project: Project) -> None:
    seen = project.run("""
from FLAVOUR import TaskResult
from FLAVOUR.exceptions import TaskResultDoesNotExist
try:
    tasks.mail.get_result("7")
except TaskResultDoesNotExist:
    tell(is_result=isinstance(tasks.mail.enqueue(1), TaskResult))
""")
    assert seen == {"is_result": True}


def test_the_option_expires_s_holds_for_each_job(project: Project) -> None:
    seen = project.run("""
result = tasks.mail.using(backend="hasty").enqueue(1)
row = database().queue("default").get_job(int(result.id))
tell(expires_after=row["expires_at"] - row["created_at"])
""")
    assert seen == {"expires_after": 60}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"retrys": 3}, "'retrys'"),
        ({"retries": 0}, "retries must be"),
        ({"priority": 3}, "'priority'"),
        ({"store_result": False}, "'store_result'"),
        ({"limit": None}, "'limit'"),
    ],
)
def test_a_bad_option_is_told_when_the_first_task_is_declared(
    unmigrated: Project, options: dict[str, object], told: str
) -> None:
    with (unmigrated.folder / "settings.py").open("a") as settings:
        settings.write(f"TASKS['default']['OPTIONS'] = {options!r}\n")
    (unmigrated.folder / "shop" / "tasks.py").write_text(
        "from django.core.exceptions import ImproperlyConfigured\n"
        f"from {unmigrated.flavour} import task\n"
        "def note(): ...\n"
        "try:\n    task(note)\nexcept ImproperlyConfigured as error:\n    said = str(error)\n"
    )
    said = unmigrated.run("tell(said=tasks.said)")["said"]
    assert told in said
    assert "OPTIONS" in said
