"""Migrations that remove columns or tables that programs of an older version use.

Tables first expand, then contract: a migration adds what a new version needs, and the replaced parts are removed by a
migration of a later version, once the released version before no longer uses them. So a program works on the
tables of the next version, and workers of two versions share one backlog. A migration that removes something has an
attribute:

    contracts_after = ("sources", "0031_nothing_reads_snoozes")

*A program that has this migration does not use the removed parts.* An older program lacks it, and cannot read the newer
migration either. So the need is written into the comment of the table of migrations before the first of them runs; a
program that finds a migration there that it does not have refuses to work. A migration that fails half-way leaves the
need behind: programs refuse too early rather than too late.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connections
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader

Names = frozenset[tuple[str, str]]
"""App and name of migrations."""

PREFIX = "programs need: "
READ = "SELECT obj_description(to_regclass('django_migrations'), 'pg_class')"


def needs(using: str = "default") -> Names:
    """The migrations that a program must have to work with these tables. Raises: django.db.Error."""
    with connections[using].cursor() as cursor:
        cursor.execute(READ)
        comment = str(cursor.fetchone()[0] or "")
    if not comment.startswith(PREFIX):
        return frozenset()
    pairs = (name.partition(".") for name in comment.removeprefix(PREFIX).split())
    return frozenset((app, name) for app, _, name in pairs)


def note_before(using: str, plan: Sequence[tuple[Migration, bool]], **_: Any) -> None:
    """Write down the needs of migrations that are about to be applied."""
    _write(using, needs(using) | _of(migration for migration, backwards in plan if not backwards))


def note_after(using: str, **_: Any) -> None:
    """Record the needs of applied migrations; those of unapplied ones are removed."""
    loader = MigrationLoader(connections[using])
    applied = loader.applied_migrations
    wanted = _of(migration for name, migration in loader.disk_migrations.items() if name in applied)
    foreign = needs(using) - loader.disk_migrations.keys()  # of a newer version
    _write(using, wanted | foreign)


def _of(migrations: Iterable[Migration]) -> Names:
    return frozenset(tuple(after) for each in migrations if (after := getattr(each, "contracts_after", None)))


def _write(using: str, wanted: Names) -> None:
    if wanted == needs(using):
        return
    names = " ".join(sorted(f"{app}.{name}" for app, name in wanted))
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass('django_migrations') IS NOT NULL")
        if cursor.fetchone()[0]:
            comment = f"'{PREFIX}{names}'" if names else "NULL"
            cursor.execute(f"COMMENT ON TABLE django_migrations IS {comment}")
