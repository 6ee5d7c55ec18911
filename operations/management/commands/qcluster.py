"""django-q2's command, which ends with a traceback where the database is away: this one waits for it, as workers do.

It also ends when its whole process group is asked to, as systemd and a terminal do.
"""

import logging
import os
import signal
import time
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.db import connections
from django.db.utils import Error
from django_q import cluster
from django_q.management.commands.qcluster import Command as ClusterCommand

from declarations.surfaces.commands.base import unanswered
from external.formatting import first_line
from jobs.database_errors import is_away
from jobs.management.commands.worker import is_migrated
from jobs.worker import outage

TRY_AGAIN_AFTER_SECONDS = 2.0
LOGGED_EVERY_SECONDS = 60.0


class Command(ClusterCommand):  # type: ignore[misc]
    help = (
        "Run the periodic tasks (tick, pruning, sweeps, digests) by the clock. One on one host is enough; without it "
        "workers do most of that. It waits for a database that is away. Exit code 2 where tables are not those of this "
        "version."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        while not _answers():
            time.sleep(TRY_AGAIN_AFTER_SECONDS)
        connections.close_all()  # its processes are forked
        logging.getLogger("django-q").addFilter(InOneLine())
        cluster.Sentinel = Guard
        try:
            super().handle(*args, **options)
        except RuntimeError as error:
            raise CommandError(f"{error}; its log above says why", returncode=1) from error


class Guard(cluster.Sentinel):  # type: ignore[misc]
    """The process that ends the others once the cluster's event says so. Ended by a signal while it waits for that
    event, it left the cluster in `Event.set` for ever, which waits for the waiter to wake."""

    def start(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # the processes that it forks end by it: so a task that takes too long is ended
        os.register_at_fork(after_in_child=partial(signal.signal, signal.SIGTERM, signal.SIG_DFL))
        super().start()


def _answers() -> bool:
    """Raises: CommandError when the tables are not those of this version, or the database refuses for good."""
    try:
        is_migrated()
    except Error as error:
        if not is_away(error):
            raise unanswered(error) from error
        outage.begins(error)
        return False
    outage.is_over()
    return True


class InOneLine(logging.Filter):
    """Of a database that is away while it runs: a line a minute in place of a traceback a second."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, Error) or not is_away(error):
            return True
        if time.monotonic() < self._logged_at + LOGGED_EVERY_SECONDS:
            return False
        self._logged_at = time.monotonic()
        reason = first_line(str(error))
        record.msg, record.args, record.exc_info = "waiting for the database: %s", (reason,), None
        return True
