import json
import time
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db.utils import Error
from pydantic_core import to_jsonable_python

from declarations.surfaces.commands.base import TerminalCommand, unanswered
from declarations.surfaces.terminal import one_line
from external.formatting import several
from fleet.files import formats
from fleet.files.apply import apply_fleet
from fleet.files.schema import Change, FleetError, FleetReport

SIGNS = {"create": "+", "change": "~", "delete": "-"}
MOST_SHOWN = 1_000
"""The most changes that are printed. --json has all."""

LONGEST_VALUE = 200
SAY_EVERY_SECONDS = 2.0


class Command(TerminalCommand):
    help = (
        "Apply the declarations of a fleet file (JSON or YAML, docs/fleet-files.md): repositories, retry policies, "
        "throttles, endpoints, schedules, policies, sources, alert routes. Rows are matched by name: what a row does "
        "not name keeps its value, and applying a file again changes nothing. The policies of a source in the file "
        "are all it has (left out: they stay). Relative repository locations count from the file's directory. Rows "
        "are counted from 0 in messages. With any error nothing is kept, and the exit code is 2."
    )
    _said_at = 0.0

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the fleet file; - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
        parser.add_argument("--json", action="store_true", help="print the report as JSON")
        parser.add_argument(
            "--force", action="store_true",
            help="accept repositories also where other files are, or points are missing (repositories set --help)",
        )  # fmt: skip
        parser.add_argument(
            "--prune", action="store_true",
            help="delete what the sections of the file do not name; a section that is left out is left alone",
        )  # fmt: skip
        parser.add_argument("--yes", action="store_true", help="delete without asking")

    def handle(self, *args: Any, **options: Any) -> None:
        prune, dry_run, self._said_at = options["prune"], options["dry_run"], time.monotonic()
        try:
            data = formats.read(options["file"])
        except formats.UnreadableFile as error:
            raise CommandError(str(error), returncode=2) from error
        if prune and not dry_run and not options["yes"]:
            planned = self._apply(data, options, prune=True, dry_run=True)
            if count := planned.count("delete"):
                if not options["json"]:
                    self._print(planned, options, "")
                if not self.is_agreed(options, f"Delete {several(count, 'row')}?"):
                    return
        report = self._apply(data, options, prune=prune, dry_run=dry_run)
        self._print(report, options, "dry run: nothing was kept" if dry_run else "")

    def _apply(self, data: Any, options: dict[str, Any], *, prune: bool, dry_run: bool) -> FleetReport:
        file = options["file"]
        folder = Path.cwd() if file == "-" else Path(file).absolute().parent
        name = "standard input" if file == "-" else Path(file).name
        try:
            return apply_fleet(
                data, name, folder=folder, dry_run=dry_run, prune=prune, force=options["force"],
                on_progress=self._say_how_far,
            )  # fmt: skip
        except FleetError as error:
            count = len(error.errors)
            lines = "\n".join(f"  {one_line(line)}" for line in error.errors)
            raise CommandError(f"nothing was changed, {count} error(s):\n{lines}", returncode=2) from error
        except Error as error:
            raise unanswered(error, "nothing was changed: ") from error
        except RecursionError as error:  # values that JSON accepts may still be nested too deeply
            raise CommandError(f"nothing was changed: {name} is nested too deeply", returncode=2) from error

    def _say_how_far(self, section: str, done: int, total: int) -> None:
        """Report the progress of a long section now and then."""
        if (now := time.monotonic()) - self._said_at >= SAY_EVERY_SECONDS:
            self._said_at = now
            self.stderr.write(f"{section}: {done:,} of {total:,}", self.style.NOTICE)

    def _print(self, report: FleetReport, options: dict[str, Any], last: str) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(to_jsonable_python(asdict(report)), ensure_ascii=False))
            return
        for change in report.changes[:MOST_SHOWN]:
            self.stdout.write("\n".join(_lines(change)))
        if len(report.changes) > MOST_SHOWN:
            self.stdout.write(f"… and {len(report.changes) - MOST_SHOWN:,} more; --json has all")
        counts = ", ".join(f"{report.count(action):,} to {action}" for action in SIGNS)
        self.stdout.write(
            f"{counts}, {sum(report.unchanged.values()):,} unchanged" if report.changes else "nothing changed"
        )
        if report.emitted:
            put = "would be put on the backlog" if options["dry_run"] else "put on the backlog"
            self.stdout.write(f"{put}: {several(report.emitted, 'backup')}")
        for line in [*(f"warning: {each}" for each in report.warnings), *([last] if last else [])]:
            self.stdout.write(one_line(line))


def _lines(change: Change) -> list[str]:
    """Lines such as `~ change policy daily`, and below it each field with its old and new value."""
    return [
        f"{SIGNS[change.action]} {change.action} {change.title} {one_line(change.name)}",
        *(f"    {name}: {_shown(old)} → {_shown(new)}" for name, (old, new) in change.fields.items()),
    ]


def _shown(value: Any) -> str:
    text = one_line(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
