"""Upgrades that happen under a worker: of the database, and of its host."""

import logging

from django.db.migrations.recorder import MigrationRecorder

from jobs import schema_check

log = logging.getLogger(__name__)


class UpgradeWatch:
    """Finds that a worker is outdated. It goes on with tables that a newer version has expanded, and ends where they
    are too new for it, and where another version is installed on its host by then: it would load modules of both.

    For the latter it compares the names of files. To import the migrations of another version may fail.
    """

    def __init__(self) -> None:
        self._installed = schema_check.names_here()
        self._latest: int | None = None
        self._may_be_upgraded = False
        """The database is ahead of this worker: its host follows sooner or later, without a further migration."""

    def begin(self) -> None:
        """Must be called once the tables have been found to be usable. Raises: django.db.Error."""
        self._may_be_upgraded = self._is_another_installed() or bool(schema_check.differences().ahead)
        self._latest = _last_migration()

    def found(self) -> str:
        """The upgrade since `begin` that makes the worker outdated, in words; empty if there was none. Logs it when the
        database gets ahead. One query, unless there was a migration. Raises: django.db.Error.
        """
        if self._latest is None:
            return ""
        latest = _last_migration()
        is_migrated = latest != self._latest
        if (is_migrated or self._may_be_upgraded) and self._is_another_installed():
            return "another version was installed on this host"
        if is_migrated:
            ahead = schema_check.differences().ahead
            if not ahead:
                return "the database was migrated"
            self._latest, self._may_be_upgraded = latest, True
            log.warning("%s; this worker continues, and can until its host is upgraded", ahead)
        return ""

    def _is_another_installed(self) -> bool:
        return schema_check.names_here() != self._installed


def _last_migration() -> int:
    return int(MigrationRecorder.Migration.objects.latest("pk").pk)
