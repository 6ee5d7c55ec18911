"""A real pooler before the test's database."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from backupsched.embedded import Layout
from tests.engines.peers import free_port
from tests.programs import needed
from tests.waiting import PATIENCE, eventually

CONFIGURATION = """
[databases]
* = host={host} port={server_port} user={user} password='{password}'
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
        CONFIGURATION.format(
            host=server["host"],
            server_port=server.get("port") or 5432,
            user=server["user"],
            password=server["password"].replace("'", "''"),
            port=port,
        )
    )
    account = Layout(Path(os.environ["BACKUPSCHED_TEST_VAR"])).account
    command = [
        needed("pgbouncer", "pgbouncer"),
        "--quiet",
        *(["--user", account.pw_name] if account else []),
        str(configuration),
    ]
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
    process.wait(PATIENCE)
