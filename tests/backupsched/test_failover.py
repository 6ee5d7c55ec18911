"""A failover: the old primary lives on, read-only, and answers every SELECT. Web, worker and qcluster hold connections
to it in many threads. Each finds the new primary of `DATABASE_URL` by itself.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import requests
from django.db import InternalError, connection, transaction

from backupsched.embedded import Server
from jobs.prepared_statements import execute
from tests.engines.peers import free_port
from tests.jobs.worker_processes import Programs
from tests.threads import beside
from tests.waiting import PATIENCE, eventually

FLEET = {
    "repositories": [{"name": "office", "location": "backups"}],
    "policies": [{"name": "nightly", "cron": "0 0 1 1 *", "repository": "office"}],
    "sources": [{"name": "papers", "kind": "local", "path": "PAPERS", "policies": ["nightly"]}],
}
BACKUPS = "SELECT count(*) FROM sources_backup"
TASKS = "SELECT count(*) FROM django_q_task WHERE success AND started > %s"


class Pair:
    """A primary and its streaming standby."""

    def __init__(self, directory: Path) -> None:
        self.old, self.new = Server(directory / "old"), Server(directory / "new")
        self.old.ensure_running()
        self.old.stop()
        old, new = self.old.layout, self.new.layout
        self.new._make_home()
        subprocess.run(["cp", "-a", str(old.data), str(old.password_file), str(new.home)], check=True)
        where = f"host={old.socket_directory} user=backupsched password={self.old.password()}"
        with (new.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{where}'\n")
        (new.data / "standby.signal").touch()
        self.old.ensure_running()
        self.new.ensure_running()

    @property
    def url(self) -> str:
        """The URL of both, with several hosts as libpq takes them."""
        hosts = ",".join(str(each.layout.socket_directory).replace("/", "%2F") for each in (self.old, self.new))
        return f"postgresql://backupsched:{self.old.password()}@{hosts}/backupsched"

    def fail_over(self) -> None:
        with self.new.connect("backupsched") as there, self.old.connect("backupsched") as here:
            here.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            here.execute("SELECT pg_reload_conf()")
            (written,) = here.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
            arrived = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            eventually(lambda: there.execute(arrived, [written]).fetchone() == (True,))
            there.execute("SELECT pg_promote()")

    def ask(self, server: Server, question: str, *values: Any) -> Any:
        """The first column of the first row."""
        with server.connect("backupsched") as there:
            row = there.execute(question, values).fetchone()
        return row and row[0]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for server in (made.new, made.old):
        server.destroy()


@pytest.mark.slow
def test_web_worker_and_qcluster_find_the_new_primary_by_themselves(pair, programs: Programs, tmp_path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "letter").write_text("Dear Anna")
    (tmp_path / "fleet.json").write_text(json.dumps(FLEET).replace("PAPERS", str(tmp_path / "papers")))
    environment = {"DATABASE_URL": pair.url, "BACKUPSCHED_VAR": str(tmp_path / "var")}

    def manage(*arguments: str) -> None:
        process = programs.run(
            "manage.py", *arguments, **environment, DJANGO_SUPERUSER_PASSWORD="correct horse battery"
        )
        assert process.wait() == 0, programs.log(len(programs.started) - 1)

    manage("migrate", "--verbosity", "0")
    manage("qcluster", "install")
    manage("createsuperuser", "--noinput", "--username", "anna", "--email", "anna@example.org")
    manage("apply", str(tmp_path / "fleet.json"))
    web = f"http://127.0.0.1:{free_port('127.0.0.1')}"
    programs.run("manage.py", "web", "--listen", web.removeprefix("http://"), **environment)
    programs.run("manage.py", "worker", **environment)
    programs.run("manage.py", "qcluster", **environment)
    eventually(lambda: pair.ask(pair.old, BACKUPS) == 1)
    eventually(lambda: _status(web, "/admin/login/") == 200)
    eventually(lambda: pair.ask(pair.old, TASKS, "2000-01-01"))

    pair.fail_over()
    failed_over_at = pair.ask(pair.new, "SELECT clock_timestamp()")
    eventually(lambda: _log_in(web) == 302)
    manage("sources", "backup-now", "papers")
    eventually(lambda: pair.ask(pair.new, BACKUPS) == 2)
    eventually(lambda: pair.ask(pair.new, TASKS, failed_over_at), seconds=180)


@pytest.mark.django_db(transaction=True)
def test_a_refused_write_makes_every_connection_of_the_process_anew_outside_of_transactions():
    def session() -> int:
        return execute("SELECT pg_backend_pid()", {}).fetchall()[0][0]

    refused, looked = Event(), Event()

    def another() -> list[int]:
        found = [session()]
        with transaction.atomic():
            found.append(session())
            looked.set()
            assert refused.wait(PATIENCE)
            found.append(session())
        return [*found, session()]

    mine, other = session(), beside(another)
    assert looked.wait(PATIENCE)
    assert connection.is_usable()
    execute("SET default_transaction_read_only = on", {})
    assert not connection.is_usable(), "the server answers, but may not write"
    with pytest.raises(InternalError):
        execute("DELETE FROM jobs_backlogrecord", {})
    refused.set()
    assert session() != mine
    first, *inside, last = other.result(PATIENCE)
    assert inside == [first, first], "a transaction ends where it began"
    assert last != first


def _status(web: str, path: str) -> int:
    try:
        return requests.get(web + path, timeout=PATIENCE).status_code
    except requests.ConnectionError:
        return 0


def _log_in(web: str) -> int:
    """The status of a user's login, which writes a session."""
    with requests.Session() as session:
        page = session.get(f"{web}/admin/login/", timeout=PATIENCE)
        if not (field := re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)):
            return page.status_code
        form = {"username": "anna", "password": "correct horse battery", "csrfmiddlewaretoken": field[1]}
        return session.post(f"{web}/admin/login/", form, allow_redirects=False, timeout=PATIENCE).status_code
