"""One run of the demo: prepare, bring up the fleet and the services, watch, end everything that was started."""

import fcntl
import json
import secrets
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command

from demo import compare, fleet, processes, restores, services, shop
from demo.comings import Comings
from demo.errors import DemoError
from demo.hosts import Host, make_other_hosts, make_sftp_hosts, secrets_directory, write_secret
from demo.restores import Restored
from demo.summary import Summary, copy_of, refused_attempts, summarise, unprotected
from jobs.conf import PROGRAM
from sources.fleet import import_fleet
from sources.models import Backup
from sources.processes import programs

ADMIN = "admin"


@dataclass(frozen=True)
class Options:
    """The options of the command line. `timeout` in seconds."""

    hosts: int
    workers: int
    concurrency: int
    port: int
    timeout: float


class Session:
    """A demo from start to end. `say` prints one line for the person who watches."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self.home = Path(settings.VAR_DIR) / "demo"
        self.repository = self.home / "repository"
        self.hosts: list[Host] = []
        self.services: subprocess.Popen[bytes] | None = None
        self.started_database = False
        self.began = time.monotonic()
        self.comings = Comings([], "", say)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.options.port}/admin/"

    def prepare(self) -> None:
        """Database, account, hosts, fleet. Raises: DemoError and what the commands raise."""
        self._take_lock()
        self._start_database()
        call_command("migrate", verbosity=0)
        call_command("install_schedules", stdout=StringIO())
        self._make_admin()
        self.say("preparing the demo fleet")
        fleet.clear(self.home)
        self.home.mkdir(parents=True)
        self.repository.mkdir()
        count = self.options.hosts
        self.hosts = [
            *make_sftp_hosts(self.home / "hosts", count),
            *make_other_hosts(self.home / "hosts", count + 2),
        ]
        self.where = shop.place()
        shop.create(self.where, self._administration_database)
        secret = secrets_directory() / "shop"
        write_secret(secret, self.where.password or "")
        description = fleet.describe(self.hosts, self.where, secret, self.repository)
        fleet.save(description, self.home / "fleet.json")
        import_fleet(description, origin="the demo fleet")

    def start(self) -> None:
        """Bring up the hosts that are there from the start, and the services."""
        self.comings = Comings(self.hosts, self.url.removesuffix("admin/"), self.say)
        self.comings.look()
        self.say(f"starting web, qcluster and {self.options.workers} worker(s): {self.url}")
        self.services = services.start(
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

    @property
    def names(self) -> list[str]:
        """All sources of the demo."""
        return [*(host.name for host in self.hosts), "demo-shop-database"]

    @property
    def reachable(self) -> dict[str, bool]:
        """Source → whether it answers and lets us in, in the end."""
        return {**{host.name: host.reachable for host in self.hosts}, "demo-shop-database": True}

    def missing(self) -> list[str]:
        """What has to happen yet before the run is complete: names of sources."""
        wanted = {name for name, reachable in self.reachable.items() if reachable}
        refused = [host.name for host in self.hosts if not host.reachable and not refused_attempts(host.name)]
        return unprotected(wanted) + refused

    def summary(self) -> Summary:
        """Compare every copy with its original and describe the run."""
        restored = [] if self.missing() else self._restore()
        return summarise(self.reachable, self._identical, restored, time.monotonic() - self.began)

    def _restore(self) -> list[Restored]:
        self.say("changing a file, and bringing it back as it was before; then the whole database")
        host = next(host for host in self.hosts if host.name == fleet.ENCRYPTED_SOURCE)
        home = self.home / "restored"
        return [
            restores.file_before_its_change(host, home / host.name, self.look),
            restores.whole_database("demo-shop-database", home / "database", self._database_differences),
        ]

    def _database_differences(self, dump: Path) -> list[str]:
        pg_restore = Path(programs.find_postgresql_program("pg_restore"))
        return compare.database_differences(dump, self.where, self._administration_database, pg_restore)

    def stop(self, *, force: bool = False) -> None:
        """End everything that this run started, and nothing else."""
        if self.services is not None:
            if force:
                # the keeper goes on by itself: it is not waited for, and nothing is left running
                self.services.terminate()
            else:
                processes.end([self.services])
        self.comings.end()
        if self.started_database:
            call_command("database", "stop", stdout=StringIO())

    @property
    def _administration_database(self) -> str:
        return str(settings.DATABASES["default"]["NAME"])

    def _take_lock(self) -> None:
        """One demo at a time in a var directory: a second would delete what the first one uses."""
        var_dir = Path(settings.VAR_DIR)
        var_dir.mkdir(parents=True, exist_ok=True)
        self._lock = (var_dir / "demo.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demo runs in {var_dir}; end it, or name another BACKUPSCHED_VAR") from None

    def _start_database(self) -> None:
        if "EMBEDDED_IN" in settings.DATABASES["default"]:
            output = StringIO()
            call_command("database", "start", "--json", stdout=output)
            self.started_database = json.loads(output.getvalue())["changed"]

    def _make_admin(self) -> None:
        users = get_user_model().objects
        if users.filter(is_superuser=True).exists():
            self.say(f"the admin account exists already ({self.url}); `{PROGRAM} changepassword` sets a new password")
            return
        password = secrets.token_urlsafe(12)
        users.create_superuser(ADMIN, "", password)
        self.say(f"admin account: {ADMIN}, password {password} (shown only now)")

    def _identical(self, name: str, backup: Backup) -> bool:
        if name == "demo-shop-database":
            found = self._database_differences(copy_of(backup))
        else:
            host = next(host for host in self.hosts if host.name == name)
            original = host.files / host.path if host.kind == "s3" else host.files
            is_encrypted = backup.repository.encrypted
            copy = restores.newest(backup.assignment, self.home / "compared") if is_encrypted else copy_of(backup)
            found = compare.differences(original, copy)
        for difference in found[:5]:
            self.say(f"{name}: {difference}")
        return not found
