import json
import signal
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import Any

from django.core.management.base import CommandError

from backups.restores import process, requests
from backups.specifications import specification_as
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import one_line
from declarations.unknown import named
from engines.kinds import RULES
from external.formatting import several
from fleet.management.restores.points import add_source
from jobs.clock import database_clock
from sources.declarations import resources, validation
from sources.models import Assignment, Restore, Source, To
from storage import layout
from storage.points.store import StorageFailed, StorageStopped
from storage.recover import showing
from storage.restoring import moments
from storage.restoring.base import Report, Wish

TERMS = ("trusted", "roles_with_rights")
"""Permissions that a user may grant for a dump, as they are declared."""
HELP = (
    "Restore a source, or paths of it, as it was at a time: into a folder on this host, back to the source, or "
    "a database as a new one at its server. No worker is needed. Nothing is replaced without --overwrite, and "
    "an interrupted restore continues when it is repeated. Exit codes: 0; 1 when something could not be "
    "restored; 2 for bad usage, with nothing written."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_source(parser)
    showing.add_point(parser, "the policy")
    parser.add_argument(
        "--foreign", action="store_true",
        help=(
            "also a foreign point that --at names: it was not written as it is by a backup of this "
            "installation, and may hold anything"
        ),
    )  # fmt: skip
    where = showing.add_target(parser)
    where.add_argument(
        "--back", nargs="?", const="", metavar="FOLDER",
        help="back to the source: in place, or into a folder below its path",
    )  # fmt: skip
    where.add_argument(
        "--database", metavar="NAME",
        help="for a database: restore it as a new one with this name at its server; an existing one is never touched",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true", dest="dry_run",
        help="the same as --dry-run: a database's server is asked, and what would be left out is named (exit code 1)",
    )  # fmt: skip
    parser.add_argument("--user", metavar="NAME", default="", help=_described("user"))
    parser.add_argument("--secret", metavar="REFERENCE", default="", help=_described("secret"))
    for name in TERMS:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=_described(name))
    parser.add_argument("--yes", action="store_true", help="replace what the source holds without asking")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    try:
        with _interrupted_by_sigterm():
            _restore(command, options)
    except (StorageStopped, KeyboardInterrupt) as error:
        raise CommandError("stopped; the same command continues where it was", returncode=1) from error


def _restore(command: TerminalCommand, options: dict[str, Any]) -> None:
    assignment = requests.assignment_of(named(Source.objects, options["source"]), options["policy"])
    zone = assignment.policy.schedule.period.tzinfo
    how: dict[str, Any] = {"foreign": options["foreign"]}
    if options["back"] is not None:
        how |= _back(assignment, options)
    elif options["database"] is not None:
        how |= _into_database(assignment, options)
    try:
        which = {"only": options["repository"], "foreign": options["foreign"]}
        point, points = requests.choose(assignment, options["at"], database_clock(), **which)
        wish = Wish(
            assignment.directory, point, _target(options), tuple(options["path"]),
            overwrite=options["overwrite"], dry_run=options["dry_run"],
        )  # fmt: skip
        if not _is_agreed(command, assignment, options):
            return
        if not options["json"]:
            at = moments.in_zone(layout.instant_of(point), zone)
            command.stdout.write(f"{assignment.source} as of {at} (point {point}, times in {zone})")
        with showing.ProgressDisplay(command.stdout.write, as_json=options["json"]) as shown:
            report = process.restore(points[point], wish, Event(), shown, **how)
    except StorageFailed as error:
        raise CommandError(showing.to_be_repeated(one_line(error)), returncode=1) from error
    _report(command, report, options)


def _target(options: dict[str, Any]) -> Path:
    if options["back"] is not None or options["database"] is not None:
        return Path(options["database"] or options["back"] or "")
    return Path(options["to"]).resolve()


def _is_agreed(command: TerminalCommand, assignment: Assignment, options: dict[str, Any]) -> bool:
    """True if files of the source may be replaced, which no other restore does."""
    if options["back"] is None or not options["overwrite"] or options["dry_run"]:
        return True
    return command.is_agreed(options, f"Replace what differs in {one_line(assignment.source)}?")


def _report(command: TerminalCommand, report: Report, options: dict[str, Any]) -> None:
    if options["json"]:
        command.stdout.write(json.dumps({"restored": asdict(report), "dry_run": options["dry_run"]}))
    else:
        command.stdout.write("\n".join(showing.describe(report, dry_run=options["dry_run"])))
    if report.failed_files:
        verb = "would be left out" if options["dry_run"] else "not restored"
        raise CommandError(f"{several(report.failed_files, report.what)} {verb}", returncode=1)


def _described(name: str) -> str:
    """The declared description of an option."""
    return str(resources.RestoreDeclaration.model_fields[name].description)


def _back(assignment: Assignment, options: dict[str, Any]) -> dict[str, Any]:
    """Arguments with which `process.restore` writes to the source. Raises: ValidationError as in the web."""
    source = assignment.source
    validation.check_restore_target(To.SOURCE, options["back"])
    validation.check_restore_account(To.SOURCE, options["user"], options["secret"])
    place = requests.Restores(by=caller()).place_of(
        Restore(assignment=assignment, to=To.SOURCE, target=options["back"])
    )
    specification = specification_as(source, "", "")
    return {"do": "put_back", "source": replace(specification, path=place) if place else specification}


def _into_database(assignment: Assignment, options: dict[str, Any]) -> dict[str, Any]:
    """Arguments with which `process.restore` makes a database. Raises: CommandError, ValueError."""
    source = assignment.source
    if not RULES[source.kind].is_database:
        raise CommandError(f"{source.name} is not a database: name a folder, by --to", returncode=2)
    if "/" in options["database"]:
        raise CommandError("--database names a new database, or a file next to the source's", returncode=2)
    validation.check_restore_target(To.DATABASE, options["database"])
    validation.check_restore_account(To.DATABASE, options["user"], options["secret"])
    specification = specification_as(source, options["user"], options["secret"])
    loader = process.scratch_for(source.kind, needs_server=False)
    terms = {name: options[name] for name in TERMS}
    return {"do": "create_database", "source": specification, "loader": loader, "terms": terms}


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
