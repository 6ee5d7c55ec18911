import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sources.fleet import FleetError, FleetReport, import_fleet


class Command(BaseCommand):
    help = (
        "Import repositories, retry policies, policies and sources from a fleet file (JSON, docs/operations.md). Rows "
        "are matched by name: importing again changes only what the file changed, and leaves alone what it does not "
        "name. A source's policies in the file are all it has; an assignment that the file takes away is deleted "
        "unless it has backups. Relative repository locations count from the file's directory. With any error "
        "nothing is imported."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.json", help="the fleet file; - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="check and report, import nothing")
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        origin = options["file"]
        folder = Path.cwd() if origin == "-" else Path(origin).resolve().parent
        try:
            report = import_fleet(_read(origin), Path(origin).name, folder=folder, dry_run=options["dry_run"])
        except FleetError as error:
            count = len(error.errors)
            lines = "\n".join(f"  {line}" for line in error.errors)
            raise CommandError(f"nothing was imported, {count} error(s):\n{lines}", returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(report)))
            return
        self.stdout.write(_table(report, options["dry_run"]))


def _read(origin: str) -> object:
    """The parsed file. Raises: CommandError saying where it is wrong."""
    try:
        text = sys.stdin.read() if origin == "-" else Path(origin).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise CommandError(f"cannot read {origin}: {error.strerror}", returncode=2) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{origin} is not UTF-8 text: {error}", returncode=2) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise CommandError(f"{origin} is not JSON: {error.msg} at {where}", returncode=2) from error


def _table(report: FleetReport, dry_run: bool) -> str:
    lines = [f"{'':16}{'created':>9}{'changed':>9}{'unchanged':>11}"]
    lines += [
        f"{name.replace('_', ' '):16}{report.created[name]:>9}{report.changed[name]:>9}{report.unchanged[name]:>11}"
        for name in report.created
    ]
    lines.append(f"{report.emitted} backups put on the backlog")
    if dry_run:
        lines.append("dry run: nothing was kept")
    return "\n".join(lines)
