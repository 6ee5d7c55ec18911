"""The embedded PostgreSQL: real servers in directories of their own."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

from backupsched.database import databases
from backupsched.embedded import EmbeddedDatabaseError, Server, layout
from backupsched.embedded.layout import LONGEST_SOCKET_DIRECTORY, Layout, reachable
from backupsched.postgresql.base import DatabaseClient
from backupsched.secret_key import secret_key
from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def var_dir(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "var"
    yield path
    Server(path).destroy()


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that every user may pass through, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="backupsched-open-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def users_environment(**more: str) -> dict[str, str]:
    """The environment without the test session's database and settings."""
    tests_own = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "BACKUPSCHED_VAR")
    return {**{name: value for name, value in os.environ.items() if name not in tests_own}, **more}


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run manage.py as a user would."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=users_environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.promise
def test_the_first_start_creates_a_cluster_and_later_ones_find_it(var_dir):
    server = Server(var_dir)
    assert server.ensure_running()
    assert not Server(var_dir).ensure_running()
    with server.connect("backupsched") as connection:
        connection.execute("CREATE TABLE kept (n int)")
    assert server.stop()
    assert not server.stop()
    assert Server(var_dir).ensure_running()
    with server.connect("backupsched") as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


@pytest.mark.promise
def test_processes_that_start_together_share_one_server(var_dir):
    environment = users_environment(BACKUPSCHED_VAR=str(var_dir))
    command = [sys.executable, "manage.py", "database", "start", "--json"]
    connecting = [sys.executable, "manage.py", "showmigrations", "jobs"]
    together = [
        subprocess.Popen(each, cwd=settings.BASE_DIR, env=environment, stdout=subprocess.PIPE)
        for each in (connecting, command, connecting, command, command)
    ]
    output = [process.communicate()[0] for process in together]
    assert [process.returncode for process in together] == [0] * 5
    answers = [json.loads(output[place]) for place in (1, 3, 4)]
    assert sum(answer["changed"] for answer in answers) <= 1
    assert len({answer["pid"] for answer in answers}) == 1


def test_a_first_start_that_was_cut_off_is_completed(var_dir):
    server = Server(var_dir)
    server.ensure_running()
    with server.connect("postgres") as connection:
        connection.execute("DROP DATABASE backupsched")
    assert not server.ensure_running()
    with server.connect("backupsched"):
        pass


def test_a_directory_that_was_moved_keeps_its_database(tmp_path):
    Server(tmp_path / "before").ensure_running()
    Server(tmp_path / "before").stop()
    (tmp_path / "before").rename(tmp_path / "after")
    server = Server(tmp_path / "after")
    password = server.password()
    assert password
    try:
        assert server.ensure_running()
        assert server.password() == password
    finally:
        server.destroy()


def test_a_strict_umask_does_not_keep_the_servers_user_out(open_dir):
    server = Server(open_dir / "var")
    before = os.umask(0o077)
    try:
        assert server.ensure_running()
    finally:
        os.umask(before)
        server.destroy()


@pytest.mark.parametrize("keyed", [True, False])
def test_nor_does_it_in_roots_own_directory(open_dir, monkeypatch, keyed):
    own = open_dir / "lib" / "backupsched"
    monkeypatch.setattr(layout, "SHARED_HOME", own)
    server = Server(own)
    before = os.umask(0o077)
    try:
        if keyed:
            secret_key(own)
        assert server.ensure_running()
    finally:
        os.umask(before)
        server.destroy()


@pytest.mark.promise
def test_a_server_that_was_killed_is_started_again(var_dir):
    server = Server(var_dir)
    server.ensure_running()
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not server.status().running)
    assert (server.layout.data / "postmaster.pid").exists()
    # its children notice within moments that the postmaster is gone
    eventually(lambda: _started(server))
    assert server.status().pid != pid


def _started(server: Server) -> bool:
    try:
        return server.ensure_running()
    except EmbeddedDatabaseError:
        return False


def test_only_who_knows_the_password_gets_in_and_only_the_owner_to_the_files(var_dir):
    server = Server(var_dir)
    server.ensure_running()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(
            host=str(server.layout.socket_directory), user="backupsched", password="guessed", dbname="backupsched"
        )
    assert stat.S_IMODE(server.layout.data.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.layout.socket_directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.layout.password_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.layout.lock_file.stat().st_mode) == 0o600  # who can open it can hold it
    with server.connect("backupsched") as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_a_directory_of_another_major_version_is_refused(var_dir):
    server = Server(var_dir)
    server.ensure_running()
    server.stop()
    (server.layout.data / "PG_VERSION").write_text("15\n")
    with pytest.raises(EmbeddedDatabaseError, match=r"made by PostgreSQL 15, but the embedded server is version 18"):
        server.ensure_running()


def test_a_file_in_the_way_is_named(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    with pytest.raises(EmbeddedDatabaseError, match=r"cannot keep the embedded database of .*file.*BACKUPSCHED_VAR"):
        Server(in_the_way / "var").ensure_running()


def test_a_server_that_does_not_start_says_why(var_dir):
    with pytest.raises(EmbeddedDatabaseError, match=r"unrecognized configuration parameter \"no_such_setting\""):
        Server(var_dir, settings={"no_such_setting": "1"}).ensure_running()


def test_a_socket_directory_of_somebody_else_is_refused(open_dir):
    server = Server(open_dir / ("deep" * 30))
    assert len(str(server.layout.socket_directory)) <= LONGEST_SOCKET_DIRECTORY
    assert server.layout.socket_directory != Layout(open_dir / ("deep" * 31)).socket_directory
    server.layout.socket_directory.symlink_to(open_dir)
    try:
        with pytest.raises(EmbeddedDatabaseError, match="belongs to another user"):
            server.ensure_running()
    finally:
        server.layout.socket_directory.unlink()
        server.destroy()


def test_a_closed_directory_above_is_seen(tmp_path):
    closed = tmp_path / "closed"
    (closed / "below").mkdir(parents=True)
    tmp_path.chmod(0o755)
    closed.chmod(0o700)
    stranger = 12345
    assert not reachable(closed / "below", stranger)
    closed.chmod(0o711)
    assert reachable(closed, closed.stat().st_uid)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql://somebody:hunter2@127.0.0.1:1/shop", "the database 'shop' at 127.0.0.1:1 does not answer"),
        ("shop", "only PostgreSQL is supported"),
        ("postgresql://somebody:hunter2@127.0.0.1:http/shop", "DATABASE_URL is malformed"),
    ],
)
def test_a_database_url_that_is_of_no_use_is_one_clear_message(tmp_path, url, problem):
    result = manage("migrate", DATABASE_URL=url, BACKUPSCHED_VAR=str(tmp_path))
    assert result.returncode == 2
    assert problem in result.stderr
    assert "Traceback" not in result.stderr
    assert "hunter2" not in result.stderr


def test_the_command_tells_the_status_in_words_and_in_json(var_dir):
    told = manage("database", "status", BACKUPSCHED_VAR=str(var_dir))
    assert "does not run" in told.stdout
    answer = json.loads(manage("database", "start", "--json", BACKUPSCHED_VAR=str(var_dir)).stdout)
    assert answer["running"]
    assert answer["changed"]
    stopped = manage("database", "stop", BACKUPSCHED_VAR=str(var_dir))
    assert "does not run" in stopped.stdout


def test_a_worker_refuses_a_database_without_tables(var_dir):
    result = manage("worker", BACKUPSCHED_VAR=str(var_dir))
    assert result.returncode == 2
    assert "manage.py migrate" in result.stderr


def test_all_processes_agree_on_one_secret_key(tmp_path):
    script = "import sys; from pathlib import Path; from backupsched.secret_key import secret_key; "
    script += "sys.stdout.write(secret_key(Path(sys.argv[1])))"
    command = [sys.executable, "-c", script, str(tmp_path / "new")]
    together = [subprocess.Popen(command, cwd=settings.BASE_DIR, stdout=subprocess.PIPE) for _ in range(4)]
    keys = {process.communicate()[0] for process in together}
    assert len(keys) == 1
    assert len(keys.pop()) > 40
    assert stat.S_IMODE((tmp_path / "new" / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["secret_key"]


def test_dbshell_gives_psql_the_password_that_no_setting_has(var_dir: Path) -> None:
    Server(var_dir).ensure_running()
    _, environment = DatabaseClient.settings_to_cmd_args_env(databases(None, var_dir)["default"], [])
    assert environment["PGPASSWORD"] == Server(var_dir).password()
