"""The day's record of the kind `self_backup`: dump the database, pack it with keys and settings, seal it, put it into
the repository, remove the archives that are older than the last fourteen.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now
from psycopg.conninfo import conninfo_to_dict

from backups import locations
from backups.repository_state import note_made
from backups.self_backup import archive
from external.processes import runner
from external.processes.programs import ProgramMissing, find_postgresql_program
from external.processes.runner import Command, EndReason, StopSignal
from jobs import backlog, decisions
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from jobs.handlers import Run
from jobs.outcomes import Cancelled, ClaimedRecord, Failed, Outcome, Released, Succeeded
from sealing.encryption import seal, unseal
from sealing.references import referring
from sources.models import RecoveryKey, Repository, SelfBackup
from sources.models.repository import Format
from sources.planning import names
from storage import layout
from storage.folders.scratch import scratch_in
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.recover import instructions

KIND = names.SELF_BACKUP
KEEP = 14
BY_FILE = "file:"
ENVIRONMENT = ("BACKUPSCHED_", "BACKUP_SECRET_")
OTHERS = ("DATABASE_URL", "SECRET_KEY_FALLBACKS", "ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "LOG_LEVEL", "TZ")
LEFT_OUT = ("django_session", "sources_progress")
"""Tables whose rows mean nothing on another machine."""


@dataclass(frozen=True)
class DayArchive:
    """A day's archive: its place and its bytes."""

    file: str
    size: int


def plan_for_today(now: datetime | None = None) -> int:
    """Put today's record on the backlog, once, as soon as there is a repository; also if none may be used, or the named
    one is missing, so that it fails visibly. Returns the number of new records."""
    if settings.SELF_BACKUP_TO == "none":
        return 0
    day, repository = (now or database_clock()).date(), chosen_repository()
    if SelfBackup.objects.filter(day=day).exists():
        return 0
    if not (repository or settings.SELF_BACKUP_TO or Repository.objects.exists()):
        return 0
    with transaction.atomic():
        _, is_new = SelfBackup.objects.get_or_create(day=day, defaults={"repository": repository})
        return backlog.enqueue(KIND, [(day.isoformat(), {"title": "the scheduler itself"})]) if is_new else 0


def chosen_repository() -> Repository | None:
    """The repository that `BACKUPSCHED_SELF_BACKUP_TO` names; by default the oldest one. Only one whose name and place
    were given by a superuser, or by a user who runs commands on the host: an account that edits repositories would get
    the scheduler's backups, and could keep back the newest one.
    """
    name = settings.SELF_BACKUP_TO
    named = {"name": name} if name else {}
    return Repository.objects.filter(by_superuser=True, **named).order_by("id").first()


def self_backup(run: Run) -> Outcome:
    """Back up the scheduler. Blocks for as long as that takes."""
    repository = chosen_repository()
    if repository is None and (name := settings.SELF_BACKUP_TO) and not Repository.objects.filter(name=name).exists():
        return Failed(f"there is no repository {name}, which BACKUPSCHED_SELF_BACKUP_TO names: {NAME_ANOTHER}")
    if repository is None and Repository.objects.exists():
        return Failed(NOT_BY_SUPERUSER)
    if repository is None:
        return Cancelled("there is no repository that could hold it")
    try:
        locations.check_tried(repository)
        location = locations.location_of(repository)
        if not location.keeps_files:
            return Failed(f"{repository} is a REST server of restic, which takes restic's files only: {NAME_ANOTHER}")
        made = repository.made_at is not None
        if is_plain := made or repository.format == Format.RCLONE:  # restic's is made by its first backup
            instructions.keep_current(Store(location, run.stop), locations.identity_of(repository), made=made)
        with scratch_in(Path(settings.VAR_DIR)) as scratch:
            outcome = Succeeded(_back_up(scratch, Store(location.bare, run.stop), run))
        if is_plain:
            note_made(repository)
        return outcome
    except StorageStopped:
        return Released()
    except (StorageFailed, ProgramMissing, OSError, DumpFailed) as error:
        return Failed(f"the scheduler cannot be backed up into {repository}: {error}")


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the archive that a settled record has made. Runs in the settle's transaction."""
    match outcome:
        case Succeeded(result=DayArchive(file, size)):
            SelfBackup.objects.filter(day=record.subject).update(ended_at=now, file=file, size=size)
            decisions.log("succeeded", f"the scheduler itself is backed up: {file}", record=record, now=now)
        case Failed(error):
            decisions.log("failed", error, record=record, now=now)


def recovery_key() -> RecoveryKey:
    """This installation's key, made at the first call."""
    if (found := RecoveryKey.objects.first()) is None:
        made = archive.make_key()
        found, _ = RecoveryKey.objects.get_or_create(
            pk=1,
            defaults={
                "recipient": made.recipient,
                "age_identity": made.age_identity.decode(),
                "sealed_passphrase": seal(made.passphrase),
            },
        )
    return found


def print_passphrase() -> str:
    """The passphrase, for paper. Raises: Unsealable."""
    key = recovery_key()
    passphrase = unseal(key.sealed_passphrase)
    RecoveryKey.objects.filter(pk=key.pk).update(printed_at=Now())
    return passphrase


NAME_ANOTHER = "name another repository in BACKUPSCHED_SELF_BACKUP_TO"
NOT_BY_SUPERUSER = (
    "the scheduler is not backed up into a repository whose name or place was set by an account that is not a "
    f"superuser: let a superuser add or rename one for it, or add one on the host (`{PROGRAM} repositories "
    f"add`), and {NAME_ANOTHER}"
)


class DumpFailed(Exception):
    """pg_dump failed; the message is its last line."""


def _back_up(scratch: Path, store: Store, run: Run) -> DayArchive:
    key = recovery_key()
    _keep_key(key, scratch / archive.KEY, store)
    dump_database(scratch / archive.DATABASE, run.stop)
    sealed = archive.pack(scratch, _about(), _files(scratch), key.recipient)
    names = archive.names_among(store.names(archive.FOLDER))
    made = layout.name_of(run.record.started_at, names)  # the last one, also after a clock that was ahead
    file = f"{archive.FOLDER}/{made}{archive.ENDING}"
    store.put(sealed, file)
    store.delete(archive.FOLDER, [each + archive.ENDING for each in [*names, made][:-KEEP]])
    return DayArchive(file, sealed.stat().st_size)


def _keep_key(key: RecoveryKey, file: Path, store: Store) -> None:
    """Never over the key of another installation, without which nothing opens its archives. Raises: StorageFailed."""
    if not store.fetch(f"{archive.FOLDER}/{archive.KEY}", file):
        file.write_text(key.age_identity)
        store.put(file, f"{archive.FOLDER}/{archive.KEY}")
    elif file.read_text() != key.age_identity:
        raise StorageFailed(
            f"its folder {archive.FOLDER} holds the backups of another installation: bring that one back "
            f"({PROGRAM} database restore), or rename the folder, or {NAME_ANOTHER}"
        )


def dump_database(file: Path, stop: StopSignal) -> None:
    """Dump the scheduler's own database. Raises: DumpFailed, StorageStopped, ProgramMissing, OSError."""
    tables = [f"--exclude-table-data={name}" for name in LEFT_OUT]
    argv = (find_postgresql_program("pg_dump"), "--format=custom", "--no-owner", "--no-privileges", *tables)
    dump = Command((*argv, f"--file={file}"), connection_environment(), stall_timeout=3600.0)
    ended = runner.run(dump, stop=stop)
    if ended.ending is EndReason.STOPPED:
        raise StorageStopped
    if ended.exit_code != 0:
        raise DumpFailed(" ".join(ended.last_lines[-1:]) or f"pg_dump ended with code {ended.exit_code}")


def connection_environment() -> dict[str, str]:
    """libpq's variables for the database that Django is connected to."""
    connection.ensure_connection()
    info = connection.connection.info
    given = {"host": info.host, "port": str(info.port), "user": info.user, "dbname": info.dbname}
    given |= {"password": info.password} | {
        name: str(value) for name, value in conninfo_to_dict(info.dsn).items() if name.startswith("ssl")
    }
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE", "password": "PGPASSWORD"}
    return {names.get(name, f"PG{name.upper()}"): value for name, value in given.items() if value}


def _about() -> archive.About:
    from django.db.migrations.recorder import MigrationRecorder

    applied = MigrationRecorder(connection).applied_migrations()
    kept = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT) or name in OTHERS}
    return archive.About(
        made_at=database_clock().isoformat(),
        var=str(settings.VAR_DIR),
        migrations=sorted([app, name] for app, name in applied),
        environment=kept | {"SECRET_KEY": settings.SECRET_KEY},
    )


def _files(scratch: Path) -> list[Path]:
    """The files that hold passwords: those in `secrets` of the var directory, and those that any row refers to."""
    found = set[Path]()
    for model, field, *_ in referring:
        for value in model._default_manager.values_list(field, flat=True):
            held = value.values() if isinstance(value, dict) else [value]
            found |= {Path(each.removeprefix(BY_FILE)) for each in held if each.startswith(BY_FILE)}
    found.update((settings.VAR_DIR / "secrets").rglob("*"))
    return sorted(each for each in found if each.is_file() and os.access(each, os.R_OK))
