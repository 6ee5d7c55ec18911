"""The queue by itself: a Django project whose only app is `jobs`, and of ours only `external` can be imported."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.promise]

SETTINGS = """
SECRET_KEY = "bare"
INSTALLED_APPS = ["jobs"]
SILENCED_SYSTEM_CHECKS = ["postgres.E005"]  # Django 6.0 wants an app for its array fields, which work without
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", **{database!r}}}}}
"""
MANAGE = """
import os, sys
import django
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()
import work
execute_from_command_line(sys.argv)
"""
WORK = """
from jobs.handlers import Kind, Run, registry
from jobs.outcomes import Outcome, Succeeded

registry.add(Kind("greeting"))

@registry.handler("greeting", queue="default")
def greet(run: Run) -> Outcome:
    return Succeeded(facts={"greeting": f"hello {run.record.payload['name']}"})
"""
ENQUEUE = """
from django.core.management import call_command
from jobs.backlog import enqueue
call_command("migrate", verbosity=0)
call_command("makemigrations", check_changes=True, verbosity=0)
enqueue("greeting", [("first", {"name": "world"})])
"""


@pytest.fixture
def database() -> Iterator[dict[str, Any]]:
    """The parameters of an empty database of the tests' server, for psycopg."""
    given = connection.get_connection_params()
    server = {key: given[key] for key in ("user", "password", "host", "port") if given.get(key)}
    name = f"bare_{os.getpid()}"
    with psycopg.connect(dbname="postgres", autocommit=True, **server) as maintenance:
        maintenance.execute(f"CREATE DATABASE {name}")
        yield {"dbname": name, **server}
        maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def project(tmp_path: Path, database: dict[str, Any]) -> Path:
    named = {("NAME" if key == "dbname" else key.upper()): value for key, value in database.items()}
    (tmp_path / "settings.py").write_text(SETTINGS.format(database=named))
    (tmp_path / "manage.py").write_text(MANAGE)
    (tmp_path / "work.py").write_text(WORK)
    for package in ("jobs", "external"):
        (tmp_path / package).symlink_to(settings.BASE_DIR / package)
    return tmp_path


def test_a_project_that_has_only_the_queue_enqueues_and_works(project, database):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("BACKUPSCHED", "PYTHONPATH"))}
    command = [sys.executable, "manage.py"]
    arguments = [*command, "shell", "-c", ENQUEUE]
    done = subprocess.run(arguments, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with (
        psycopg.connect(**database, autocommit=True) as asking,
        (project / "log").open("w") as log,
        subprocess.Popen(
            [*command, "worker", "--concurrency", "2"], cwd=project, env=environment, stderr=log
        ) as worker,
    ):
        try:
            (facts,) = eventually(lambda: asking.execute("SELECT facts FROM jobs_attempt").fetchone())
            assert facts == {"greeting": "hello world"}
            worker.terminate()
            assert worker.wait(PATIENCE) == 0
            assert asking.execute("SELECT status FROM jobs_backlogrecord").fetchall() == [(3,)]
        finally:
            worker.kill()
    assert (project / "log").read_text() == ""
