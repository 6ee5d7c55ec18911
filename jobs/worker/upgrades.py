"""Upgrades that happen under a running process: of the database, and of its host."""

import logging

from django.db import Error, connection
from django.db.migrations.recorder import MigrationRecorder

from external.formatting import first_line
from jobs import schema_check
from jobs.database_errors import is_away

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 60.0
"""The time between two looks of a process without a minutely round."""

ANOTHER_INSTALLED = "another version was installed on this host"
OUTDATED = (
    "the database or this host was upgraded after this process started. What to do: start the newer version here."
)


class UpgradeWatch:
    """Finds that a process is outdated. It continues with tables that a newer version has expanded, and ends where they
    are too new for it, and where another version is installed on its host by then: it would load modules of both.

    For the latter it compares the names of files. Importing the migrations of another version may fail. `process`: its
    name in the log.
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self._installed = schema_check.names_here()
        self._latest: int | None = None
        self._may_be_upgraded = False
        """The database is ahead of this process: its host follows sooner or later, without a further migration."""

    def begin(self) -> None:
        """Must be called once the tables have been found to be usable. Raises: django.db.Error."""
        self._may_be_upgraded = self._is_another_installed() or bool(schema_check.differences().ahead)
        self._latest = _last_migration()

    def found(self) -> str:
        """The upgrade since `begin` that makes the process outdated, as text; empty if there was none. Logs that the
        database got ahead. One query, unless there was a migration. Raises: django.db.Error.
        """
        if self._latest is None:
            return ""
        latest = _last_migration()
        is_migrated = latest != self._latest
        if (is_migrated or self._may_be_upgraded) and self._is_another_installed():
            return ANOTHER_INSTALLED
        if is_migrated:
            ahead = schema_check.differences().ahead
            if not ahead:
                return "the database was migrated"
            self._latest, self._may_be_upgraded = latest, True
            log.warning("%s; %s continues, and can until its host is upgraded", ahead, self._process)
        return ""

    def look(self) -> str:
        """Look on a connection that is closed again. It begins by itself, once the tables are usable; a database that
        is down is left to the next look.
        """
        try:
            if self._latest is None:
                if self._is_another_installed():  # whose migrations this process may be unable to import
                    return ANOTHER_INSTALLED
                if schema_check.differences().what:
                    return ""
                self.begin()
            return self.found()
        except Error as error:
            if not is_away(error):
                log.warning("cannot look for an upgrade: %s", first_line(str(error)))
            return ""
        except Exception as error:
            log.warning("cannot look for an upgrade: %s: %s", type(error).__name__, first_line(str(error)))
            return ""
        finally:
            connection.close()

    def _is_another_installed(self) -> bool:
        return schema_check.names_here() != self._installed


def _last_migration() -> int:
    """Its number; 0 where a database was emptied."""
    latest = MigrationRecorder.Migration.objects.order_by("-pk").first()
    return int(latest.pk) if latest else 0
