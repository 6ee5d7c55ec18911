"""One database is migrated for all workers of pytest-xdist, which copy it: migrating takes each of them two seconds.
And servers of a test's own get its tables."""

import fcntl
import os
import subprocess
from io import BytesIO
from pathlib import Path

import django
import pytest
from pytest_django import DjangoDbBlocker

from engines.restores.playing import without_unknown
from external.processes.programs import find_postgresql_program
from tests.jobs.worker_processes import database_url

TEMPLATE = "test_migrated"
WITHOUT_ROWS = {"serialize": False} if django.VERSION < (6, 0) else {}
"""Django 6 keeps no copy of the rows unless it is asked for, and warns of the argument."""


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """The first worker that needs a database migrates the one that is copied. A server of the developer's own is
    left without it: `DATABASE_URL` names one that outlives the tests."""
    from django.conf import settings
    from django.db import connection

    connection.creation._destroy_test_db = drop  # type: ignore[attr-defined]
    if "PYTEST_XDIST_WORKER" not in os.environ or os.environ.get("DATABASE_URL"):
        return
    var_dir, tested = Path(os.environ["BACKUPSCHED_TEST_VAR"]), connection.settings_dict["TEST"]
    is_migrated = var_dir / "migrated"
    with (var_dir / "migrating.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_migrated.exists():
            usual, own = connection.settings_dict["NAME"], tested["NAME"]
            tested["NAME"] = TEMPLATE
            with django_db_blocker.unblock():
                connection.creation.create_test_db(verbosity=0, autoclobber=True, **WITHOUT_ROWS)
                connection.close()
            tested["NAME"] = own
            settings.DATABASES["default"]["NAME"] = connection.settings_dict["NAME"] = usual
            is_migrated.touch()
    tested |= {"TEMPLATE": TEMPLATE, "MIGRATE": False}
    connection.creation._destroy_test_db = lambda *_: None  # type: ignore[attr-defined] # it goes with its server


def drop(name: str, verbosity: int) -> None:
    """Drop a test's database, also under the processes and threads of tests that are at their end."""
    from django.db import connection

    with connection.creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)} WITH (FORCE)")


def copy_tables(url: str) -> None:
    """Into an empty database of another server. The test's own has been set up."""
    dump_command = [find_postgresql_program("pg_dump"), "--no-owner", database_url()]
    dump = subprocess.run(dump_command, capture_output=True, check=True)
    as_all_versions_know_it = b"".join(without_unknown(BytesIO(dump.stdout)))
    psql = [find_postgresql_program("psql"), "--quiet", "--set=ON_ERROR_STOP=1", url]
    subprocess.run(psql, input=as_all_versions_know_it, stdout=subprocess.DEVNULL, check=True)
