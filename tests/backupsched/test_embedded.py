"""The embedded PostgreSQL: one real server in a directory of its own, also one that four processes create at once."""

import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command

from backupsched.database import databases
from backupsched.embedded import EmbeddedDatabaseError, Layout, Server, layout
from backupsched.embedded.binaries import PARTS, _copy, scratch_server
from backupsched.embedded.layout import reachable
from backupsched.places import secret_key
from backupsched.postgresql.base import DatabaseClient, DatabaseWrapper
from tests.backupsched.managing import MANAGE, manage
from tests.waiting import eventually

pytestmark = pytest.mark.slow


def together(*command: str, **environment: str) -> list[str]:
    """The output of four processes that are started at once, with a strict umask, as a user would."""
    tests_own = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "BACKUPSCHED_VAR")
    kept = {name: value for name, value in os.environ.items() if name not in tests_own}
    four = [
        subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=kept | environment, stdout=subprocess.PIPE, text=True, umask=0o077
        )
        for _ in range(4)
    ]
    return [process.communicate()[0] for process in four]


@pytest.fixture(scope="module")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """What each of the processes printed that created a server together."""
    server = Server(tmp_path_factory.mktemp("embedded") / "var")
    try:
        printed = together(*MANAGE, "database", "start", "--json", BACKUPSCHED_VAR=str(server.layout.var_dir))
        yield [json.loads(line) for line in printed]
    finally:
        server.destroy()


@pytest.fixture(scope="module")
def made_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all other tests, since each process of pytest-xdist would start four more for `first_start`."""
    server = Server(tmp_path_factory.mktemp("embedded") / "var")
    yield server
    server.destroy()


@pytest.fixture
def server(made_alone: Server) -> Server:
    """It runs."""
    made_alone.ensure_running()
    return made_alone


@pytest.fixture
def stopped(server: Server) -> Server:
    server.stop()
    return server


@pytest.mark.promise
def test_processes_that_start_together_share_one_server(first_start):
    assert sum(answer["changed"] for answer in first_start) == 1
    assert len({answer["pid"] for answer in first_start}) == 1


@pytest.mark.promise
def test_a_later_start_finds_what_was_kept_also_when_the_directory_was_moved(server):
    assert not server.ensure_running()
    with server.connect("backupsched") as connection:
        connection.execute("CREATE TABLE kept (n int)")
    assert server.stop()
    assert not server.stop()
    before = server.layout.var_dir
    after = before.rename(before.with_name("after"))
    try:
        moved = Server(after)
        assert moved.ensure_running()
        with moved.connect("backupsched") as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        moved.stop()
    finally:
        after.rename(before)


@pytest.mark.promise
def test_a_server_that_was_killed_is_started_again(server):
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not server.status().running)
    assert (server.layout.data / "postmaster.pid").exists()

    def is_started() -> bool:  # its children notice within moments that the postmaster is gone
        try:
            return server.ensure_running()
        except EmbeddedDatabaseError:
            return False

    eventually(is_started)
    assert server.status().pid != pid


def test_a_server_that_stands_still_is_not_waited_for_and_one_without_its_database_gets_it(server, monkeypatch):
    with server.connect("postgres") as connection:
        connection.execute("DROP DATABASE backupsched WITH (FORCE)")
    assert not server.ensure_running(), "as after a first start that was cut off: what is missing is made"
    monkeypatch.setattr("backupsched.embedded.server.CONNECT_SECONDS", 2)
    pid = server.status().pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            server.connect("backupsched")
        database = DatabaseWrapper(settings.DATABASES["default"] | databases(None, server.layout.var_dir)["default"])
        database.settings_dict["OPTIONS"]["connect_timeout"] = 2
        monkeypatch.setattr(Server, "ensure_running", lambda server: pytest.fail("each thread would wait its turn"))
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            database.get_new_connection(database.get_connection_params())
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()  # a busy machine may take longer
    server.connect("backupsched").close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can pass through."""
    if os.geteuid() != 0:
        pytest.skip("only root's server runs as another user")
    made = Path(tempfile.mkdtemp(prefix="backupsched-open-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("below", ["var", "lib/backupsched", "lib/keyed"])
def test_a_strict_umask_does_not_keep_the_servers_user_out(monkeypatch, below, place):
    """Neither in a directory of a user's nor in root's own, whether or not the key in it came first."""
    var_dir, before = place / below, os.umask(0o077)
    if below != "var":
        monkeypatch.setattr(layout, "SHARED_HOME", var_dir)
    try:
        if below == "lib/keyed":
            secret_key(var_dir)
        made = Server(var_dir)
        made._make_home()
    finally:
        os.umask(before)
    assert made.layout.account is not None
    assert reachable(made.layout.home, made.layout.account.pw_uid)


def test_what_loads_a_dump_is_not_the_account_whose_files_are_the_databases(monkeypatch, place):
    made = Layout(place)
    scratch = scratch_server(place, with_programs=True)
    assert made.account is not None
    assert scratch["account"] not in (None, (made.account.pw_uid, made.account.pw_gid), (0, 0))
    for each in (scratch["folder"], scratch["programs"]):
        assert reachable(Path(each), scratch["account"][0])
    monkeypatch.setattr(layout, "_first_of", lambda *names: pwd.getpwnam("nobody") if "nobody" in names else None)
    with pytest.raises(EmbeddedDatabaseError, match="useradd --system backupsched-drill"):
        scratch_server(Path(f"{place}/other"), with_programs=False)


def test_what_a_killed_start_left_of_the_programs_stops_no_later_one_of_the_same_number(tmp_path):
    ((packages := tmp_path / "packages") / PARTS[0]).mkdir(parents=True)
    (tmp_path / f".server.{os.getpid()}" / PARTS[0]).mkdir(parents=True)
    _copy(packages, tmp_path / "server")
    assert (tmp_path / "server" / PARTS[0]).is_dir()


def test_only_who_knows_the_password_gets_in_and_only_the_owner_to_the_files(server):
    place = server.layout
    _, environment = DatabaseClient.settings_to_cmd_args_env(databases(None, place.var_dir)["default"], [])
    assert environment["PGPASSWORD"] == server.password(), "psql gets what no setting has"
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=str(place.socket_directory), user="backupsched", password="guessed", dbname="backupsched")
    for path, mode in ((place.data, 0o700), (place.socket_directory, 0o700), (place.password_file, 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(place.lock_file.stat().st_mode) == 0o600  # who can open it can hold it
    with server.connect("backupsched") as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_a_directory_of_another_major_version_is_refused(stopped):
    version = stopped.layout.data / "PG_VERSION"
    own = version.read_text()
    version.write_text("15\n")
    with pytest.raises(EmbeddedDatabaseError, match=r"made by PostgreSQL 15, but the embedded server is version 18"):
        stopped.ensure_running()
    version.write_text(own)


def test_a_server_that_does_not_start_says_why(stopped):
    with pytest.raises(EmbeddedDatabaseError, match=r"unrecognized configuration parameter \"no_such_setting\""):
        Server(stopped.layout.var_dir, settings={"no_such_setting": "1"}).ensure_running()


def test_a_long_path_has_a_short_socket_directory_and_one_of_another_user_is_refused(stopped, monkeypatch, tmp_path):
    for name in ("deep" * 30, "Papers, old"):  # a comma would make it two
        assert Layout(Path("/tmp") / name).socket_directory.parent == Path("/tmp")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setattr(stopped.layout, "socket_directory", tmp_path / "link")
    with pytest.raises(EmbeddedDatabaseError, match="belongs to another user"):
        stopped.ensure_running()


def test_a_closed_directory_above_is_seen(tmp_path):
    closed = tmp_path / "closed"
    (closed / "below").mkdir(parents=True)
    tmp_path.chmod(0o755)
    closed.chmod(0o700)
    stranger = 12345
    assert not reachable(closed / "below", stranger)
    closed.chmod(0o711)
    assert reachable(closed, closed.stat().st_uid)


def test_a_command_without_its_database_ends_with_one_clear_message(server):
    """Exit code 2, no traceback, no password: nothing answers there, or no table is there yet."""
    var_dir = str(server.layout.var_dir)
    away = manage("migrate", DATABASE_URL="postgresql://anna:hunter2@127.0.0.1:1/shop", BACKUPSCHED_VAR=var_dir)
    empty = manage("worker", BACKUPSCHED_VAR=var_dir)
    for result, problem in ((away, "'shop' at 127.0.0.1:1 does not answer"), (empty, "manage.py migrate")):
        assert result.returncode == 2
        assert problem in result.stderr
        assert "Traceback" not in result.stderr
        assert "hunter2" not in result.stderr


def test_a_migration_that_may_not_write_ends_with_one_clear_message(server):
    """A role that may make nothing, one that owns no table, and a server that is read-only."""
    with server.connect("postgres") as connection:
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'hunter2'")
        for name in ("shop", "reading"):
            connection.execute(f"CREATE DATABASE {name}")
        connection.execute("ALTER DATABASE reading SET default_transaction_read_only = on")
    where = str(server.layout.socket_directory).replace("/", "%2F")
    var_dir, guest = str(server.layout.var_dir), f"postgresql://guest:hunter2@{where}"
    owner = f"postgresql://backupsched:{server.password()}@{where}"

    def refused(url: str, problem: str) -> None:
        result = manage("migrate", DATABASE_URL=url, BACKUPSCHED_VAR=var_dir)
        assert (result.returncode, problem in result.stderr) == (2, True), result.stderr
        assert "Traceback" not in result.stderr
        assert "hunter2" not in result.stderr

    refused(f"{guest}/shop", "GRANT USAGE, CREATE ON schema public TO guest.")
    refused(f"{owner}/reading", "accepts no writes: cannot execute CREATE TABLE in a read-only transaction")
    with server.connect("shop") as connection:
        connection.execute("CREATE TABLE django_migrations (id int, app text, name text, applied timestamptz)")
    refused(f"{guest}/shop", "for table django_migrations\nRun this as the role that owns the tables.")


def test_the_command_stops_the_server_and_prints_its_status_in_words(server, monkeypatch, capsys):
    monkeypatch.setitem(settings.DATABASES["default"], "EMBEDDED_IN", str(server.layout.var_dir))
    call_command("database", "status")
    assert f"runs (process {server.status().pid})" in capsys.readouterr().out
    call_command("database", "stop")
    assert "does not run" in capsys.readouterr().out
    assert not server.status().running


def test_all_processes_agree_on_one_secret_key(tmp_path):
    script = "import sys; from pathlib import Path; from backupsched.places import secret_key; "
    script += "sys.stdout.write(secret_key(Path(sys.argv[1])))"
    [key] = set(together(sys.executable, "-c", script, str(tmp_path / "new")))
    assert len(key) > 40
    assert stat.S_IMODE((tmp_path / "new" / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["secret_key"]
