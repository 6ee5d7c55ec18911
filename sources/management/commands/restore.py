import json
import sys
import threading
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from jobs.clock import database_clock
from operations.backlog.rendering import plain
from operations.management.base import TerminalCommand
from sources.management.names import named
from sources.models import Assignment, Source
from sources.restores import process
from sources.storage import layout, listing, moments
from sources.storage.manifests import ManifestDamaged
from sources.storage.restoring import Report, Step, Wish
from sources.storage.store import Stopped, StorageFailed


class Command(TerminalCommand):
    help = (
        "Restore a source, or paths of it, as it was at a time, into a folder of this host. No worker is needed. It "
        "never writes over what is there unless that is asked for, and an interrupted restore goes on when it is "
        "repeated. Exit codes: 0; 1 when something could not be restored; 2 for bad usage, with nothing written."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", metavar="SOURCE", help="name of a source")
        parser.add_argument("--policy", metavar="NAME", help="under which it was backed up, if it has several")
        parser.add_argument(
            "--at", metavar="TIME",
            help="the newest point at or before: 24h (ago), yesterday, 2026-03-02 (its end), 2026-03-02T12:00 in the "
            "zone of the policy, 2026-03-02T12:00+01:00, or the name of a point (the newest)",
        )  # fmt: skip
        parser.add_argument(
            "--path", action="append", default=[], metavar="PATH",
            help="a file or folder of the source, without / before it; several: give it again (all)",
        )  # fmt: skip
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--to", type=Path, metavar="FOLDER", help="where to: paths below it are those of the source")
        what.add_argument("--list", action="store_true", help="show the points; with --at or --path what a folder held")
        parser.add_argument("--overwrite", action="store_true", help="also into a folder that is not empty: replace what differs; other files stay")  # fmt: skip  # noqa: E501
        parser.add_argument(
            "--dry-run", action="store_true", help="count, and name what would be replaced; write nothing"
        )
        parser.add_argument("--json", action="store_true", help="print JSON; while it runs, an object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        assignment = _assignment(options["source"], options["policy"])
        repository, zone = assignment.policy.repository, assignment.policy.schedule.period.tzinfo
        store = process.store_of(repository, threading.Event())
        try:
            points = moments.points_of(store, assignment.directory)
            if options["list"] and not (options["at"] or options["path"]):
                self._show(listing.of_points(points, zone), listing.line_of_point, options)
                return
            point = moments.choose(points, options["at"], database_clock(), zone)
            if options["list"]:
                for path in options["path"] or [""]:
                    rows = listing.of_folder(store, assignment.directory, point, path.rstrip("/"), process.cache())
                    self._show(list(rows), listing.line_of_entry, options)
                return
            target = Path(options["to"]).absolute()
            wish = Wish(
                assignment.directory, point, target, tuple(options["path"]),
                overwrite=options["overwrite"], dry_run=options["dry_run"],
            )  # fmt: skip
            if not options["json"]:
                at = moments.in_zone(layout.instant_of(point), zone)
                self.stdout.write(f"{assignment.source} as of {at} (point {point}, times in {zone})")
            with _Shown(self, as_json=options["json"]) as shown:
                report = process.restore(repository, wish, threading.Event(), shown)
        except ValueError as error:
            raise CommandError(plain(error).plain, returncode=2) from error
        except (StorageFailed, ManifestDamaged) as error:
            raise CommandError(f"{plain(error).plain}. The same command goes on where it was.", returncode=1) from error
        except (Stopped, KeyboardInterrupt) as error:
            raise CommandError("stopped; the same command goes on where it was", returncode=1) from error
        self._report(report, options)

    def _show(self, rows: list[dict[str, Any]], line: Any, options: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(rows) if options["json"] else "\n".join(map(line, rows)) or "nothing")

    def _report(self, report: Report, options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps({"restored": asdict(report), "dry_run": options["dry_run"]}))
        else:
            for sentence in describe(report, dry_run=options["dry_run"]):
                self.stdout.write(listing.printable(sentence))
        if report.failed_files:
            raise CommandError(f"{report.failed_files:,} files were not restored", returncode=1)


def describe(report: Report, *, dry_run: bool) -> list[str]:
    """What was restored, in sentences."""
    verb = "would be restored" if dry_run else "were restored"
    lines = [f"{report.files:,} files with {report.size:,} bytes {verb} to {report.target}"]
    if report.present:
        lines.append(f"{report.present:,} files are there already, as they should be")
    if report.replaced:
        names = ", ".join(report.collisions[:10]) + (", …" if report.replaced > 10 else "")
        lines.append(f"{report.replaced:,} files that differ {'would be' if dry_run else 'were'} replaced: {names}")
    return [
        *lines,
        *(f"not set: {each}" for each in report.not_set),
        *(f"not restored: {each}" for each in report.failed),
    ]


def _assignment(source_name: str, policy_name: str | None) -> Assignment:
    """Raises: CommandError for a source or policy that is not there, and for one of several that is not named."""
    source = named(Source.objects, source_name, "source")
    rows = Assignment.objects.select_related("source", "policy__schedule", "policy__repository").filter(source=source)
    if policy_name is not None:
        found: Assignment = named(rows, policy_name, f"policy of {source.name}", "policy__schedule__name")
        rows = rows.filter(pk=found.pk)
    if backed_up := list(rows.exclude(directory="").order_by("pk")):
        if len(backed_up) > 1:
            names = " or ".join(f"--policy {str(each.policy)!r}" for each in backed_up)
            raise CommandError(f"{source.name} is backed up under several policies: add {names}", returncode=2)
        return backed_up[0]
    raise CommandError(f"{source.name} has not been backed up yet: there is nothing to restore", returncode=2)


class _Shown:
    """Shows how far it is: a bar at a terminal, an object a line as JSON, else nothing."""

    def __init__(self, command: Command, *, as_json: bool) -> None:
        self._command, self._as_json = command, as_json
        columns = (BarColumn(), DownloadColumn(), TextColumn("{task.fields[files]} files"), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(file=sys.stderr), disable=as_json or not sys.stderr.isatty())
        self._task = self._bar.add_task("", files="")

    def __enter__(self) -> "_Shown":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, step: Step) -> None:
        if self._as_json:
            self._command.stdout.write(json.dumps(asdict(step)))
        files = f"{step.files_done:,} of {step.files_total:,}"
        self._bar.update(self._task, completed=step.bytes_done, total=step.bytes_total, files=files)
