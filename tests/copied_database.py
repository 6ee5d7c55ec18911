"""Each worker of pytest-xdist copies the database that `migrated_database` makes: migrating takes two seconds. And
servers of a test's own get its tables."""

import os
import subprocess
from io import BytesIO
from pathlib import Path

import pytest

from engines.restores.playing import without_unknown
from external.processes.programs import find_postgresql_program
from tests.jobs.worker_processes import database_url
from tests.migrated_database import TEMPLATE, wait_for_it


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """A server of the developer's own is left without the database that is copied: `DATABASE_URL` names one that
    outlives the tests."""
    from django.db import connection

    connection.creation._destroy_test_db = drop  # type: ignore[attr-defined]
    if os.environ.get("DATABASE_URL"):
        return
    wait_for_it(Path(os.environ["BACKUPSCHED_TEST_VAR"]))
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    connection.settings_dict["TEST"] |= {"TEMPLATE": TEMPLATE, "MIGRATE": False}
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
