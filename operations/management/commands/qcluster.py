"""The command of django-q2, which ends with a traceback if the database is away: this one waits for it, as workers do.

It also ends when its whole process group is asked to, as systemd and a terminal do, and when it is outdated.
"""

import json
import logging
import multiprocessing
import os
import signal
import time
from argparse import ArgumentParser
from dataclasses import asdict
from datetime import datetime
from functools import partial
from multiprocessing.util import register_after_fork
from typing import Any

from django.core.management.base import CommandError
from django.db import connections
from django.db.utils import Error
from django_q import cluster
from django_q.management.commands.qcluster import Command as ClusterCommand

from declarations.surfaces.commands.base import unanswered
from external.formatting import first_line, moment
from external.processes.parents import die_with_parent
from jobs.database_errors import is_away
from jobs.management.commands.worker import is_migrated
from jobs.worker import outage, upgrades
from operations.task_installation import install

log = logging.getLogger(__name__)

TRY_AGAIN_AFTER_SECONDS = 2.0
LOGGED_EVERY_SECONDS = 60.0


class Command(ClusterCommand):  # type: ignore[misc]
    help = (
        "Run the periodic tasks (tick, pruning, sweeps, backups at risk, digests) by the clock. One on one host is "
        "enough; without it workers do most of that. It waits for a database that is away. Exit codes: 0 when it was "
        "asked to end; 1 when its processes do not start; 2 where it cannot work with the tables or the database "
        "refuses it, and when it ends by itself, as this host was upgraded or the tables became too new for it. "
        "install: make its table hold these tasks: the tick, every minute; pruning, every hour; the six sweeps of the "
        "progressive schedule, on their grid; the list of backups at risk, every quarter of an hour; digests of "
        "alerts, hourly. It lists what it installs, changes (field: before → after) and leaves. Run it again after "
        "each upgrade: what is right stays as it is. "
        "An operator's changes of these rows are put back, so do not tune them there; rows that an operator added are "
        "left alone. Exit codes of that: 0, 2 when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("verb", nargs="?", choices=("install",), help="install: put the tasks into its table")
        parser.add_argument("--dry-run", action="store_true", help="of install: list the steps, and change nothing")
        parser.add_argument(
            "--json", action="store_true", help="of install: print {dry_run, tasks: [{name, action, changes}]}"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"]:
            self._install(options)
            return
        if options["dry_run"] or options["json"]:
            raise CommandError("--dry-run and --json are of `qcluster install`", returncode=2)
        while not _answers():
            time.sleep(TRY_AGAIN_AFTER_SECONDS)
        watch = upgrades.UpgradeWatch("this qcluster")
        watch.look()
        connections.close_all()  # its processes are forked
        logging.getLogger("django-q").addFilter(InOneLine())
        cluster.Sentinel = ClusterGuard
        try:
            super().handle(*args, **options)
        except RuntimeError as error:
            raise CommandError(f"{error}; its log above has the reason", returncode=1) from error
        _run_until_outdated(watch)

    def _install(self, options: dict[str, Any]) -> None:
        try:
            steps = install(dry_run=options["dry_run"])
        except Error as error:
            raise unanswered(error, "nothing was installed: ") from error
        if options["json"]:
            facts = {"dry_run": options["dry_run"], "tasks": [asdict(step) for step in steps]}
            self.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False, default=str))
            return
        for step in steps:
            self.stdout.write(f"{step.action:<9}  {step.name}")
            for name, (before, after) in step.changes.items():
                self.stdout.write(f"             {name}: {_describe(before)} → {_describe(after)}")
        if options["dry_run"]:
            self.stdout.write("Nothing was changed (--dry-run).")


class ClusterGuard(cluster.Sentinel):  # type: ignore[misc]
    """The process that ends the others once the cluster's event is set. Ended by a signal while it waited for that
    event, it left the cluster in `Event.set` for ever, which waits for the waiter to wake. It is killed with the
    cluster, and the others with it: they would run the periodic tasks next to the cluster that is started next.
    """

    def start(self) -> None:
        die_with_parent()
        register_after_fork(self, lambda _: die_with_parent())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # the forked processes end by this signal: so a task that takes too long is ended
        os.register_at_fork(after_in_child=partial(signal.signal, signal.SIGTERM, signal.SIG_DFL))
        super().start()


def _run_until_outdated(watch: upgrades.UpgradeWatch) -> None:
    """Wait for the end of the cluster's guard, and stop the cluster when this process is outdated.

    Raises: CommandError then, once the tasks that run have ended.
    """
    for guard in multiprocessing.active_children():
        while guard.is_alive():
            guard.join(upgrades.LOOK_EVERY_SECONDS)
            if guard.is_alive() and (found := watch.look()):
                log.warning("%s after this qcluster started: it ends once its running tasks have ended", found)
                signal.raise_signal(signal.SIGTERM)  # the cluster's handler returns once it has stopped
                raise CommandError(upgrades.OUTDATED, returncode=2)


def _answers() -> bool:
    """True if the database answers, False while it is down. Raises: CommandError when the tables are not this
    version's, or the database refuses for good.
    """
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
    """A filter for a database that is away while the cluster runs: a line a minute in place of a traceback a second."""

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


def _describe(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{moment(value)} UTC"
    return "none" if value is None else str(value)
