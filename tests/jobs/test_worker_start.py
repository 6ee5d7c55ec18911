"""`manage.py worker` as a process, started while the database is away, or where it will never be let in."""

import subprocess

import pytest
from django.db import connection

from tests.jobs.worker_processes import Programs, database_url
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def start(programs: Programs, url: str) -> "subprocess.Popen[bytes]":
    return programs.run("manage.py", "worker", "--queues=default", DATABASE_URL=url)


def let_in(allowed: bool) -> None:
    """New sessions of the test's database: all, or none."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}")


def test_it_says_once_that_it_waits_and_works_once_the_database_is_back(programs):
    let_in(False)
    try:
        worker = start(programs, database_url())
        eventually(lambda: "waiting for the database" in programs.log())
    finally:
        let_in(True)
    eventually(lambda: "serves default" in programs.log())
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert programs.log().count("waiting for the database") == 1
    assert "the database answers again" in programs.log()


def test_a_signal_ends_the_wait(programs):
    worker = start(programs, "postgresql://nobody@127.0.0.1:1/none")
    eventually(lambda: "waiting for the database" in programs.log())
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert "Traceback" not in programs.log()


@pytest.mark.parametrize("part", ["user", "database"])
def test_what_will_never_be_let_in_exits_at_once_and_says_why(part, programs):
    scheme, _, place = database_url().rpartition("@")
    url = f"{scheme}@{place}_which_is_none" if part == "database" else f"postgresql://nobody:wrong@{place}"
    assert start(programs, url).wait(PATIENCE) == 2
    assert "FATAL" in programs.log()
    assert "Check DATABASE_URL" in programs.log()
