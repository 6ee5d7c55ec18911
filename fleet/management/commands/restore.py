import json
import signal
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from django.core.management.base import CommandError

from backups.restores import process, requests
from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import one_line
from declarations.unknown import named
from jobs.clock import database_clock
from sources.models import Source
from storage import layout
from storage.points.places import Report, Wish
from storage.points.store import Stopped, StorageFailed
from storage.points.trees import Tree
from storage.recover import showing
from storage.restoring import moments

LONGEST_LOOK_SECONDS = 3600.0
"""For the first look at a point of many files: a person at a terminal may wait, and end it."""


class Command(VerbCommand):
    help = (
        "Restore a source, or paths of it, as it was at a time, into a folder of this host. No worker is needed. It "
        "never writes over what is there unless that is asked for, and an interrupted restore goes on when it is "
        "repeated. Exit codes: 0; 1 when something could not be restored; 2 for bad usage, with nothing written, and "
        "for a list of what does not answer or is not where it was."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", metavar="SOURCE", help="name of a source")
        parser.add_argument("--policy", metavar="NAME", help="under which it was backed up, if it has several")
        parser.add_argument(
            "--from", metavar="NAME", dest="repository",
            help="the repository: that of its backups, or one with copies of them (the first that has the point)",
        )  # fmt: skip
        parser.add_argument(
            "--foreign", action="store_true",
            help="also the foreign point that --at names: no backup of ours has written it so; it may hold anything",
        )  # fmt: skip
        showing.add_options(parser, "the policy")
        parser.set_defaults(verb="restore")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with _interrupted_by_sigterm():
                super().handle(*args, **options)
        except (Stopped, KeyboardInterrupt) as error:
            raise CommandError("stopped; the same command goes on where it was", returncode=1) from error

    def _restore(self, options: dict[str, Any]) -> None:
        assignment = requests.assignment_of(named(Source.objects, options["source"]), options["policy"])
        zone = assignment.policy.schedule.period.tzinfo
        now = database_clock()
        try:
            if options["list"]:
                points = requests.points_of(assignment, options["repository"])

                def tree_of(point: str) -> AbstractContextManager[Tree]:
                    return process.tree_of(points[point], assignment.directory, point, LONGEST_LOOK_SECONDS)

                rows, line = showing.listed(list(points), tree_of, options, now, zone)
                self.stdout.write(json.dumps(rows) if options["json"] else "\n".join(map(line, rows)) or "nothing")
                return
            which = {"only": options["repository"], "foreign": options["foreign"]}
            point, points = requests.choose(assignment, options["at"], now, **which)
            target = Path(options["to"]).resolve()
            wish = Wish(
                assignment.directory, point, target, tuple(options["path"]),
                overwrite=options["overwrite"], dry_run=options["dry_run"],
            )  # fmt: skip
            if not options["json"]:
                at = moments.in_zone(layout.instant_of(point), zone)
                self.stdout.write(f"{assignment.source} as of {at} (point {point}, times in {zone})")
            with showing.Shown(self.stdout.write, as_json=options["json"]) as shown:
                report = process.restore(points[point], wish, Event(), shown, foreign=options["foreign"])
        except StorageFailed as error:
            if options["list"]:
                raise CommandError(one_line(error), returncode=2) from error
            raise CommandError(f"{one_line(error)}. The same command goes on where it was.", returncode=1) from error
        self._report(report, options)

    def _report(self, report: Report, options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps({"restored": asdict(report), "dry_run": options["dry_run"]}))
        else:
            self.stdout.write("\n".join(showing.describe(report, dry_run=options["dry_run"])))
        if report.failed_files:
            raise CommandError(f"{showing.counted(report.failed_files)} not restored", returncode=1)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
