"""A worker behind PgBouncer in transaction mode: it polls, prepares nothing, and needs no session of its own."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from backupsched.embedded import Layout
from jobs.models import Attempt, BacklogRecord
from jobs.states import AttemptOutcome, Status
from tests.factories import make_lane, make_record, make_retry_policy, make_throttle
from tests.jobs.worker_processes import WorkerProcesses
from tests.sources.engines.peers import free_port
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

CONFIGURATION = """
[databases]
* = host={host} port=5432 user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 2
unix_socket_dir =
ignore_startup_parameters = extra_float_digits
"""


@pytest.fixture
def pooled_url(tmp_path: Path) -> Iterator[str]:
    """The test's database through a PgBouncer with two connections to the server."""
    server, port = connection.get_connection_params(), free_port("127.0.0.1")
    tmp_path.chmod(0o755)
    configuration = tmp_path / "pgbouncer.ini"
    configuration.write_text(
        CONFIGURATION.format(host=server["host"], user=server["user"], password=server["password"], port=port)
    )
    account = Layout(Path(os.environ["BACKUPSCHED_TEST_VAR"])).account
    command = ["pgbouncer", "--quiet", *(["--user", account.pw_name] if account else []), str(configuration)]
    with (tmp_path / "pgbouncer.log").open("wb") as log:
        # its own user cannot pass through the directories above, so it starts where it can read
        process = subprocess.Popen(command, stderr=log, cwd=settings.BASE_DIR)
    url = f"postgresql://{server['user']}@127.0.0.1:{port}/{server['dbname']}"

    def answers() -> bool:
        assert process.poll() is None, (tmp_path / "pgbouncer.log").read_text()
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    eventually(answers)
    yield url
    process.terminate()
    process.wait(20)


def test_runs_everything_and_falls_back_on_nothing(pooled_url, tmp_path):
    lane = make_lane(make_throttle(2))
    once = make_retry_policy(parameters={"base": 0.1}, max_failures=2)
    for number in range(300):
        make_record(kind="quick", lane=lane if number % 3 == 0 else 0)
    failing = make_record(kind="nonsense", retry_policy=once)
    workers = WorkerProcesses(tmp_path)
    try:
        worker = workers(DATABASE_URL=pooled_url, BACKUPSCHED_WAKE="poll")
        eventually(lambda: not BacklogRecord.objects.unfinished().exists())
        late = make_record(kind="quick")
        eventually(lambda: BacklogRecord.objects.get(pk=late.pk).status == Status.SUCCEEDED)
        worker.terminate()
        assert worker.wait(30) == 0
    finally:
        workers.end()
    log = workers.log(0)
    assert "WARNING" not in log
    assert log.count("ERROR") == 0
    failing.refresh_from_db()
    assert (failing.status, failing.failures) == (Status.FAILED, 2)
    assert Attempt.objects.filter(outcome=AttemptOutcome.SUCCEEDED).count() == 301
