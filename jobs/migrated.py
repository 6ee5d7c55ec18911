"""A comparison of the tables with this version. A worker refuses to start if they differ; the doctor shows it."""

from dataclasses import dataclass
from pathlib import Path

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from external.formatting import several, some_of
from jobs.conf import PROGRAM


@dataclass(frozen=True)
class Differences:
    """Names of migrations: those that are `missing` in the database, and those of the database that are
    `unknown` here.
    """

    missing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def what(self) -> str:
        """The differences in a sentence; empty if there are none."""
        if self.unknown:
            count = several(len(self.unknown), "migration")
            return f"the database has {count} of a newer version: {some_of(self.unknown, between='; ')}"
        count = several(len(self.missing), "migration")
        return f"the database lacks {count}: {some_of(self.missing, between='; ')}" if self.missing else ""

    @property
    def to_do(self) -> str:
        """The remedy."""
        if self.unknown:
            return "install here the version that migrated it, then start again"
        return f"stop the workers, {PROGRAM} migrate, start them again"


def differences() -> Differences:
    """Ask the database. Raises: django.db.Error.

    Where the names are the same on both sides, no migration is loaded: that takes a tenth of a second.
    """
    if _names_here() == MigrationRecorder(connection).applied_migrations().keys():
        return Differences((), ())
    executor = MigrationExecutor(connection)
    loader = executor.loader
    everything = executor.migration_plan(loader.graph.leaf_nodes(), clean_start=True)
    applied = loader.applied_migrations  # one may be missing behind a later one
    missing = [each for each, _ in everything if (each.app_label, each.name) not in applied]
    known = set(loader.disk_migrations).union(*(each.replaces for each in loader.disk_migrations.values()))
    unknown = [each for each in loader.applied_migrations if each[0] in loader.migrated_apps and each not in known]
    return Differences(
        tuple(f"{each.app_label} {each.name}" for each in missing), tuple(f"{app} {name}" for app, name in unknown)
    )


def _names_here() -> set[tuple[str, str]]:
    """App and name of each migration that is installed here."""
    return {
        (app.label, file.stem)
        for app in apps.get_app_configs()
        for file in Path(app.path, "migrations").glob("*.py")
        if file.stem[0] not in "_~"
    }
