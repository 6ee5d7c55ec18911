"""A comparison of the tables with this version. A worker refuses to start if they differ so that it cannot work; the
doctor shows it.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from django.apps import AppConfig, apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from external.formatting import several, some_of
from jobs import contractions
from jobs.conf import PROGRAM


@dataclass(frozen=True)
class Differences:
    """Names of migrations: those that are `missing` in the database, those of the database that are `unknown` here, and
    those that a program needs for the tables and that this one lacks (`needed`).
    """

    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The reason why this version cannot work with the tables, as a sentence; empty if it can."""
        if self.needed:
            names = some_of(self.needed, between="; ")
            return f"the database is of a newer version, with tables that this one cannot use (it has no {names})"
        count = several(len(self.missing), "migration")
        return f"the database lacks {count}: {some_of(self.missing, between='; ')}" if self.missing else ""

    @property
    def to_do(self) -> str:
        """The remedy."""
        if self.needed:
            return "install here the version that migrated it, then start again"
        return f"stop the workers, {PROGRAM} migrate, start them again"

    @property
    def ahead(self) -> str:
        """A sentence about a database of a newer version, which this one can use; otherwise empty."""
        if self.what or not self.unknown:
            return ""
        count = several(len(self.unknown), "migration")
        return f"the database has {count} of a newer version: {some_of(self.unknown, between='; ')}"


def differences() -> Differences:
    """Ask the database. Raises: django.db.Error.

    Where the names are the same on both sides, no migration is loaded: that takes a tenth of a second.
    """
    here, needs = names_here(), contractions.needs()
    if needs <= here and here == MigrationRecorder(connection).applied_migrations().keys():
        return Differences()
    executor = MigrationExecutor(connection)
    loader = executor.loader
    everything = executor.migration_plan(loader.graph.leaf_nodes(), clean_start=True)
    applied = loader.applied_migrations  # one may be missing behind a later one
    missing = [each for each, _ in everything if (each.app_label, each.name) not in applied]
    known = set(loader.disk_migrations).union(*(each.replaces for each in loader.disk_migrations.values()))
    unknown = [each for each in loader.applied_migrations if each[0] in loader.migrated_apps and each not in known]
    return Differences(
        tuple(f"{each.app_label} {each.name}" for each in missing),
        tuple(f"{app} {name}" for app, name in unknown),
        tuple(f"{app} {name}" for app, name in sorted(needs - known)),
    )


def newer_tables() -> str:
    """The reason, and what to do, if the tables are of a version too new for this one; empty if they are not. One
    query, unless tables have ever been contracted. Raises: django.db.Error.
    """
    if contractions.needs() <= names_here():
        return ""
    found = differences()
    return f"{found.what}. What to do: {found.to_do}." if found.needed else ""


def names_here() -> contractions.Names:
    """App and name of each migration that is installed here."""
    return frozenset(
        (app.label, file.stem)
        for app in apps.get_app_configs()
        for folder in _folders(app)
        for file in Path(folder).glob("*.py")
        if file.stem[0] not in "_~"
    )


def _folders(app: AppConfig) -> list[str]:
    """The folders with migrations of an app, which settings may have moved."""
    module, is_moved = MigrationLoader.migrations_module(app.label)
    if not is_moved:
        return [f"{app.path}/migrations"]
    found = module and find_spec(module)
    return list(found.submodule_search_locations or ()) if found else []
