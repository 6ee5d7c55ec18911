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
from backups.specifications import specification_as
from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import one_line
from declarations.unknown import named
from engines.kinds import RULES
from external.formatting import several
from jobs.clock import database_clock
from sources.declarations import resources, validation
from sources.models import Assignment, Source, To
from storage import layout
from storage.points.places import Report, Wish
from storage.points.store import Stopped, StorageFailed
from storage.points.trees import Tree
from storage.recover import showing
from storage.restoring import moments

TERMS = ("trusted", "roles_with_rights")
"""What may be allowed for a dump, as it is declared."""
LONGEST_LOOK_SECONDS = 3600.0
"""For the first look at a point of many files: a person at a terminal may wait, and end it."""


class Command(VerbCommand):
    help = (
        "Restore a source, or paths of it, as it was at a time, into a folder of this host, or a database as a new one "
        "at its server. No worker is needed. It "
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
        where = showing.add_options(parser, "the policy")
        where.add_argument(
            "--database", metavar="NAME",
            help="of a database: as a new one at its server, of this name; it is never one that is there",
        )  # fmt: skip
        parser.add_argument(
            "--check", action="store_true", dest="dry_run",
            help="as --dry-run; a database's server is asked, and what would be left out is named (exit code 1)",
        )  # fmt: skip
        parser.add_argument("--user", metavar="NAME", default="", help=_described("user"))
        parser.add_argument("--secret", metavar="REFERENCE", default="", help=_described("secret"))
        for name in TERMS:
            parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=_described(name))
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
            into = _into_database(assignment, options) if options["database"] is not None else {}
            target = Path(options["database"]) if into else Path(options["to"]).resolve()
            wish = Wish(
                assignment.directory, point, target, tuple(options["path"]),
                overwrite=options["overwrite"], dry_run=options["dry_run"],
            )  # fmt: skip
            if not options["json"]:
                at = moments.in_zone(layout.instant_of(point), zone)
                self.stdout.write(f"{assignment.source} as of {at} (point {point}, times in {zone})")
            with showing.Shown(self.stdout.write, as_json=options["json"]) as shown:
                report = process.restore(points[point], wish, Event(), shown, foreign=options["foreign"], **into)
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
            verb = "would be left out" if options["dry_run"] else "not restored"
            raise CommandError(f"{several(report.failed_files, report.what)} {verb}", returncode=1)


def _described(name: str) -> str:
    """As it is declared."""
    return str(resources.Restore.model_fields[name].description)


def _into_database(assignment: Assignment, options: dict[str, Any]) -> dict[str, Any]:
    """How `process.restore` makes a database. Raises: CommandError, ValueError."""
    source = assignment.source
    if not RULES[source.kind].is_database:
        raise CommandError(f"{source.name} is no database: name a folder, by --to", returncode=2)
    if "/" in options["database"]:
        raise CommandError("--database names a new database, or a file beside the source's", returncode=2)
    validation.check_restore_target(To.DATABASE, options["database"])
    validation.check_restore_account(To.DATABASE, options["user"], options["secret"])
    specification = specification_as(source, options["user"], options["secret"])
    loader = process.scratch_for(source.kind, needs_server=False)
    terms = {name: options[name] for name in TERMS}
    return {"do": "create_database", "source": specification, "loader": loader, "terms": terms}


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
