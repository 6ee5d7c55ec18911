"""Django's `migrate`, with a short limit for locks, one run at a time, and no change to tables of a newer version.

A statement that changes a table waits until each transaction that uses the table has ended, and later users of the
table, such as each claim, wait behind it. So it gives up after some seconds: nothing of its migration is kept, earlier
ones are, and `migrate` can be run again.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands.migrate import Command as MigrateCommand
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import Error, OperationalError

from audit import triggers
from external.durations import duration, span
from jobs import conf, schema_check
from jobs.clock import boot_seconds
from jobs.conf import PROGRAM
from jobs.database_errors import LOCK_NOT_HAD, code_of

LOCK_SECONDS = 5.0
AGAIN_SECONDS = 0.2
ALONE = "SELECT pg_try_advisory_lock(hashtext('migrate'), 0)"
ALONE_NO_LONGER = "SELECT pg_advisory_unlock(hashtext('migrate'), 0)"

HERE = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = current_schema()
"""
"""Names of all tables and views of the schema in which tables are made."""

# The start of a transaction is shown for this role's sessions, and to members of pg_read_all_stats for all.
OLDEST = """
SELECT pid, application_name, EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::float8
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
 ORDER BY xact_start
 LIMIT 1
"""


class Command(MigrateCommand):
    help = (
        f"{MigrateCommand.help} It may be run again at any time, and while workers and pages run. Exit codes: "
        "0; 1 where it waited for a lock in vain: run it again; 2 where the database is of a newer version "
        "that this one cannot work with."
    )
    _at = ""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--lock-timeout", type=duration(0.1, 3600), default=LOCK_SECONDS, metavar="DURATION",
            help="to wait for each lock before it gives up, so that statements behind it continue (5 s)",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        alias, seconds = options["database"], options["lock_timeout"]
        with _lock_waits(alias, seconds):
            _refuse_tables_of_others(alias)
            if self._is_older(**options):  # by now: it may have waited for a newer `migrate`
                return
            try:
                super().handle(*args, **options)
            except OperationalError as error:
                if code_of(error) != LOCK_NOT_HAD:
                    raise
                with suppress(Error):
                    triggers.install_after(alias)  # else the audit sees no change of these tables until it is run again
                raise CommandError(self._given_up(alias, seconds), returncode=1) from error

    def _is_older(self, *, database: str, app_label: str, migration_name: str, prune: bool, **_: Any) -> bool:
        """True if a newer version has migrated it. The steps after migrations would replace the newer triggers by this
        version's, even if no migration is applied. Raises: CommandError.
        """
        if database != DEFAULT_DB_ALIAS or prune:  # which removes the names of unknown migrations, and changes no table
            return False
        found = schema_check.differences()
        if found.needed:
            raise CommandError(f"{found.what}. What to do: {found.to_do}.", returncode=2)
        if found.ahead and app_label and migration_name:
            raise CommandError(f"{found.ahead}. What to do: change single migrations with that version.", returncode=2)
        if found.ahead:
            self.stdout.write(f"{found.ahead}; this version works with it, and nothing was migrated")
        return bool(found.ahead)

    def migration_progress_callback(self, action: str, migration: Any = None, fake: bool = False) -> None:
        if action in ("apply_start", "unapply_start"):
            self._at = f" at {migration}"
        super().migration_progress_callback(action, migration, fake)

    def _given_up(self, alias: str, seconds: float) -> str:
        holder = ""
        with suppress(Error), connections[alias].cursor() as cursor:
            cursor.execute(OLDEST)
            if row := cursor.fetchone():
                name = f" ({row[1]})" if row[1] else ""
                holder = f"; the oldest transaction is that of process {row[0]}{name}, {span(row[2])} old"
        return (
            f"waited {span(seconds)} for a lock and gave up{self._at}{holder}. What was migrated before is kept: run "
            f"`{PROGRAM} migrate` again"
        )


def _refuse_tables_of_others(alias: str) -> None:
    """Raises: CommandError, before anything is made, in another program's database: one of another Django project, or
    with a table that has the name of one of ours, in our place. Other schemas may have any tables.
    """
    connection = connections[alias]
    recorder = MigrationRecorder(connection)
    if recorder.has_table():
        applied = {app for app, _ in recorder.applied_migrations()}
        found = set() if "jobs" in applied else applied - {app.label for app in apps.get_app_configs()}
    else:
        with connection.cursor() as cursor:
            cursor.execute(HERE)
            found = {name for (name,) in cursor} & set(connection.introspection.django_table_names())
    if found:
        raise CommandError(
            f"this database belongs to another program: it has {min(found)}. Nothing was changed. Make a separate one "
            "(CREATE DATABASE …), and name that",
            returncode=2,
        )


@contextmanager
def _lock_waits(alias: str, seconds: float) -> Iterator[None]:
    """Limit how long the connection waits for a lock, and let no other `migrate` run at the same time. Does nothing in
    an installation that polls: a pooler would hand both to other programs; its role has a separate limit.

    Raises: CommandError if another one works for longer than `seconds`.
    """
    if not conf.listens():
        yield
        return
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        before = cursor.fetchone()[0]
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{seconds * 1000:.0f}ms"])
    try:
        _be_alone(alias, seconds)
        yield
    finally:
        with suppress(Error), connection.cursor() as cursor:  # of a connection that is lost both are gone
            cursor.execute(ALONE_NO_LONGER)
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


def _be_alone(alias: str, seconds: float) -> None:
    """Ask again and again: a statement that waits holds a snapshot, and an index that the other one builds concurrently
    waits for that. Raises: CommandError.
    """
    until = boot_seconds() + seconds
    with connections[alias].cursor() as cursor:
        while True:
            cursor.execute(ALONE)
            if cursor.fetchone()[0]:
                return
            if boot_seconds() >= until:
                break
            sleep(AGAIN_SECONDS)
    told = f"another `{PROGRAM} migrate` works on this database: wait until it has ended, then run this one again"
    raise CommandError(told, returncode=1)
