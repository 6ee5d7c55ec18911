import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error

from declarations.surfaces.terminal import text_of
from external.formatting import several
from jobs import database_errors
from operations.conditions import examine, names
from operations.finding import ExaminedCondition, Finding, Severity

if TYPE_CHECKING:
    from rich.console import RenderableType

COLOURS = {Severity.PROBLEM: "bold red", Severity.WARNING: "yellow", Severity.OK: "green"}
"""The worst first."""


class Command(BaseCommand):
    help = (
        "Examine the running system, and report what is wrong and what to do: the settings, the database and "
        "its health, the workers, the queues. It changes nothing and takes a second or two. Exit code 0: no "
        "problem (warnings do not fail); 1: at least one problem; 2: the database is away, or bad usage. "
        "docs/trouble.md explains each finding."
    )
    # the doctor itself reports the problems with which system checks would end it
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="print a list of {name, severity, what, do, numbers, found}"
        )
        parser.add_argument(
            "--skip",
            action="append",
            default=[],
            metavar="NAME",
            help="leave this finding out, since you accept it; may be given more than once",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if unknown := [name for name in options["skip"] if name not in names()]:
            raise CommandError(f"--skip: no finding {unknown[0]!r}; there are {', '.join(names())}", returncode=2)
        try:
            findings = examine(skip=options["skip"])
        except Error as error:
            raise CommandError(
                database_errors.describe(error) or database_errors.describe_away(error), returncode=2
            ) from error
        if options["json"]:
            facts = [asdict(each) | {"found": list(map(_facts, each.found))} for each in findings]
            self.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False, default=str))
        else:
            colours = options["force_color"] or (self.stdout.isatty() and not options["no_color"])
            self.stdout.write(text_of(report(findings), terminal=colours))
        if any(finding.severity is Severity.PROBLEM for finding in findings):
            sys.exit(1)


def _facts(finding: Finding) -> dict[str, Any]:
    since = finding.since and finding.since.isoformat()
    return {
        "subject": finding.subject, "since": since, "severity": finding.severity, "text": finding.text,
        "remedy": finding.remedy,
    }  # fmt: skip


def report(findings: Sequence[ExaminedCondition]) -> "RenderableType":
    """A table, the worst first, and one line such as “1 problem, 2 warnings, 15 ok”."""
    from rich.console import Group  # late: only printing needs them
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for finding in sorted(findings, key=lambda finding: list(COLOURS).index(finding.severity)):
        about = [Text(finding.what), *([Text(f"→ {finding.do}", "bold")] if finding.do else [])]
        grid.add_row(Text(finding.severity, COLOURS[finding.severity]), finding.name, Group(*about))
    counts = Counter(finding.severity for finding in findings)
    problems, warnings = several(counts[Severity.PROBLEM], "problem"), several(counts[Severity.WARNING], "warning")
    return Group(grid, Text(f"{problems}, {warnings}, {counts[Severity.OK]} ok"))
