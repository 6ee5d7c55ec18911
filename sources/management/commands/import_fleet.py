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
        "name. The policies of a source in the file are all it has (left out: they stay as they are); an assignment "
        "that the file takes away is deleted, and if it has backups that is an error. Relative repository locations "
        "count from the file's directory. Rows are counted from 0 in messages. With any error nothing is imported, "
        "and the exit code is 2."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.json", help="the fleet file; - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="check and report, import nothing")
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        origin = options["file"]
        folder = Path.cwd() if origin == "-" else Path(origin).absolute().parent
        name = "standard input" if origin == "-" else Path(origin).name
        try:
            report = import_fleet(_read(origin), name, folder=folder, dry_run=options["dry_run"])
        except FleetError as error:
            count = len(error.errors)
            lines = "\n".join(f"  {line}" for line in error.errors)
            raise CommandError(f"nothing was imported, {count} error(s):\n{lines}", returncode=2) from error
        except RecursionError as error:  # what JSON reads may still be too deep for whoever walks it
            raise CommandError(f"nothing was imported: {name} is nested too deeply", returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(report)))
            return
        self.stdout.write(_table(report, options["dry_run"]))


def _read(origin: str) -> object:
    """The parsed file. Raises: CommandError saying where it is wrong."""
    try:
        content = sys.stdin.buffer.read() if origin == "-" else Path(origin).read_bytes()
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once_each, parse_constant=_refuse)
    except OSError as error:
        raise CommandError(f"cannot read {origin}: {error.strerror}", returncode=2) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{origin} is not UTF-8 text: {error}", returncode=2) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        said = error.msg.removesuffix(" at")
        raise CommandError(f"{origin} is not JSON: {where}: {said}", returncode=2) from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{origin} cannot be read: {error}", returncode=2) from error


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises: ValueError when a key stands in it twice; JSON itself would drop the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        name = f" (in the row named {found['name']!r})" if "name" in found else ""
        raise ValueError(f"the key {twice!r} stands twice in one object{name}")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _table(report: FleetReport, dry_run: bool) -> str:
    lines = [f"{'':16}{'created':>9}{'changed':>9}{'unchanged':>11}"]
    lines += [
        f"{name.replace('_', ' '):16}{report.created[name]:>9}{report.changed[name]:>9}{report.unchanged[name]:>11}"
        for name in report.created
    ]
    if report.removed:
        lines.append(f"{report.removed} assignments removed")
    if not (any(report.created.values()) or any(report.changed.values()) or report.removed):
        lines.append("nothing changed")
    lines.append(f"{report.emitted} backups put on the backlog")
    lines += [f"warning: {warning}" for warning in report.warnings]
    if dry_run:
        lines.append("dry run: nothing was kept")
    return "\n".join(lines)
