"""The way from an empty machine to workers that continue: the newest archive of a repository, or that of a day.

Steps that can be done twice are done first: keys and files. The database comes back in one transaction, so a restore
that is cut off leaves an empty database, and begins again.
"""

import os
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from backups.self_backup import archive
from backups.self_backup.backing_up import connection_environment
from engines.restores import playing
from external.processes import runner
from external.processes.programs import find_postgresql_program
from external.processes.runner import Command
from storage import layout
from storage.folders.scratch import scratch_in
from storage.places.location import Location
from storage.places.rclone import ANY
from storage.points.store import Store

ENVIRONMENT_FILE = "restored.env"


class CannotRestore(Exception):
    """The restore cannot be done here. The message names the reason, and what to do; nothing was changed."""


@dataclass(frozen=True)
class RestoredArchive:
    """The result of a restore. `files`: written; `not_written`: path → why not; `differing`: names of variables that
    had other values when the archive was made.
    """

    archive: str
    made_at: str
    files: list[str]
    not_written: dict[str, str]
    differing: list[str]


def archives(location: Location) -> list[str]:
    """The names of the scheduler's backups there, oldest first. Raises: CannotRestore for none; StorageFailed."""
    if not (found := archive.names_among(_store(location).names(archive.FOLDER))):
        raise CannotRestore(
            f"there is no backup of the scheduler in {location.outside}: name the repository's own folder, which holds "
            f"a folder {archive.FOLDER}"
        )
    return found


def restore(location: Location, passphrase: str, at: str | None, report: Callable[[str], None]) -> RestoredArchive:
    """Bring the scheduler back into this installation, which must be empty. `at`: the name of a backup, for the last
    one up to that; None for the last one.

    Raises: ValueError for a name that is not one of a backup; CannotRestore, WrongPassphrase, TooSlow, ArchiveDamaged,
    StorageFailed, ProgramMissing, OSError.
    """
    _check_is_empty()
    name = chosen(archives(location), at)
    store = _store(location)
    with scratch_in(settings.VAR_DIR) as scratch:
        sealed, key = scratch / "archive.tar.age", scratch / archive.KEY
        if not store.fetch(f"{archive.FOLDER}/{archive.KEY}", key):
            raise CannotRestore(f"there is no {archive.FOLDER}/{archive.KEY} in {location.outside}")
        identity = archive.open_key(key.read_bytes(), passphrase)
        report(f"fetching {name}")
        store.fetch(f"{archive.FOLDER}/{name}{archive.ENDING}", sealed, ANY)  # the operator waits for it
        with archive.opened(sealed, identity) as (about, tar):
            _check_version(about)
            files, not_written = _write_files(tar, about)
            differing = _write_what_differs(about)
            report("restoring the database")
            _restore_database(tar, scratch)
    return RestoredArchive(name, about.made_at, files, not_written, differing)


def _store(location: Location) -> Store:
    return Store(location.bare, Event())


def _check_is_empty() -> None:
    if connection.introspection.table_names():
        raise CannotRestore(
            "this installation is not empty: its database has tables. Restore on a new machine, or point "
            "BACKUPSCHED_VAR to an empty directory and DATABASE_URL, if it is set, to an empty database"
        )


def chosen(names: list[str], at: str | None) -> str:
    """Raises: ValueError, CannotRestore."""
    fitting = [name for name in names if at is None or layout.order_of(name) <= layout.order_of(at)]
    if not fitting:
        first = layout.instant_of(names[0])
        raise CannotRestore(f"the first backup of the scheduler there is of {first:%Y-%m-%d %H:%M} UTC")
    return fitting[-1]


def _check_version(about: archive.About) -> None:
    known = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    unknown = [f"{app}.{name}" for app, name in about.migrations if (app, name) not in known]
    if unknown:
        raise CannotRestore(
            f"it was made by a newer version ({', '.join(unknown[:3])}): install that version, then restore"
        )


def _write_files(tar: tarfile.TarFile, about: archive.About) -> tuple[list[str], dict[str, str]]:
    """Write the secret key, and the files with passwords to their places; those of the var directory into this one."""
    written, not_written = [], {}
    key = settings.VAR_DIR / "secret_key"
    if key.exists():  # made by this start, or of an installation whose database is gone
        key.replace(key.with_name("secret_key.before"))
    _write(key, about.environment["SECRET_KEY"].encode())
    for member in tar.getmembers():
        if not member.isfile() or not member.name.startswith(f"{archive.FILES}/"):
            continue
        path = Path(member.name.removeprefix(archive.FILES))
        if path.is_relative_to(about.var):
            path = settings.VAR_DIR / path.relative_to(about.var)
        content = tar.extractfile(member)
        try:
            if ".." in path.parts:
                raise PermissionError(1, "it leads out of its folder")
            if path.exists():
                raise FileExistsError(17, "there is one already, which was kept")
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, content.read() if content else b"")
            written.append(str(path))
        except OSError as error:
            not_written[str(path)] = str(error.strerror)
    return written, not_written


def _write_what_differs(about: archive.About) -> list[str]:
    """Write the variables that are missing or differ here into a file for the operator to read. Returns their names."""
    here = dict(os.environ)
    if not here.get("SECRET_KEY"):  # the one in its file counts
        here["SECRET_KEY"] = about.environment["SECRET_KEY"]
    differing = sorted(name for name, value in about.environment.items() if here.get(name) != value)
    if differing:
        lines = [f"{name}={about.environment[name]}\n" for name in differing]
        _write(settings.VAR_DIR / ENVIRONMENT_FILE, "".join(lines).encode())
    return differing


def _write(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as draft:  # mode 0600
        draft.write(content)
    Path(draft.name).replace(path)


def _restore_database(tar: tarfile.TarFile, scratch: Path) -> None:
    tar.extract(archive.DATABASE, scratch, filter="data")
    environment = connection_environment()
    read = (find_postgresql_program("pg_restore"), "--no-owner", "--no-privileges", str(scratch / archive.DATABASE))
    play = (find_postgresql_program("psql"), f"--dbname={environment['PGDATABASE']}")
    restore = Command(playing.command(read, play), environment, stall_timeout=float("inf"))
    ended = runner.run(restore, stop=Event())
    if ended.exit_code != 0:
        raise CannotRestore(
            f"the database could not be restored, and is empty as before: {' '.join(ended.last_lines[-3:])}"
        )
