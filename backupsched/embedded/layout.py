"""Places of the embedded server's files. Computes paths; writes nothing.

    <home>/data        the database cluster, 0700, of the user that runs the server
    <home>/run         its socket, 0700 likewise
    <home>/password    of the database user, 0600, of the user that runs the project
    <home>/server.log  <home>/lock

PostgreSQL refuses to run as root; a root user's server runs as `postgres` or `nobody`. If that user cannot reach the
var directory (below a 0700 home), no directory is opened to it: the files are in /var/lib/backupsched instead, and
`<var>/postgres` points there.
"""

import hashlib
import os
import pwd
import stat
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

DATABASE = USER = "backupsched"
PORT = 5432
"""Only names the socket: the server listens on no network address."""

OTHERWISE = "or set DATABASE_URL to a PostgreSQL of your own."
SHARED_HOME = Path("/var/lib/backupsched")
LONGEST_SOCKET_DIRECTORY = 80
"""A socket's path has 107 bytes at most, `/.s.PGSQL.5432.lock` included."""


class EmbeddedDatabaseError(ImproperlyConfigured):
    """The embedded PostgreSQL cannot be used. The message names the problem, the place, and the remedy."""


class EmbeddedDatabaseAway(EmbeddedDatabaseError):
    """It does not start now: its disk is full, its files cannot be written, or `pg_ctl` failed. That may pass."""


class Layout:
    """The paths of the server that belongs to `var_dir`."""

    def __init__(self, var_dir: Path) -> None:
        self.var_dir = var_dir.resolve()

    @cached_property
    def account(self) -> pwd.struct_passwd | None:
        """The user that the server runs as; None for the present one. Raises: EmbeddedDatabaseError."""
        if os.geteuid() != 0:
            return None
        if found := _first_of("postgres", "nobody"):
            return found
        raise EmbeddedDatabaseError(
            "PostgreSQL refuses to run as root, and this system has neither a user postgres nor nobody. "
            "Add one (`useradd --system postgres`), or run as an ordinary user, or set DATABASE_URL."
        )

    @cached_property
    def scratch_account(self) -> pwd.struct_passwd | None:
        """The user that loads files from a repository, and that a drill's server runs as: neither the owner of the
        embedded server's files, nor the user of a server on this host. None stands for the present user. Raises:
        EmbeddedDatabaseError.
        """
        if os.geteuid() != 0:
            return None
        embedded, names = _first_of("postgres", "nobody"), ("backupsched-drill", "nobody", "daemon", "bin")
        if found := next((each for name in names if (each := _first_of(name)) and each != embedded), None):
            return found
        raise EmbeddedDatabaseError(
            "no dump is loaded as root, nor as the user of the embedded PostgreSQL, and this system has none of the "
            f"users {', '.join(names)}. Add one: `useradd --system {names[0]}`."
        )

    @cached_property
    def home(self) -> Path:
        """The directory of everything: `<var>/postgres` or the target of that link, once it was made."""
        known = self.var_dir / "postgres"
        if known.is_dir() and known.stat().st_uid == os.geteuid():
            return known.resolve()
        if self.account is None or reachable(self.var_dir, self.account.pw_uid):
            return self.var_dir / "postgres"
        return SHARED_HOME / self._digest

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def upgraded(self) -> Path:
        """The data of a newer major version, whole, until they take the place of `data`."""
        return self.home / "data.upgraded"

    @cached_property
    def socket_directory(self) -> Path:
        """The directory of the socket: in the home, or a short one if that path would be too long, or has a comma."""
        usual = self.home / "run"
        if len(os.fsencode(usual)) <= LONGEST_SOCKET_DIRECTORY and "," not in str(usual):  # else it would be two
            return usual
        return Path("/tmp") / f"backupsched-{os.geteuid()}-{self._digest}"  # noqa: S108 - ownership is verified

    @property
    def socket_in_use(self) -> Path | None:
        """The directory of the socket that the server was started with; None if its data do not contain it."""
        try:
            written = (self.data / "postmaster.pid").read_text().split("\n")[4]
        except (OSError, IndexError):
            return None
        return Path(written).resolve() if written else None

    @property
    def password_file(self) -> Path:
        return self.home / "password"

    @property
    def log_file(self) -> Path:
        return self.home / "server.log"

    @property
    def lock_file(self) -> Path:
        return self.home / "lock"

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(os.fsencode(self.var_dir)).hexdigest()[:12]


def _first_of(*names: str) -> pwd.struct_passwd | None:
    for name in names:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    return None


def reachable(path: Path, uid: int) -> bool:
    """True if an ordinary user may pass through `path` and its parents, as far as they exist."""
    for directory in (path, *path.parents):
        try:
            status = directory.stat()
        except FileNotFoundError:
            # this process's files are open to others according to its umask
            if _umask() & stat.S_IXOTH:
                return False
            continue
        except OSError:
            return False
        mine = status.st_uid == uid and status.st_mode & stat.S_IXUSR
        if not (mine or status.st_mode & stat.S_IXOTH):
            return False
    return True


def _umask() -> int:
    """This process's umask, which can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found
