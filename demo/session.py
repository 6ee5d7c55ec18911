"""One run of the demo: prepare, bring up the fleet and the services, watch, end everything that was started."""

import fcntl
import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from demo import fleet, processes, restores, shop
from demo.comings import Comings
from demo.history import History
from demo.hosts import LARGE, Host, make_large_host, make_other_hosts, make_sftp_hosts, secrets_directory, write_secret
from demo.life import Life
from demo.processes import DemoError
from demo.restores import DemoRestore
from demo.summary import Summary, copy_of, differences, refused_attempts, summarise, unprotected
from external.processes import programs
from fleet.files.apply import apply_fleet
from sources.models import Backup

ADMIN = "admin"


@dataclass(frozen=True)
class Options:
    """The options of the command line. `timeout` in seconds. `runs_on`: until it is ended, with days that went before
    and a fleet that comes and goes; else each source is backed up once."""

    hosts: int
    workers: int
    concurrency: int
    port: int
    timeout: float
    runs_on: bool


class Session:
    """A demo from start to end. `say` prints one line for the user."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self.home = Path(settings.VAR_DIR)
        self.machines = self.home.with_name("demo-hosts")  # nothing is restored among the scheduler's own files
        self.repository = self.home / "repository"
        self.hosts: list[Host] = []
        self.services: subprocess.Popen[bytes] | None = None
        self.login = ""
        self.lock: int | None = None
        self.began = time.monotonic()
        self.comings = Comings([], "", say)
        self.history = History(timezone.now())
        self.life: Life | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.options.port}/"

    def prepare(self) -> None:
        """Make database, account, hosts and fleet. Raises: DemoError and the exceptions of commands."""
        self._take_lock()
        self._make_home()
        call_command("migrate", verbosity=0)
        call_command("qcluster", "install", stdout=StringIO())
        self._make_admin()
        self.say("preparing the demo fleet")
        count = self.options.hosts
        self.hosts = [
            *make_sftp_hosts(self.machines, count),
            *make_other_hosts(self.machines, count + 2),
        ]
        if self.options.runs_on:
            self.hosts.append(make_large_host(self.machines, count + 4))
        self.where = shop.place()
        shop.create(self.where)
        secret = secrets_directory() / "shop"
        write_secret(secret, self.where.password or "")
        description = fleet.describe(self.hosts, self.where, secret, self.repository)
        (self.home / "fleet.json").write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n", "utf-8")
        apply_fleet(description, origin="the demo fleet")

    def start(self) -> None:
        """Bring up the hosts that are there from the start, and the services."""
        self.comings = Comings(self.hosts, self.url, self.say)
        self.comings.look()
        self.say(f"starting web, qcluster and {self.options.workers} worker(s): {self.url}, {self.login}")
        self.services = processes.start_services(
            self.home,
            workers=self.options.workers,
            concurrency=self.options.concurrency,
            port=self.options.port,
        )

    def look(self) -> None:
        """Bring up, and take away, the hosts whose time has come. Raises: DemoError when something ended by itself."""
        self.comings.look()
        if self.services is not None and self.services.poll() is not None:
            raise DemoError(f"a service ended by itself: see {self.home / 'services.log'}")
        if self.options.runs_on:
            self._keep_running()

    def _keep_running(self) -> None:
        self.history.look()
        missing = self.missing()
        if not missing:
            self.history.forget_backups()
        if self.life is None and missing in ([], [LARGE]):
            self.life = Life(self.comings)
        if self.life is not None:
            self.life.look()

    @property
    def reachable(self) -> dict[str, bool]:
        """Source → whether it answers and lets us in, in the end."""
        return {**{host.name: host.reachable for host in self.hosts}, "demo-shop-database": True}

    def missing(self) -> list[str]:
        """The names of sources that the run still waits for."""
        wanted = {name for name, reachable in self.reachable.items() if reachable}
        refused = [host.name for host in self.hosts if not host.reachable and not refused_attempts(host.name)]
        return unprotected(wanted) + refused

    def summary(self) -> Summary:
        """Compare every copy with its original and describe the run."""
        restored = [] if self.missing() else self._restore()
        return summarise(self.reachable, self._identical, restored, time.monotonic() - self.began)

    def _restore(self) -> list[DemoRestore]:
        self.say("changing a file, and bringing it back as it was before; then the whole database")
        host = next(host for host in self.hosts if host.name == fleet.ENCRYPTED_SOURCE)
        home = self.home / "restored"
        return [
            restores.file_before_its_change(host, home / host.name, self.look),
            restores.whole_database("demo-shop-database", home / "database", self._database_differences),
        ]

    def _database_differences(self, dump: Path) -> list[str]:
        pg_restore = Path(programs.find_postgresql_program("pg_restore"))
        return shop.differences(dump, self.where, pg_restore)

    def stop(self, *, force: bool = False) -> None:
        """End everything that this run started, and nothing else."""
        if self.services is not None:
            if force:
                # the keeper continues by itself: it is not waited for, and leaves nothing running
                self.services.terminate()
            else:
                processes.end([self.services])
        self.comings.end()
        if self.lock is not None:
            self._stop_database()

    def clear(self) -> None:
        """Delete all that a demo wrote, its database too."""
        facts = self._stop_database()
        for path in (Path(facts["data"]).parent, Path(facts["socket_directory"]), self.home, self.machines):
            shutil.rmtree(path, ignore_errors=True)

    def _stop_database(self) -> dict[str, Any]:
        connection.close()
        output = StringIO()
        call_command("database", "stop", "--json", stdout=output)
        facts: dict[str, Any] = json.loads(output.getvalue())
        return facts

    def _make_home(self) -> None:
        """The environment, with this process's secret key: its children read it there."""
        self.clear()
        self.home.mkdir()
        (key := self.home / "secret_key").touch(mode=0o600)
        key.write_text(settings.SECRET_KEY)
        self.repository.mkdir()

    def _take_lock(self) -> None:
        """Allow one demo at a time in a var directory: a second would delete the files of the first one."""
        if self.home.name != "demo":
            raise DemoError("the demo needs a separate directory: start it by its command")
        folder = os.open(self.home.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = self.home.parent
            raise DemoError(f"another demo runs in {where}; end it, or name another BACKUPSCHED_VAR") from None
        self.lock = folder

    def _make_admin(self) -> None:
        password = secrets.token_urlsafe(12)
        get_user_model().objects.create_superuser(ADMIN, "", password)
        self.login = f"log in as {ADMIN} with the password {password}"

    def _identical(self, name: str, backup: Backup) -> bool:
        if name == "demo-shop-database":
            found = self._database_differences(copy_of(backup))
        else:
            host = next(host for host in self.hosts if host.name == name)
            original = host.files / host.path if host.kind == "s3" else host.files
            found = differences(original, restores.newest(backup.assignment, self.home / "compared"))
        for difference in found[:5]:
            self.say(f"{name}: {difference}")
        return not found
