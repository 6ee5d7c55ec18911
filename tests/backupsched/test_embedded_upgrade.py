"""The embedded server's data are moved to a newer major version, and moved again after a kill at any step."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backupsched.embedded import Server
from backupsched.embedded.upgrade import StagedLayout, size_of
from tests.backupsched.managing import manage
from tests.documents import ROOT
from tests.programs import postgresql_programs
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

OLD = 15
ROWS = 20_000
UNRESTORABLE = """
CREATE FUNCTION holds(int) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE TABLE refusing (n int CHECK (holds(n)));
INSERT INTO refusing VALUES (1);
CREATE OR REPLACE FUNCTION holds(int) RETURNS bool LANGUAGE sql AS 'SELECT false'"""


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Server]:
    """A server whose data an older version has made. It runs."""
    server = Server(tmp_path / "var", programs=postgresql_programs(OLD))
    try:
        server.ensure_running()
        with server.connect("backupsched") as connection:
            connection.execute(f"CREATE TABLE kept AS SELECT n, md5(n::text) FROM generate_series(1, {ROWS}) AS n")
            connection.execute("COMMENT ON TABLE kept IS 'programs need: a.b'")
        yield server
    finally:
        server.destroy()


def upgrade(server: Server, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return manage("database", "upgrade", "--json", *arguments, BACKUPSCHED_VAR=str(server.layout.var_dir))


def is_whole(server: Server) -> None:
    now = Server(server.layout.var_dir)
    now.ensure_running()
    with now.connect("backupsched") as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (ROWS,)
        assert connection.execute("SELECT obj_description('kept'::regclass, 'pg_class')").fetchone() == (
            "programs need: a.b",
        )
        [version] = connection.execute("SHOW server_version_num").fetchone() or ["0"]
    assert int(version) // 10_000 > OLD
    now.stop()


def test_the_data_are_moved_and_the_old_ones_kept_and_what_cannot_be_is_named(old: Server, tmp_path: Path) -> None:
    refused = manage("database", "start", BACKUPSCHED_VAR=str(old.layout.var_dir))
    assert refused.returncode == 0, "it runs still, as it was started before the upgrade of the package"
    old.stop()
    refused = manage("database", "start", BACKUPSCHED_VAR=str(old.layout.var_dir))
    assert (refused.returncode, "`database upgrade` moves the data" in refused.stderr) == (2, True)
    for folder in (tmp_path, postgresql_programs(OLD).parent):
        refused = upgrade(old, "--old-programs", str(folder))
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    old.ensure_running()
    with old.connect("postgres") as connection:
        connection.execute("CREATE DATABASE more")
    refused = upgrade(old)
    assert (refused.returncode, "the server has more: the database more" in refused.stderr) == (2, True)
    left = Server(old.layout.var_dir, programs=postgresql_programs(OLD))
    left.layout = StagedLayout(old.layout, old.layout.data)
    left.start()  # as an upgrade leaves it that is ended while it dumps
    refused = manage("database", "start", BACKUPSCHED_VAR=str(old.layout.var_dir))
    assert (refused.returncode, "`database upgrade` moves the data" in refused.stderr) == (2, True), refused.stderr
    left.start()
    old.ensure_running()  # of the same version it is started again where all find it
    with old.connect("postgres") as connection:
        connection.execute("DROP DATABASE more")
    with old.connect("backupsched") as connection:
        connection.execute(UNRESTORABLE)
    refused = upgrade(old)
    assert (refused.returncode, "psql failed, and all is as before" in refused.stderr) == (2, True), refused.stderr
    assert not [*old.layout.home.glob("upgrade-*"), *old.layout.home.glob("data.upgraded")]
    old.ensure_running()
    with old.connect("backupsched") as connection:
        connection.execute("DROP TABLE refusing")

    done = upgrade(old)
    assert done.returncode == 0, done.stderr
    kept = Path(json.loads(done.stdout)["old_data"])
    assert (kept / "PG_VERSION").read_text().strip() == str(OLD)
    is_whole(old)
    old.layout.data.rename(old.layout.upgraded)  # killed between its two renames, whatever starts the server ends it
    is_whole(old)
    again = upgrade(old)
    assert json.loads(again.stdout) == {"changed": False, "old_data": None}


def test_killed_at_any_moment_it_is_run_again(old: Server) -> None:
    command = [sys.executable, "manage.py", "database", "upgrade"]
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "backupsched.settings",
        "DATABASE_URL": "",
        "BACKUPSCHED_VAR": str(old.layout.var_dir),
    }
    began = time.monotonic()
    patience, kills = 0.2, 0
    while True:
        with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                code = process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
        patience *= 1.25
        assert time.monotonic() - began < 4 * PATIENCE
    assert (code, kills > 4) == (0, True)
    is_whole(old)
    assert not [*old.layout.home.glob("upgrade-*"), *old.layout.home.glob("data.upgraded")]


VANISHING = """
import os, sys
while True:
    for n in range(50):
        os.close(os.open(f"{sys.argv[1]}/{n}", os.O_CREAT | os.O_WRONLY))
    for n in range(50):
        os.unlink(f"{sys.argv[1]}/{n}")
"""


def test_files_that_vanish_while_the_room_is_counted_count_nothing(tmp_path: Path) -> None:
    (tmp_path / "stays").write_bytes(b"x" * 100)
    with subprocess.Popen([sys.executable, "-c", VANISHING, str(tmp_path)]) as process:
        try:
            assert {size_of(tmp_path) for _ in range(500)} == {100}
        finally:
            process.kill()
